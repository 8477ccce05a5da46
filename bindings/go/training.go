package rlx

import (
	"encoding/json"
	"runtime"
	"slices"
	"unsafe"
)

// Training trains the params of a graph whose first output is the loss, a float scalar.
type Training struct {
	handle
	lib     *Library
	outputs int
}

// named are tensors by name, as two arrays of the library.
func named(values map[string]*Tensor) ([]*byte, []unsafe.Pointer) {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	tensors := make([]unsafe.Pointer, len(names))
	for i, name := range names {
		tensors[i] = values[name].pointerOf()
	}
	return cStrings(names), tensors
}

func (t *Tensor) pointerOf() unsafe.Pointer {
	if t == nil {
		return nil
	}
	return t.handle.pointerOf()
}

// NewTraining begins to train `loss` from these values of its params. config is text in the form of attributes, as
// rlx/c.h has it: {optimizer = "adamw", learning_rate = {peak = 0.001}}; "" for the defaults.
func (s *Session) NewTraining(loss *Graph, params map[string]*Tensor, config string) (*Training, error) {
	defer runtime.KeepAlive(s)
	defer runtime.KeepAlive(loss)
	defer runtime.KeepAlive(params)
	names, values := named(params)
	var text *byte
	if config != "" {
		text = cString(config)
	}
	var made, e unsafe.Pointer
	status := s.lib.c.TrainingCreate(s.pointerOf(), loss.pointerOf(), firstOf(names), firstOf(values), uintptr(len(names)), text, &made, &e)
	if err := s.lib.failure(status, e); err != nil {
		return nil, err
	}
	t := &Training{lib: s.lib, outputs: loss.count(2)}
	own(t, &t.handle, made, s.lib.c.TrainingFree)
	return t, nil
}

// StepResult is what a step did.
type StepResult struct {
	Loss, GradNorm, LearningRate, LossScale float64
	// Step counts those that were made.
	Step int64
	// Path is how the params were updated.
	Path UpdatePath
	// Skipped: a gradient overflowed in f16, and nothing was updated.
	Skipped bool
}

// UpdatePath is how a step updates params.
type UpdatePath int

const (
	// UpdateByGradient: the gradients come out of one graph, and the optimizer reads them.
	UpdateByGradient UpdatePath = iota
	// UpdateFused: one graph has the gradients and the update.
	UpdateFused
	// UpdateByDevice: the device has means of its own.
	UpdateByDevice
)

// Step makes a step of the batch, given by name; with accumulate its gradients are added to those that wait.
func (t *Training) Step(batch map[string]*Tensor, accumulate bool) (StepResult, error) {
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(batch)
	names, values := named(batch)
	result := &cStepResult{structSize: unsafe.Sizeof(cStepResult{})}
	var e unsafe.Pointer
	status := t.lib.c.TrainingStep(t.pointerOf(), firstOf(names), firstOf(values), uintptr(len(names)), number(accumulate), result, nil, 0, &e)
	if err := t.lib.failure(status, e); err != nil {
		return StepResult{}, err
	}
	return StepResult{result.loss, result.gradNorm, result.learningRate, result.lossScale, result.step, UpdatePath(result.path), result.skipped != 0}, nil
}

// StepAccumulated makes one step by the mean of the gradients that wait, and says of how many.
func (t *Training) StepAccumulated() (int64, error) {
	defer runtime.KeepAlive(t)
	var count int64
	var e unsafe.Pointer
	status := t.lib.c.TrainingAccumulated(t.pointerOf(), &count, &e)
	return count, t.lib.failure(status, e)
}

// Evaluate gives all outputs of the loss graph, by the params as they are or by their moving means.
func (t *Training) Evaluate(batch map[string]*Tensor, averaged bool) ([]*Tensor, error) {
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(batch)
	names, values := named(batch)
	outputs := make([]unsafe.Pointer, t.outputs)
	var e unsafe.Pointer
	status := t.lib.c.TrainingEvaluate(t.pointerOf(), firstOf(names), firstOf(values), uintptr(len(names)), number(averaged),
		firstOf(outputs), uintptr(len(outputs)), &e)
	if err := t.lib.failure(status, e); err != nil {
		return nil, err
	}
	return t.lib.tensors(outputs), nil
}

// SetLearningRate makes the rate constant from now on.
func (t *Training) SetLearningRate(rate float64) error {
	defer runtime.KeepAlive(t)
	var e unsafe.Pointer
	return t.lib.failure(t.lib.c.TrainingSetRate(t.pointerOf(), rate, &e), e)
}

// Param is a param, or its moving mean, as it is now.
func (t *Training) Param(name string, averaged bool) (*Tensor, error) {
	defer runtime.KeepAlive(t)
	var made, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.TrainingParam(t.pointerOf(), name, number(averaged), &made, &e), e); err != nil {
		return nil, err
	}
	return t.lib.tensor(made), nil
}

// Save writes a checkpoint with notes of the caller.
func (t *Training) Save(path string, notes map[string]string) error {
	defer runtime.KeepAlive(t)
	var names, texts []string
	for name, text := range notes {
		names, texts = append(names, name), append(texts, text)
	}
	first, second := cStrings(names), cStrings(texts)
	var e unsafe.Pointer
	return t.lib.failure(t.lib.c.TrainingSave(t.pointerOf(), path, firstOf(first), firstOf(second), uintptr(len(names)), &e), e)
}

// Load goes on from a checkpoint, and gives its notes.
func (t *Training) Load(path string) (map[string]string, error) {
	defer runtime.KeepAlive(t)
	var text, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.TrainingLoad(t.pointerOf(), path, &text, &e), e); err != nil {
		return nil, err
	}
	notes := map[string]string{}
	err := json.Unmarshal([]byte(goString(text)), &notes)
	return notes, err
}
