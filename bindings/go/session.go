package rlx

import (
	"encoding/json"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Device is one that there may be.
type Device struct {
	Name        string `json:"name"`
	Available   bool   `json:"available"`
	Accelerates bool   `json:"accelerates"`
	// Description says of a device that is not available why.
	Description string `json:"description"`
}

// Devices that there may be.
func (l *Library) Devices() ([]Device, error) {
	var text, e unsafe.Pointer
	if err := l.failure(l.c.Devices(&text, &e), e); err != nil {
		return nil, err
	}
	var all []Device
	err := json.Unmarshal([]byte(l.ownText(text)), &all)
	return all, err
}

// DeviceAvailable says whether a device, "cpu" for one, can run here.
func (l *Library) DeviceAvailable(name string) bool { return l.c.DeviceAvailable(name) != 0 }

// BestDevice is an accelerator if one can run here, else the processor; nothing is measured for it.
func (l *Library) BestDevice() string { return l.c.PickBestDevice() }

// SessionOptions of [Library.NewSession].
type SessionOptions struct {
	// Threads that runs use; 0: as many as the process may use.
	Threads int
	// Narrow is CompileOptions.Narrow of every compile.
	Narrow bool
}

// Session compiles graphs for one device.
type Session struct {
	handle
	lib *Library
}

// NewSession opens a device: "cpu", "coreml:ane"; "" is the one that the environment variable RLX_DEVICE names, else the
// processor.
func (l *Library) NewSession(device string, options SessionOptions) (*Session, error) {
	c := cSessionOptions{structSize: unsafe.Sizeof(cSessionOptions{}), threads: int32(options.Threads),
		narrow: number(options.Narrow)}
	var made, e unsafe.Pointer
	if err := l.failure(l.c.SessionCreate(device, &c, &made, &e), e); err != nil {
		return nil, err
	}
	s := &Session{lib: l}
	own(s, &s.handle, made, l.c.SessionFree)
	return s, nil
}

// CompileOptions say how a graph is compiled; the zero value is the default.
type CompileOptions struct {
	// Strict makes a node that is not native an error.
	Strict bool
	// Common decomposes every composite.
	Common bool
	// Mode is 0 eager, 1 lazy, 2 ahead of time.
	Mode int
	// Accuracy of products of f32: 0 as sums of f32 are, 1 exact, 2 relative to a row's largest number.
	Accuracy int
	// BatchInvariant: a row's bits do not depend on how many rows are multiplied with it.
	BatchInvariant bool
	// Narrow permits a device without numbers of 64 bits (coreml) to compute i64 in i32 and f64 in f32.
	Narrow bool
	// Donate names inputs whose memory a run may overwrite.
	Donate []string
	// More is text in the form of attributes for what else there is: {rounding = relaxed, compute = bf16, bounds = ["S=512"], cache_dir = "/tmp/programs"}.
	More string
}

func number(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func (o CompileOptions) c() *cCompileOptions {
	c := &cCompileOptions{structSize: unsafe.Sizeof(cCompileOptions{}), strict: number(o.Strict), common: number(o.Common),
		mode: int32(o.Mode), accuracy: int32(o.Accuracy), batchInvariant: number(o.BatchInvariant)}
	if len(o.Donate) > 0 {
		c.donate, c.donateCount = firstOf(cStrings(o.Donate)), uintptr(len(o.Donate))
	}
	if more := o.more(); more != "" {
		c.more = cString(more)
	}
	return c
}

// more is the text of More with what has no member in C.
func (o CompileOptions) more() string {
	if !o.Narrow {
		return o.More
	}
	if inside := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(o.More), "{")); inside != "" && inside != "}" {
		return "{narrow = true, " + inside
	}
	return "{narrow = true}"
}

// Compiled is a graph that can run. Its runs may begin on several goroutines at once.
type Compiled struct {
	handle
	lib     *Library
	outputs int
}

func (l *Library) compiled(pointer unsafe.Pointer) *Compiled {
	c := &Compiled{lib: l}
	own(c, &c.handle, pointer, l.c.CompiledFree)
	c.outputs = int(l.c.CompiledCount(pointer, 2))
	return c
}

// Compile makes a graph runnable; it may be closed afterwards.
func (s *Session) Compile(g *Graph, options CompileOptions) (*Compiled, error) {
	defer runtime.KeepAlive(s)
	defer runtime.KeepAlive(g)
	var made, e unsafe.Pointer
	if err := s.lib.failure(s.lib.c.Compile(s.pointerOf(), g.pointerOf(), options.c(), &made, &e), e); err != nil {
		return nil, err
	}
	return s.lib.compiled(made), nil
}

// NamedConstant is a constant that a text only names: `constant() {value = f32[2] @"c1"}`.
type NamedConstant struct {
	Name, Type string
	Bytes      []byte
}

// cConstants are the names, types and bytes of constants as arrays of the library.
func cConstants(constants []NamedConstant) (names, types []*byte, values []buffer) {
	names, types, values = make([]*byte, len(constants)), make([]*byte, len(constants)), make([]buffer, len(constants))
	for i, each := range constants {
		names[i], types[i] = cString(each.Name), cString(each.Type)
		values[i] = buffer{firstOf(each.Bytes), uintptr(len(each.Bytes))}
	}
	return names, types, values
}

// CompileText makes a graph runnable that stands in text, in one call into the library. The constants are copied.
func (s *Session) CompileText(text string, constants []NamedConstant, options CompileOptions) (*Compiled, error) {
	defer runtime.KeepAlive(s)
	names, types, values := cConstants(constants)
	var made, e unsafe.Pointer
	status := s.lib.c.CompileText(s.pointerOf(), unsafe.Pointer(unsafe.StringData(text)), uintptr(len(text)), firstOf(names),
		firstOf(types), firstOf(values), uintptr(len(constants)), options.c(), &made, &e)
	if err := s.lib.failure(status, e); err != nil {
		return nil, err
	}
	return s.lib.compiled(made), nil
}

// Report is the dispatch report, as JSON, that a compile for the device would give; nothing is compiled.
func (g *Graph) Report(device string, options CompileOptions) (string, error) {
	defer runtime.KeepAlive(g)
	var text, e unsafe.Pointer
	if err := g.lib.failure(g.lib.c.GraphReport(g.pointerOf(), device, options.c(), &text, &e), e); err != nil {
		return "", err
	}
	return g.lib.ownText(text), nil
}

// Report is the dispatch report as JSON.
func (c *Compiled) Report() (string, error) {
	defer runtime.KeepAlive(c)
	var text, e unsafe.Pointer
	if err := c.lib.failure(c.lib.c.CompiledReport(c.pointerOf(), &text, &e), e); err != nil {
		return "", err
	}
	return goString(text), nil
}

// goString copies a text that belongs to the library.
func goString(text unsafe.Pointer) string {
	size := 0
	for *(*byte)(unsafe.Add(text, size)) != 0 {
		size++
	}
	return string(unsafe.Slice((*byte)(text), size))
}

// SetParam binds a param; the tensor is shared and may be closed afterwards.
func (c *Compiled) SetParam(name string, t *Tensor) error {
	defer runtime.KeepAlive(c)
	defer runtime.KeepAlive(t)
	var e unsafe.Pointer
	return c.lib.failure(c.lib.c.CompiledSetParam(c.pointerOf(), name, t.pointerOf(), &e), e)
}

// Entry is an input, a param or an output.
type Entry struct {
	Name, Type string
}

func (c *Compiled) entries(kind int32) ([]Entry, error) {
	defer runtime.KeepAlive(c)
	all := make([]Entry, c.lib.c.CompiledCount(c.pointerOf(), kind))
	for i := range all {
		all[i].Name = c.lib.c.CompiledName(c.pointerOf(), kind, uintptr(i))
		text, err := c.lib.textOf(func(buffer unsafe.Pointer, room uintptr, size *uintptr, e *unsafe.Pointer) int32 {
			return c.lib.c.CompiledType(c.pointerOf(), kind, uintptr(i), buffer, room, size, e)
		})
		if err != nil {
			return nil, err
		}
		all[i].Type = text
	}
	return all, nil
}

// Inputs that a run takes, in their order.
func (c *Compiled) Inputs() ([]Entry, error) { return c.entries(0) }

// Params that are to be bound.
func (c *Compiled) Params() ([]Entry, error) { return c.entries(1) }

// Outputs that a run gives, in their order.
func (c *Compiled) Outputs() ([]Entry, error) { return c.entries(2) }

// Call runs a graph without symbols from memory into memory, in one call into the library, without a copy: dense and
// row-major, aligned to the elements. No output overlaps anything else. The memory of inputs and outputs must be on the
// heap or outside Go, as that of slices made by make is.
func (c *Compiled) Call(inputs, outputs [][]byte) error {
	all := make([]buffer, len(inputs)+len(outputs))
	for i, each := range inputs {
		all[i] = buffer{firstOf(each), uintptr(len(each))}
	}
	for i, each := range outputs {
		all[len(inputs)+i] = buffer{firstOf(each), uintptr(len(each))}
	}
	var e unsafe.Pointer
	errorPlace := &e
	status, _, _ := purego.SyscallN(c.lib.c.CompiledCall, uintptr(c.pointerOf()), uintptr(firstOf(all)), uintptr(len(inputs)),
		uintptr(firstOf(all[len(inputs):])), uintptr(len(outputs)), uintptr(unsafe.Pointer(errorPlace)))
	runtime.KeepAlive(all)
	runtime.KeepAlive(inputs)
	runtime.KeepAlive(outputs)
	runtime.KeepAlive(c)
	return c.lib.failure(int32(status), *errorPlace)
}
