package gomlx

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// scalars writes what loops count with: Int32 scalars of a function.
type scalars struct{ f *Function }

var (
	scalarInt  = shapes.Make(dtypes.Int32)
	scalarBool = shapes.Make(dtypes.Bool)
)

func (s scalars) number(n int) *value {
	made, err := s.f.constant(binary.LittleEndian.AppendUint32(nil, uint32(n)), scalarInt)
	if err != nil {
		panic(err) // cannot happen: the functions that loops are made of have not returned yet, and i32 is a dtype
	}
	return made
}
func (s scalars) of(op string, x, y *value) *value { return s.f.emit(op, x.shape, []*value{x, y}) }
func (s scalars) is(direction string, x, y *value) *value {
	return s.f.emit("compare", scalarBool, []*value{x, y}, "direction = "+direction)
}
func (s scalars) choose(condition, yes, no *value) *value {
	return s.f.emit("select", yes.shape, []*value{condition, yes, no})
}

// at is an element of a list.
func (s scalars) at(list, place *value) *value {
	part := s.f.emit("dynamic_slice", withDType(shapes.Make(dtypes.Int32, 1), list.shape.DType), []*value{list, place}, "sizes = [1]")
	return s.f.emit("reshape", shapes.Make(list.shape.DType), []*value{part}, "dims = []")
}

// sortByLoops orders by a comparator that uses tensors of the functions around it, which RLX's sort has no place for: a
// merge sort of the places, in loops that call the comparator on two elements at a time.
func (f *Function) sortByLoops(order *Function, axis int, all []*value) ([]compute.Value, error) {
	shape := all[0].shape
	if shape.IsDynamic() {
		return nil, unsupported(compute.OpTypeSort, "the comparator uses a tensor of a function around it, and "+shape.String()+" has a dynamic axis")
	}
	size, extent := shape.Size(), shape.Dimensions[axis]
	if size == 0 {
		return valuesOf(all), nil
	}
	if size > math.MaxInt32/4 {
		return nil, errors.Errorf("Sort: %s has more elements than its loops count", shape)
	}
	// Rows of what is sorted: the axis comes last.
	forth := make([]int, 0, shape.Rank())
	for each := range shape.Rank() {
		if each != axis {
			forth = append(forth, each)
		}
	}
	forth = append(forth, axis)
	back := make([]int, len(forth))
	moved := shape.Clone()
	for i, each := range forth {
		back[each], moved.Dimensions[i] = i, shape.Dimensions[each]
	}
	list := shapes.Make(dtypes.Int32, size)
	rows, lists := make([]*value, len(all)), make([]*value, len(all))
	for i, each := range all {
		dtype := each.shape.DType
		v := f.emit("transpose", withDType(moved, dtype), []*value{each}, "permutation = "+ints(forth))
		var err error
		if rows[i], err = f.reshape(v, shapes.Make(dtype, size/extent, extent)); err != nil {
			return nil, err
		}
		if lists[i], err = f.reshape(v, withDType(list, dtype)); err != nil {
			return nil, err
		}
	}
	places := f.emit("iota", shapes.Make(dtypes.Int32, size/extent, extent), nil, "type = i32"+ints([]int{size / extent, extent}), "axis = 1")
	places, err := f.reshape(places, list)
	if err != nil {
		return nil, err
	}
	// The outer loop: the width of what is in order doubles.
	state := []shapes.Shape{scalarInt, list}
	sorted, err := f.loop([]*value{scalars{f}.number(1), places}, state, func(s scalars, x []*value) (*value, error) {
		return s.is("lt", x[0], s.number(extent)), nil
	}, func(s scalars, x []*value) ([]*value, error) {
		merged, err := s.f.mergeOnce(order, lists, x[0], x[1], extent)
		if err != nil {
			return nil, err
		}
		return []*value{s.of("add", x[0], x[0]), merged}, nil
	})
	if err != nil {
		return nil, err
	}
	standing, err := f.reshape(sorted[1], shapes.Make(dtypes.Int32, size/extent, extent))
	if err != nil {
		return nil, err
	}
	results := make([]*value, len(all))
	for i, each := range rows {
		taken := f.emit("take_along_axis", each.shape, []*value{each, standing}, "axis = 1", "out_of_range = clip")
		if taken, err = f.reshape(taken, withDType(moved, each.shape.DType)); err != nil {
			return nil, err
		}
		results[i] = f.emit("transpose", all[i].shape, []*value{taken}, "permutation = "+ints(back))
	}
	return valuesOf(results), nil
}

// mergeOnce merges the runs of width places that lie beside each other in each row.
func (f *Function) mergeOnce(order *Function, lists []*value, width, places *value, extent int) (*value, error) {
	zero := scalars{f}.number(0)
	state := []shapes.Shape{scalarInt, scalarInt, scalarInt, places.shape}
	merged, err := f.loop([]*value{zero, zero, zero, places}, state, func(s scalars, x []*value) (*value, error) {
		return s.is("lt", x[0], s.number(places.shape.Size())), nil
	}, func(s scalars, x []*value) ([]*value, error) {
		at, count, last := x[0], s.number(extent), s.number(extent-1)
		within := s.of("rem", at, count)
		row := s.of("sub", at, within)
		both := s.of("add", width, width)
		first := s.of("sub", within, s.of("rem", within, both))
		middle := s.of("minimum", s.of("add", first, width), count)
		end := s.of("minimum", s.of("add", first, both), count)
		begins := s.is("eq", within, first)
		left, right := s.choose(begins, first, x[1]), s.choose(begins, middle, x[2])
		// Where one run is used up, any element will do: it is not chosen.
		leftPlace := s.at(places, s.of("add", row, s.of("minimum", left, last)))
		rightPlace := s.at(places, s.of("add", row, s.of("minimum", right, last)))
		var pairs []*value
		for _, each := range lists {
			pairs = append(pairs, s.at(each, s.of("add", row, rightPlace)), s.at(each, s.of("add", row, leftPlace)))
		}
		rightFirst := s.f.emitWith("call", []shapes.Shape{scalarBool}, pairs, []body{{attr: "body", fn: order, params: order.params}})[0]
		rightFirst = s.of("bitwise_and", rightFirst, s.is("lt", right, end))
		takesLeft := s.of("bitwise_and", s.is("lt", left, middle), s.f.emit("bitwise_not", scalarBool, []*value{rightFirst}))
		step := s.f.convert(takesLeft, dtypes.Int32)
		chosen := s.f.emit("reshape", shapes.Make(dtypes.Int32, 1), []*value{s.choose(takesLeft, leftPlace, rightPlace)}, "dims = [1]")
		return []*value{
			s.of("add", at, s.number(1)),
			s.of("add", left, step),
			s.of("add", right, s.of("sub", s.number(1), step)),
			s.f.emit("dynamic_update_slice", places.shape, []*value{x[3], chosen, at}),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return merged[3], nil
}

// loop is While of closures that are written here.
func (f *Function) loop(start []*value, state []shapes.Shape, condition func(s scalars, x []*value) (*value, error),
	step func(s scalars, x []*value) ([]*value, error)) ([]*value, error) {
	closure := func(build func(s scalars, x []*value) ([]*value, error)) (*Function, error) {
		inner := newFunction(f.builder, "", f)
		for _, each := range state {
			inner.params = append(inner.params, &value{fn: inner, shape: each.Clone()})
			inner.names = append(inner.names, "")
		}
		made, err := build(scalars{inner}, slices.Clone(inner.params))
		inner.outputs, inner.returned = made, true
		return inner, err
	}
	holds, err := closure(func(s scalars, x []*value) ([]*value, error) {
		made, err := condition(s, x)
		return []*value{made}, err
	})
	if err != nil {
		return nil, err
	}
	next, err := closure(step)
	if err != nil {
		return nil, err
	}
	return f.emitWith("while_loop", state, start, []body{{attr: "condition", fn: holds, params: holds.params},
		{attr: "body", fn: next, params: next.params}}, attr("carries", len(state))), nil
}
