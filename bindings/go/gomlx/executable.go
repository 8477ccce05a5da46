package gomlx

import (
	"context"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	rlx "rlx.invalid/go"
)

// Executable is a compiled computation. Execute may be called by many goroutines at once.
type Executable struct {
	backend         *Backend
	name            string
	compiled        *rlx.Compiled
	names           []string
	inputs, outputs []shapes.Shape
	written         []shapes.Shape // of the inputs: of a state that is carried as words theirs
	dynamic         bool
	finalized       bool
}

var _ compute.Executable = (*Executable)(nil)

func newExecutable(b *Builder, compiled *rlx.Compiled) *Executable {
	e := &Executable{backend: b.backend, name: b.name, compiled: compiled, names: b.main.names}
	for _, each := range b.inputs() {
		e.written = append(e.written, each.shape)
	}
	for _, each := range b.main.params {
		e.inputs = append(e.inputs, each.shape)
		e.dynamic = e.dynamic || each.shape.IsDynamic()
	}
	for _, each := range b.main.outputs {
		e.outputs = append(e.outputs, each.shape)
		e.dynamic = e.dynamic || each.shape.IsDynamic()
	}
	return e
}

// Finalize frees the program.
func (e *Executable) Finalize() {
	e.compiled.Close()
	e.finalized = true
}

// Inputs are the parameters' names and shapes.
func (e *Executable) Inputs() ([]string, []shapes.Shape) {
	return slices.Clone(e.names), slices.Clone(e.inputs)
}

// Outputs are the shapes of what Execute gives.
func (e *Executable) Outputs() []shapes.Shape { return slices.Clone(e.outputs) }

// Execute runs the computation. A donated buffer is gone afterwards, and its memory serves a later one.
func (e *Executable) Execute(inputs []compute.Buffer, donate []bool, _ compute.DeviceNum) ([]compute.Buffer, error) {
	if e.finalized {
		return nil, errors.Errorf("the executable of %q was finalized", e.name)
	}
	if len(inputs) != len(e.inputs) {
		return nil, errors.Errorf("%q takes %d inputs, got %d", e.name, len(e.inputs), len(inputs))
	}
	if len(donate) != 0 && len(donate) != len(inputs) {
		return nil, errors.Errorf("donate has %d entries for %d inputs", len(donate), len(inputs))
	}
	buffers := make([]*Buffer, len(inputs))
	memory := make([][]byte, len(inputs)+len(e.outputs))
	for i, each := range inputs {
		u, ok := each.(*Buffer)
		if !ok || u == nil || u.backend != e.backend {
			return nil, errors.Errorf("input %d (%q) of %q is no buffer of this backend: %T", i, e.names[i], e.name, each)
		}
		bytes, err := u.read()
		if err != nil {
			return nil, errors.WithMessagef(err, "input %d (%q) of %q", i, e.names[i], e.name)
		}
		if !fits(u.shape, e.inputs[i]) {
			return nil, errors.Errorf("input %d (%q) of %q is %s, it takes %s", i, e.names[i], e.name, u.shape, e.inputs[i])
		}
		buffers[i], memory[i] = u, bytes
	}
	var results []compute.Buffer
	var err error
	if e.dynamic {
		results, err = e.runDynamic(buffers)
	} else {
		results, err = e.run(memory)
	}
	for i, given := range donate {
		if given {
			_ = buffers[i].Finalize()
		}
	}
	if err != nil {
		return nil, errors.Wrapf(err, "running %q", e.name)
	}
	return results, nil
}

func fits(given, wanted shapes.Shape) bool {
	if given.DType != wanted.DType || given.Rank() != wanted.Rank() {
		return false
	}
	for axis, size := range wanted.Dimensions {
		if size != shapes.DynamicDim && size != given.Dimensions[axis] {
			return false
		}
	}
	return true
}

// run is one call into the library, from the memory of the inputs into that of the outputs.
func (e *Executable) run(memory [][]byte) ([]compute.Buffer, error) {
	inputs, outputs := memory[:len(e.inputs)], memory[len(e.inputs):]
	results := make([]compute.Buffer, len(e.outputs))
	for i, shape := range e.outputs {
		made := e.backend.newBuffer(shape)
		outputs[i], results[i] = made.memory, made
	}
	return results, e.compiled.Call(inputs, outputs)
}

// runDynamic lets the library find the outputs' sizes.
func (e *Executable) runDynamic(buffers []*Buffer) ([]compute.Buffer, error) {
	given := make([]*rlx.Tensor, len(buffers))
	defer func() {
		for _, each := range given {
			if each != nil {
				each.Close()
			}
		}
	}()
	for i, u := range buffers {
		shape := u.shape
		if !e.inputs[i].Equal(e.written[i]) {
			shape = e.written[i]
		}
		t, err := e.backend.lib.NewTensorFromBytes(rlx.DType(dtypeNames[shape.DType]), shape.Dimensions, u.memory)
		if err != nil {
			return nil, err
		}
		given[i] = t
	}
	made, err := e.compiled.Run(context.Background(), given...)
	if err != nil {
		return nil, err
	}
	results := make([]compute.Buffer, len(made))
	for i, t := range made {
		shape := e.outputs[i]
		if shape.IsDynamic() {
			shape = shapes.Make(shape.DType, t.Dims()...)
		}
		result := e.backend.newBuffer(shape)
		copy(result.memory, t.Bytes())
		t.Close()
		results[i] = result
	}
	return results, nil
}
