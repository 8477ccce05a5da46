package rlx

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Graph is a list of operations on values. docs/ir.md of RLX says what it means, docs/generated/ops.md which there are.
type Graph struct {
	handle
	lib *Library
}

// Value is a result of a node in a graph that is being built.
type Value struct {
	Node, Result int32
}

// packed is how a struct of two numbers of 32 bits is passed by value.
func (v Value) packed() uint64 { return uint64(uint32(v.Node)) | uint64(uint32(v.Result))<<32 }

func (l *Library) graph(pointer unsafe.Pointer) *Graph {
	g := &Graph{lib: l}
	own(g, &g.handle, pointer, l.c.GraphFree)
	return g
}

func (l *Library) graphFrom(call func(made, e *unsafe.Pointer) int32) (*Graph, error) {
	var made, e unsafe.Pointer
	if err := l.failure(call(&made, &e), e); err != nil {
		return nil, err
	}
	return l.graph(made), nil
}

// NewGraph makes an empty graph.
func (l *Library) NewGraph(name string) (*Graph, error) {
	return l.graphFrom(func(made, e *unsafe.Pointer) int32 { return l.c.GraphCreate(name, made, e) })
}

// ParseGraph reads the textual form of a graph, with or without the version line.
func (l *Library) ParseGraph(text string) (*Graph, error) {
	return l.graphFrom(func(made, e *unsafe.Pointer) int32 {
		return l.c.GraphParse(unsafe.Pointer(unsafe.StringData(text)), uintptr(len(text)), made, e)
	})
}

// ParseGraphWith reads the textual form of a graph whose constants stand beside it. They are copied.
func (l *Library) ParseGraphWith(text string, constants []NamedConstant) (*Graph, error) {
	names, types, values := cConstants(constants)
	return l.graphFrom(func(made, e *unsafe.Pointer) int32 {
		return l.c.GraphParseWith(unsafe.Pointer(unsafe.StringData(text)), uintptr(len(text)), firstOf(names), firstOf(types),
			firstOf(values), uintptr(len(constants)), made, e)
	})
}

// LoadGraph reads a .rlx file.
func (l *Library) LoadGraph(path string) (*Graph, error) {
	return l.graphFrom(func(made, e *unsafe.Pointer) int32 { return l.c.GraphLoad(path, made, e) })
}

// Save writes a .rlx file.
func (g *Graph) Save(path string) error {
	defer runtime.KeepAlive(g)
	var e unsafe.Pointer
	return g.lib.failure(g.lib.c.GraphSave(g.pointerOf(), path, &e), e)
}

// Text is the graph in its textual form.
func (g *Graph) Text() string {
	defer runtime.KeepAlive(g)
	return g.lib.c.GraphText(g.pointerOf())
}

// Input adds an input; its type is as in the textual form, "f32[N, 4]", N being a symbol for any size.
func (g *Graph) Input(name, kind string) (Value, error) {
	defer runtime.KeepAlive(g)
	var v Value
	var e unsafe.Pointer
	status := g.lib.c.GraphInput(g.pointerOf(), name, kind, &v, &e)
	return v, g.lib.failure(status, e)
}

// Param adds a param: a value that is bound once, after compiling.
func (g *Graph) Param(name, kind string) (Value, error) {
	defer runtime.KeepAlive(g)
	var v Value
	var e unsafe.Pointer
	status := g.lib.c.GraphParam(g.pointerOf(), name, kind, &v, &e)
	return v, g.lib.failure(status, e)
}

// Constant adds a constant, which shares the tensor's elements.
func (g *Graph) Constant(t *Tensor) (Value, error) {
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(t)
	var v Value
	var e unsafe.Pointer
	status := g.lib.c.GraphConstant(g.pointerOf(), t.pointerOf(), &v, &e)
	return v, g.lib.failure(status, e)
}

// Attrs are the attributes of an op, by name: booleans, integers, floats, strings, slices of numbers and strings, a [Word] for an
// enumerator, a dim, a dtype or a type, and a *Graph for a sub-graph. What is left out has its default.
type Attrs map[string]any

// Word is an attribute that is written without quotes: an enumerator, "relu", a dim, "2*N", a dtype or a type.
type Word string

// text writes the attributes as the textual form has them.
func (a Attrs) text() (string, error) {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	slices.Sort(names)
	parts := make([]string, len(names))
	for i, name := range names {
		text, err := attrText(a[name])
		if err != nil {
			return "", &Error{Status: InvalidArgument, Message: fmt.Sprintf("attribute '%s': %v", name, err)}
		}
		parts[i] = name + " = " + text
	}
	return "{" + strings.Join(parts, ", ") + "}", nil
}

func attrText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "none", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+")), nil
	case float32:
		return attrText(float64(v))
	case string:
		return quoted(v), nil
	case Word:
		return string(v), nil
	case DType:
		return string(v), nil
	case *Graph:
		return strings.TrimPrefix(v.Text(), "rlx 1\n"), nil // the version stands before the outermost graph alone
	case []int:
		return listText(v)
	case []int64:
		return listText(v)
	case []float64:
		return listText(v)
	case []string:
		return listText(v)
	case []Word:
		return listText(v)
	}
	return "", fmt.Errorf("a %T is no kind of attribute", value)
}

func listText[T any](all []T) (string, error) {
	parts := make([]string, len(all))
	for i, each := range all {
		text, err := attrText(each)
		if err != nil {
			return "", err
		}
		parts[i] = text
	}
	return "[" + strings.Join(parts, ", ") + "]", nil
}

// quoted writes a string as the textual form does.
func quoted(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&out, "\\x%02x", c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// mostResults is how many results a node may have here at first; with more the library says how many there are.
const mostResults = 8

// Emit adds a node: any op by its name, and gives its results.
func (g *Graph) Emit(op string, operands []Value, attrs Attrs) ([]Value, error) {
	text, err := attrs.text()
	if err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(g)
	results := make([]Value, mostResults)
	for {
		var made uintptr
		var e unsafe.Pointer
		status := g.lib.c.GraphEmit(g.pointerOf(), op, firstOf(operands), uintptr(len(operands)), text, firstOf(results),
			uintptr(len(results)), &made, &e)
		err := g.lib.failure(status, e)
		if err == nil {
			return results[:made], nil
		}
		if int(made) <= len(results) {
			return nil, err
		}
		results = make([]Value, made)
	}
}

// Op is [Graph.Emit] for ops with one result.
func (g *Graph) Op(op string, attrs Attrs, operands ...Value) (Value, error) {
	results, err := g.Emit(op, operands, attrs)
	if err != nil {
		return Value{}, err
	}
	if len(results) != 1 {
		return Value{}, &Error{Status: InvalidArgument, Message: fmt.Sprintf("'%s' has %d results; use Emit", op, len(results))}
	}
	return results[0], nil
}

// Inline emits the nodes of another graph, which has no params, with these values for its inputs; gives its outputs.
func (g *Graph) Inline(from *Graph, inputs ...Value) ([]Value, error) {
	defer runtime.KeepAlive(g)
	defer runtime.KeepAlive(from)
	results := make([]Value, from.count(2))
	var made uintptr
	var e unsafe.Pointer
	status := g.lib.c.GraphInline(g.pointerOf(), from.pointerOf(), firstOf(inputs), uintptr(len(inputs)), firstOf(results),
		uintptr(len(results)), &made, &e)
	if err := g.lib.failure(status, e); err != nil {
		return nil, err
	}
	return results[:made], nil
}

// Output makes a value an output.
func (g *Graph) Output(v Value, name string) error {
	defer runtime.KeepAlive(g)
	var e unsafe.Pointer
	return g.lib.failure(g.lib.c.GraphOutput(g.pointerOf(), v.packed(), name, &e), e)
}

// TypeOf is the type of a value, "f32[N, 4]".
func (g *Graph) TypeOf(v Value) (string, error) {
	defer runtime.KeepAlive(g)
	return g.lib.textOf(func(buffer unsafe.Pointer, room uintptr, size *uintptr, e *unsafe.Pointer) int32 {
		return g.lib.c.GraphType(g.pointerOf(), v.packed(), buffer, room, size, e)
	})
}

// textOf calls what writes a text like snprintf, with as much room as it asks for.
func (l *Library) textOf(call func(buffer unsafe.Pointer, room uintptr, size *uintptr, e *unsafe.Pointer) int32) (string, error) {
	text := make([]byte, 64)
	for {
		var size uintptr
		var e unsafe.Pointer
		if err := l.failure(call(firstOf(text), uintptr(len(text)), &size, &e), e); err != nil {
			return "", err
		}
		if int(size) <= len(text) {
			return string(text[:max(size, 1)-1]), nil
		}
		text = make([]byte, size)
	}
}

func (g *Graph) count(kind int32) int { return int(g.lib.c.GraphCount(g.pointerOf(), kind)) }

// Types are the types of the graph's inputs, params and outputs, in their order.
func (g *Graph) Types() (inputs, params, outputs []string, err error) {
	defer runtime.KeepAlive(g)
	all := [3][]string{}
	for kind := range int32(3) {
		for i := range g.count(kind) {
			text, err := g.lib.textOf(func(buffer unsafe.Pointer, room uintptr, size *uintptr, e *unsafe.Pointer) int32 {
				return g.lib.c.GraphSigType(g.pointerOf(), kind, uintptr(i), buffer, room, size, e)
			})
			if err != nil {
				return nil, nil, nil, err
			}
			all[kind] = append(all[kind], text)
		}
	}
	return all[0], all[1], all[2], nil
}

// mask checks that there is one entry for each, and gives the bytes of the library's mask.
func mask(what string, chosen []bool, count int) ([]byte, error) {
	if len(chosen) != count {
		return nil, &Error{Status: InvalidArgument, Message: fmt.Sprintf("%s has %d entries, the graph has %d", what, len(chosen), count)}
	}
	return append(bytesOf(chosen), 0), nil
}

// VJP is reverse mode: takes the graph's inputs and a cotangent for each output in `given`; gives the graph's outputs, if
// withOutputs, and a cotangent for each input in `wrt`.
func (g *Graph) VJP(wrt, given []bool, withOutputs bool) (*Graph, error) {
	defer runtime.KeepAlive(g)
	ofInputs, err := mask("wrt", wrt, g.count(0))
	if err != nil {
		return nil, err
	}
	ofOutputs, err := mask("given", given, g.count(2))
	if err != nil {
		return nil, err
	}
	with := int32(0)
	if withOutputs {
		with = 1
	}
	return g.lib.graphFrom(func(made, e *unsafe.Pointer) int32 {
		return g.lib.c.GraphVjp(g.pointerOf(), firstOf(ofInputs), firstOf(ofOutputs), with, made, e)
	})
}

// JVP is forward mode: takes the graph's inputs and a tangent for each in `active`; gives its outputs, then a tangent for
// each float or complex one.
func (g *Graph) JVP(active []bool) (*Graph, error) {
	defer runtime.KeepAlive(g)
	ofInputs, err := mask("active", active, g.count(0))
	if err != nil {
		return nil, err
	}
	return g.lib.graphFrom(func(made, e *unsafe.Pointer) int32 {
		return g.lib.c.GraphJvp(g.pointerOf(), firstOf(ofInputs), made, e)
	})
}

// Batch puts a dim of that size, "8" or "N", in front of the inputs in `batched` and of all outputs.
func (g *Graph) Batch(batched []bool, size string) (*Graph, error) {
	defer runtime.KeepAlive(g)
	ofInputs, err := mask("batched", batched, g.count(0))
	if err != nil {
		return nil, err
	}
	return g.lib.graphFrom(func(made, e *unsafe.Pointer) int32 {
		return g.lib.c.GraphBatch(g.pointerOf(), firstOf(ofInputs), size, made, e)
	})
}
