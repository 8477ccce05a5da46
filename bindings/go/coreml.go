package rlx

import (
	"runtime"
	"unsafe"
)

// CoreML is an .mlpackage that was read.
type CoreML struct {
	handle
	lib *Library
}

// CoreMLOptions of [Library.LoadCoreML]; the zero value is the default.
type CoreMLOptions struct {
	// Function of a package with several; "" for the default one.
	Function string
	// F32 computes in f32 what the program computes in f16.
	F32     bool
	Threads int
	// Seed of random ops that have none; nil for a fresh one each run.
	Seed *uint64
}

// LoadCoreML reads an .mlpackage that holds an ML Program.
func (l *Library) LoadCoreML(path string, options CoreMLOptions) (*CoreML, error) {
	c := &cCoremlOptions{structSize: unsafe.Sizeof(cCoremlOptions{}), f32: number(options.F32), threads: int32(options.Threads)}
	if options.Function != "" {
		c.function = cString(options.Function)
	}
	if options.Seed != nil {
		c.seeded, c.seed = 1, *options.Seed
	}
	var made, e unsafe.Pointer
	if err := l.failure(l.c.CoremlLoad(path, c, &made, &e), e); err != nil {
		return nil, err
	}
	m := &CoreML{lib: l}
	own(m, &m.handle, made, l.c.CoremlFree)
	return m, nil
}

// Description is what the package says of itself, as JSON.
func (m *CoreML) Description() (string, error) {
	defer runtime.KeepAlive(m)
	var text, e unsafe.Pointer
	if err := m.lib.failure(m.lib.c.CoremlDescription(m.pointerOf(), &text, &e), e); err != nil {
		return "", err
	}
	return goString(text), nil
}

// CoreMLState holds the states of a model between predictions.
type CoreMLState struct {
	handle
	lib *Library
}

// NewState makes all states, zero.
func (m *CoreML) NewState() (*CoreMLState, error) {
	defer runtime.KeepAlive(m)
	var made, e unsafe.Pointer
	if err := m.lib.failure(m.lib.c.CoremlMakeState(m.pointerOf(), &made, &e), e); err != nil {
		return nil, err
	}
	s := &CoreMLState{lib: m.lib}
	own(s, &s.handle, made, m.lib.c.CoremlStateFree)
	return s, nil
}

// Read gives a new tensor that holds the state of that name.
func (s *CoreMLState) Read(name string) (*Tensor, error) {
	defer runtime.KeepAlive(s)
	var made, e unsafe.Pointer
	if err := s.lib.failure(s.lib.c.CoremlStateRead(s.pointerOf(), name, &made, &e), e); err != nil {
		return nil, err
	}
	return s.lib.tensor(made), nil
}

// Write shares the tensor, which must be of the state's type.
func (s *CoreMLState) Write(name string, t *Tensor) error {
	defer runtime.KeepAlive(s)
	defer runtime.KeepAlive(t)
	var e unsafe.Pointer
	return s.lib.failure(s.lib.c.CoremlStateWrite(s.pointerOf(), name, t.pointerOf(), &e), e)
}

// Predict makes one prediction: inputs and outputs by name. state is read and written; nil for a model without states.
func (m *CoreML) Predict(inputs map[string]*Tensor, state *CoreMLState) (map[string]*Tensor, error) {
	defer runtime.KeepAlive(m)
	defer runtime.KeepAlive(inputs)
	defer runtime.KeepAlive(state)
	names, values := named(inputs)
	outputs := make([]unsafe.Pointer, m.lib.c.CoremlOutputCount(m.pointerOf()))
	var kept unsafe.Pointer
	if state != nil {
		kept = state.pointer
	}
	var e unsafe.Pointer
	status := m.lib.c.CoremlPredict(m.pointerOf(), firstOf(names), firstOf(values), uintptr(len(names)), kept, firstOf(outputs),
		uintptr(len(outputs)), &e)
	if err := m.lib.failure(status, e); err != nil {
		return nil, err
	}
	all := map[string]*Tensor{}
	for i, each := range outputs {
		all[m.lib.c.CoremlOutputName(m.pointerOf(), uintptr(i))] = m.lib.tensor(each)
	}
	return all, nil
}

// PackageOptions of [Graph.WriteCoreML]; the zero value is the default.
type PackageOptions struct {
	// MinimumIOS is 15 to 18; 0: the oldest that can.
	MinimumIOS int
	// Narrow makes i64 and f64 i32 and f32.
	Narrow bool
	// Nearest makes weights in blocks that have no exact form in a package the nearest codes of 8 bits.
	Nearest bool
	// Dims are numbers for symbols, "B=1 S=128"; Shapes are sizes for symbols that stay open, "B=1..8 S=16,32".
	Dims, Shapes string
	// Precision is "f32", "f16" or "mixed"; "" for the graph's own.
	Precision string
	// Features say what inputs and outputs are, and in how many bits weights are stored, as a JSON object:
	// rlx_coreml_write_options in rlx/c.h.
	Features                              string
	Description, Author, Version, License string
}

func optionalText(text string) *byte {
	if text == "" {
		return nil
	}
	return cString(text)
}

// WriteCoreML writes the graph as an .mlpackage, with a value for each of its params, and says what became of it.
func (g *Graph) WriteCoreML(path string, params map[string]*Tensor, options PackageOptions) (string, error) {
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(params)
	names, values := named(params)
	c := &cCoremlWriteOptions{structSize: unsafe.Sizeof(cCoremlWriteOptions{}), minimumIOS: int32(options.MinimumIOS),
		narrow: number(options.Narrow), dims: optionalText(options.Dims), description: optionalText(options.Description),
		author: optionalText(options.Author), version: optionalText(options.Version), license: optionalText(options.License),
		precision: optionalText(options.Precision), shapes: optionalText(options.Shapes), features: optionalText(options.Features),
		nearest: number(options.Nearest)}
	var report, e unsafe.Pointer
	status := g.lib.c.CoremlWrite(path, g.pointerOf(), firstOf(names), firstOf(values), uintptr(len(names)), c, &report, &e)
	if err := g.lib.failure(status, e); err != nil {
		return "", err
	}
	return g.lib.ownText(report), nil
}
