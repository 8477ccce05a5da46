package gomlx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	rlx "rlx.invalid/go"
)

// value is a result of a node, or a parameter: what compute.Value is here.
type value struct {
	fn    *Function
	shape shapes.Shape
	node  *node // nil of a parameter
	// dtype is RLX's where compute has none: that of blocks.
	dtype string
	// extent is, of an integer scalar that is known to be a product or sum of dims, that dim; else nil.
	extent polynomial
	// words stand for a state of random numbers, or for random bits (state_words.go). drawn: a draw takes them; plain: an op
	// takes its numbers.
	words        *value
	drawn, plain bool
}

// node is an op of RLX.
type node struct {
	op       string
	attrs    []string // "axis = -1", each
	bodies   []body
	operands []*value
	results  []*value
	// Of a constant: its name among the builder's.
	constant string
	// onlyFor is the value of words whose numbers it makes: it is not written if nothing asks for those.
	onlyFor *value
}

// body is a sub-graph in an attribute. Behind its own inputs it takes what it captures.
type body struct {
	attr   string
	fn     *Function
	params []*value // of fn, in the order in which the op gives them
	closed bool     // what fn captures is among the params
}

// Function records ops.
type Function struct {
	notimplemented.Function
	builder  *Builder
	name     string
	parent   *Function
	nodes    []*node
	params   []*value
	names    []string // of the params
	outputs  []*value
	returned bool
	onlyFor  *value // of the nodes that are being added
}

var _ compute.Function = (*Function)(nil)

func newFunction(b *Builder, name string, parent *Function) *Function {
	return &Function{Function: noOp, builder: b, name: name, parent: parent}
}

// Name of the function; "" of a closure.
func (f *Function) Name() string { return f.name }

// Builder that the function is of.
func (f *Function) Builder() compute.Builder { return f.builder }

// Parent of a closure; nil of any other function.
func (f *Function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Closure makes a function that sees the values of this one.
func (f *Function) Closure() (compute.Function, error) { return newFunction(f.builder, "", f), nil }

func (f *Function) String() string {
	if f.name == "" {
		return fmt.Sprintf("a closure of %s", f.parent)
	}
	return strconv.Quote(f.name)
}

// dtypeNames are RLX's.
var dtypeNames = map[dtypes.DType]string{dtypes.Bool: "bool", dtypes.Int8: "i8", dtypes.Int16: "i16", dtypes.Int32: "i32",
	dtypes.Int64: "i64", dtypes.Uint8: "u8", dtypes.Uint16: "u16", dtypes.Uint32: "u32", dtypes.Uint64: "u64",
	dtypes.Float16: "f16", dtypes.BFloat16: "bf16", dtypes.Float32: "f32", dtypes.Float64: "f64", dtypes.Complex64: "c64",
	dtypes.Complex128: "c128", dtypes.Int4: "i4", dtypes.Uint4: "u4", dtypes.Uint2: "u2", dtypes.Uint1: "u1",
	// RLX has no signed integers of 2 bits and of 1: they are stored as unsigned ones, and convert gives them their sign.
	dtypes.Int2: "u2", dtypes.Int1: "u1"}

// symbols are the dims that dynamic axes stand for, by the names of the axes.
type symbols struct {
	byName map[string]polynomial
	count  int
}

// dim is the dim of an axis: a number, or what its name stands for.
func (s *symbols) dim(shape shapes.Shape, axis int) (polynomial, error) {
	if size := shape.Dimensions[axis]; size != shapes.DynamicDim {
		return number(size), nil
	}
	name := shape.AxisName(axis)
	if known, ok := s.byName[name]; ok {
		return known, nil
	}
	if rest, ok := strings.CutPrefix(name, shapes.SymbolicAxisPrefix); ok {
		sum := number(0)
		for _, part := range strings.Split(rest, "+") {
			if n, err := strconv.Atoi(part); err == nil {
				sum = sum.plus(number(n))
			} else if known, ok := s.byName[part]; ok {
				sum = sum.plus(known)
			} else {
				return nil, errors.Errorf("axis %d of %s is made of %q, which no parameter has", axis, shape, part)
			}
		}
		return sum, nil
	}
	if name == "" || name == shapes.AnonymousAxis {
		return nil, errors.Errorf("axis %d of %s is dynamic and has no name", axis, shape)
	}
	known := polynomial{"s" + strconv.Itoa(s.count): 1}
	s.count++
	s.byName[name] = known
	return known, nil
}

func (s *symbols) dims(shape shapes.Shape) (string, error) {
	all := make([]string, shape.Rank())
	for axis := range all {
		dim, err := s.dim(shape, axis)
		if err != nil {
			return "", err
		}
		all[axis] = dim.String()
	}
	return "[" + strings.Join(all, ", ") + "]", nil
}

func (s *symbols) typeOf(shape shapes.Shape) (string, error) {
	name, ok := dtypeNames[shape.DType]
	if !ok {
		return "", errors.Errorf("backend rlx has no dtype %s", shape.DType)
	}
	dims, err := s.dims(shape)
	return name + dims, err
}

// typeOfValue is a value's type as RLX writes it.
func (s *symbols) typeOfValue(v *value) (string, error) {
	if v.dtype == "" {
		return s.typeOf(v.shape)
	}
	dims, err := s.dims(v.shape)
	return v.dtype + dims, err
}

// Parameter adds an input.
func (f *Function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	if f.returned {
		return nil, errors.Errorf("function %s has returned: it takes no more parameters", f)
	}
	if sharding != nil {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "parameter %q: backend rlx shards nothing", name)
	}
	if _, err := f.builder.symbols.typeOf(shape); err != nil {
		return nil, errors.WithMessagef(err, "parameter %q", name)
	}
	v := &value{fn: f, shape: shape.Clone()}
	if f == f.builder.main && f.builder.carriesWords() && shape.Equal(compute.RNGStateShape) {
		v.words = &value{fn: f, shape: wordsShape}
	}
	f.params, f.names = append(f.params, v), append(f.names, name)
	return v, nil
}

// Constant adds a constant, whose elements are copied.
func (f *Function) Constant(flat any, dims ...int) (compute.Value, error) {
	element, ok := sliceElement(flat)
	if !ok {
		return nil, errors.Errorf("Constant takes a slice, got a %T", flat)
	}
	shape := shapes.Make(dtypes.FromGoType(element), dims...)
	if err := f.builder.backend.checkShape(shape); err != nil {
		return nil, err
	}
	bytes, err := bytesOfFlat(flat, shape)
	if err != nil {
		return nil, err
	}
	return f.constant(bytes, shape)
}

func (f *Function) constant(bytes []byte, shape shapes.Shape) (*value, error) {
	if f.returned {
		return nil, errors.Errorf("function %s has returned: it takes no more constants", f)
	}
	b := f.builder
	kind, err := b.symbols.typeOf(shape)
	if err != nil {
		return nil, err
	}
	name := "c" + strconv.Itoa(len(b.constants))
	b.constants = append(b.constants, rlx.NamedConstant{Name: name, Type: kind, Bytes: slices.Clone(bytes)})
	n := &node{op: "constant", constant: name}
	v := &value{fn: f, shape: shape, node: n}
	n.results = []*value{v}
	return v, nil
}

// Shape of a value.
func (f *Function) Shape(v compute.Value) (shapes.Shape, error) { return f.builder.OpShape(v) }

// own checks that a value may be used here: it is of this function or, in a closure, of one around it.
func (f *Function) own(op string, operand compute.Value) (*value, error) {
	v, err := f.ownState(op, operand)
	if err == nil && v.words != nil {
		v.plain = true
	}
	return v, err
}

// ownState is own for what takes words.
func (f *Function) ownState(op string, operand compute.Value) (*value, error) {
	v, ok := operand.(*value)
	if !ok || v == nil {
		return nil, errors.Errorf("%s: a %T is no value of backend rlx", op, operand)
	}
	for around := f; around != nil; around = around.parent {
		if v.fn == around {
			if f.returned {
				return nil, errors.Errorf("%s: function %s has returned: it takes no more ops", op, f)
			}
			return v, nil
		}
	}
	if v.fn.builder != f.builder {
		return nil, errors.Errorf("%s: the operand %s is of builder %q, not of %q", op, v.shape, v.fn.builder.name, f.builder.name)
	}
	return nil, errors.Errorf("%s: the operand %s is of function %s, which is not around %s; pass it as a parameter", op, v.shape, v.fn, f)
}

func (f *Function) ownAll(op string, operands []compute.Value) ([]*value, error) {
	all := make([]*value, len(operands))
	for i, each := range operands {
		var err error
		if all[i], err = f.own(op, each); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// emitAll adds a node with results of these shapes.
func (f *Function) emitAll(op string, results []shapes.Shape, operands []*value, attrs ...string) []*value {
	n := &node{op: op, attrs: attrs, operands: operands, onlyFor: f.onlyFor}
	for _, shape := range results {
		// Some of compute's shape inference gives a list of empty names, which GoMLX takes for another shape than one without.
		if !slices.ContainsFunc(shape.AxisNames, func(name string) bool { return name != "" }) {
			shape.AxisNames = nil
		}
		n.results = append(n.results, &value{fn: f, shape: shape, node: n})
	}
	f.nodes = append(f.nodes, n)
	return n.results
}

// emit adds a node with one result.
func (f *Function) emit(op string, result shapes.Shape, operands []*value, attrs ...string) *value {
	return f.emitAll(op, []shapes.Shape{result}, operands, attrs...)[0]
}

// Return marks the outputs.
func (f *Function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	if f.returned {
		return errors.Errorf("function %s has returned before", f)
	}
	for _, each := range shardings {
		if each != nil {
			return errors.Wrap(compute.ErrNotImplemented, "backend rlx shards nothing")
		}
	}
	own := f.own
	if f == f.builder.main {
		own = f.ownState
	}
	all := make([]*value, len(outputs))
	for i, each := range outputs {
		var err error
		if all[i], err = own("Return", each); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return errors.Errorf("function %s returns nothing", f)
	}
	f.outputs, f.returned = all, true
	return nil
}

func ints(values []int) string {
	parts := make([]string, len(values))
	for i, each := range values {
		parts[i] = strconv.Itoa(each)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func attr(name string, value any) string { return fmt.Sprintf("%s = %v", name, value) }
