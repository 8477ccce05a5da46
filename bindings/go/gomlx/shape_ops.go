package gomlx

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/sets"
	"github.com/pkg/errors"
)

// Reshape gives the elements other dims.
func (f *Function) Reshape(x compute.Value, dimensions ...int) (compute.Value, error) {
	v, err := f.own("Reshape", x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Reshape(v.shape, dimensions)
	if err != nil {
		return nil, err
	}
	return f.reshape(v, shape)
}

func (f *Function) reshape(v *value, shape shapes.Shape) (*value, error) {
	dims, err := f.builder.symbols.dims(shape)
	if err != nil {
		return nil, err
	}
	made := f.emit("reshape", shape, []*value{v}, "dims = "+dims)
	if shape.IsScalar() {
		made.extent = v.extent
	}
	return made, nil
}

// Transpose permutes the axes.
func (f *Function) Transpose(x compute.Value, permutation ...int) (compute.Value, error) {
	v, err := f.own("Transpose", x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Transpose(v.shape, permutation)
	if err != nil {
		return nil, err
	}
	return f.emit("transpose", shape, []*value{v}, "permutation = "+ints(permutation)), nil
}

// BroadcastInDim repeats x: its axis i becomes axis broadcastAxes[i].
func (f *Function) BroadcastInDim(x compute.Value, outputShape shapes.Shape, broadcastAxes []int) (compute.Value, error) {
	v, err := f.own("BroadcastInDim", x)
	if err != nil {
		return nil, err
	}
	known := sets.Make[string]()
	for name := range f.builder.symbols.byName {
		known.Insert(name)
	}
	if err := shapeinference.BroadcastInDim(v.shape, outputShape, broadcastAxes, known); err != nil {
		return nil, err
	}
	return f.broadcastInDim(v, withDType(outputShape, v.shape.DType), broadcastAxes)
}

// Concatenate puts the operands one behind another.
func (f *Function) Concatenate(axis int, operands ...compute.Value) (compute.Value, error) {
	all, err := f.ownAll("Concatenate", operands)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("Concatenate takes at least one operand")
	}
	given := make([]shapes.Shape, len(all))
	for i, each := range all {
		given[i] = each.shape
	}
	shape, err := shapeinference.Concatenate(given, axis)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return f.emit("concatenate", shape, all, attr("axis", axis)), nil
}

// Slice takes each stride-th element from starts to before limits.
func (f *Function) Slice(x compute.Value, starts, limits, strides []int) (compute.Value, error) {
	v, err := f.own("Slice", x)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Slice(v.shape, starts, limits, strides)
	if err != nil {
		return nil, err
	}
	if strides == nil {
		strides = repeated(1, v.shape.Rank())
	}
	ends := make([]string, len(limits))
	for axis, limit := range limits {
		ends[axis] = strconv.Itoa(limit)
		if limit == shapes.DynamicDim {
			dim, err := f.builder.symbols.dim(v.shape, axis)
			if err != nil {
				return nil, err
			}
			ends[axis] = dim.String()
		}
	}
	return f.emit("slice", shape, []*value{v}, "starts = "+ints(starts), "limits = ["+strings.Join(ends, ", ")+"]", "strides = "+ints(strides)), nil
}

func (f *Function) slice(v *value, axis, start, limit int) *value {
	starts, limits := repeated(0, v.shape.Rank()), slices.Clone(v.shape.Dimensions)
	starts[axis], limits[axis] = start, limit
	shape := v.shape.Clone()
	shape.Dimensions[axis] = limit - start
	return f.emit("slice", shape, []*value{v}, "starts = "+ints(starts), "limits = "+ints(limits), "strides = "+ints(repeated(1, len(starts))))
}

func repeated(value, count int) []int { return slices.Repeat([]int{value}, count) }

// Pad puts fillValue before, behind and between the elements; a negative amount cuts.
func (f *Function) Pad(x, fillValue compute.Value, axesConfig ...compute.PadAxis) (compute.Value, error) {
	all, err := f.ownAll("Pad", []compute.Value{x, fillValue})
	if err != nil {
		return nil, err
	}
	v, fill := all[0], all[1]
	if !fill.shape.IsScalar() || fill.shape.DType != v.shape.DType {
		return nil, errors.Errorf("Pad fills %s with a scalar of its dtype, got %s", v.shape, fill.shape)
	}
	shape, err := shapeinference.Pad(v.shape, axesConfig...)
	if err != nil {
		return nil, err
	}
	low, high, interior := repeated(0, v.shape.Rank()), repeated(0, v.shape.Rank()), repeated(0, v.shape.Rank())
	for axis, each := range axesConfig {
		low[axis], high[axis], interior[axis] = each.Start, each.End, each.Interior
	}
	return f.emit("pad", shape, []*value{v, fill}, "low = "+ints(low), "high = "+ints(high), "interior = "+ints(interior)), nil
}

// axesOf checks axes, counts negative ones from the end, and sorts them; none are all.
func axesOf(op string, shape shapes.Shape, axes []int, noneIsAll bool) ([]int, error) {
	if len(axes) == 0 && noneIsAll {
		for axis := range shape.Rank() {
			axes = append(axes, axis)
		}
		return axes, nil
	}
	axes = slices.Clone(axes)
	for i, axis := range axes {
		if axis < 0 {
			axes[i] += shape.Rank()
		}
		if axes[i] < 0 || axes[i] >= shape.Rank() {
			return nil, errors.Errorf("%s: there is no axis %d in %s", op, axis, shape)
		}
	}
	slices.Sort(axes)
	for i := 1; i < len(axes); i++ {
		if axes[i] == axes[i-1] {
			return nil, errors.Errorf("%s: axis %d is given twice", op, axes[i])
		}
	}
	return axes, nil
}

// Reverse turns axes around.
func (f *Function) Reverse(x compute.Value, axes ...int) (compute.Value, error) {
	v, err := f.own("Reverse", x)
	if err != nil {
		return nil, err
	}
	if axes, err = axesOf("Reverse", v.shape, axes, false); err != nil {
		return nil, err
	}
	return f.emit("reverse", v.shape, []*value{v}, "axes = "+ints(axes)), nil
}

// Iota counts along an axis.
func (f *Function) Iota(shape shapes.Shape, iotaAxis int) (compute.Value, error) {
	if f.returned {
		return nil, errors.Errorf("Iota: function %s has returned: it takes no more ops", f)
	}
	if iotaAxis < 0 || iotaAxis >= shape.Rank() {
		return nil, errors.Errorf("Iota: there is no axis %d in %s", iotaAxis, shape)
	}
	if shape.DType == dtypes.Bool {
		return nil, errors.Errorf("Iota counts in numbers, got %s", shape)
	}
	kind, err := f.builder.symbols.typeOf(shape)
	if err != nil {
		return nil, err
	}
	return f.emit("iota", shape.Clone(), nil, "type = "+kind, attr("axis", iotaAxis)), nil
}

// extent is a dim as a scalar.
func (f *Function) extent(v *value, axis int) (*value, error) {
	dim, err := f.builder.symbols.dim(v.shape, axis)
	if err != nil {
		return nil, err
	}
	made := f.emit("extent", shapes.Make(dtypes.Int32), nil, "dim = "+dim.String(), "dtype = i32")
	made.extent = dim
	return made, nil
}

// DynamicDimensionSize is the size of an axis when the computation runs, an Int32.
func (f *Function) DynamicDimensionSize(operand compute.Value, axis int) (compute.Value, error) {
	v, err := f.own("DynamicDimensionSize", operand)
	if err != nil {
		return nil, err
	}
	axes, err := axesOf("DynamicDimensionSize", v.shape, []int{axis}, false)
	if err != nil {
		return nil, err
	}
	return f.extent(v, axes[0])
}

// DynamicShape are the sizes of all axes when the computation runs, Int32[rank].
func (f *Function) DynamicShape(operand compute.Value) (compute.Value, error) {
	v, err := f.own("DynamicShape", operand)
	if err != nil {
		return nil, err
	}
	if v.shape.Rank() == 0 {
		return f.constant(nil, shapes.Make(dtypes.Int32, 0))
	}
	sizes := make([]*value, v.shape.Rank())
	for axis := range sizes {
		size, err := f.extent(v, axis)
		if err != nil {
			return nil, err
		}
		if sizes[axis], err = f.reshape(size, shapes.Make(dtypes.Int32, 1)); err != nil {
			return nil, err
		}
	}
	if len(sizes) == 1 {
		return sizes[0], nil
	}
	return f.emit("concatenate", shapes.Make(dtypes.Int32, len(sizes)), sizes, "axis = 0"), nil
}

// DynamicReshape gives the elements other dims, some of them known when the computation runs alone. A dim that is a
// value must be a sum or product of sizes and numbers that this backend can follow: RLX knows dims by formulas.
func (f *Function) DynamicReshape(operand compute.Value, dimensions ...compute.DynamicDimensionSpec) (compute.Value, error) {
	v, err := f.own("DynamicReshape", operand)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DynamicReshape(v.shape, dimensions)
	if err != nil {
		return nil, err
	}
	s := &f.builder.symbols
	inferred := -1
	rest := number(1) // what the size that is left over is
	for axis := range v.shape.Rank() {
		dim, err := s.dim(v.shape, axis)
		if err != nil {
			return nil, err
		}
		rest = rest.times(dim)
	}
	for axis, each := range dimensions {
		switch {
		case each.Value != nil:
			size, err := f.own("DynamicReshape", each.Value)
			if err != nil {
				return nil, err
			}
			if size.extent == nil {
				return nil, unsupported(compute.OpTypeDynamicReshape, "the size of "+strconv.Quote(each.Name)+" is no sum or product of sizes of axes")
			}
			s.byName[each.Name] = size.extent
			rest = rest.over(size.extent)
		case each.Name != "":
			inferred = axis
		default:
			rest = rest.over(number(each.Static))
		}
	}
	if inferred >= 0 {
		if rest == nil {
			return nil, unsupported(compute.OpTypeDynamicReshape, "the size that is left over of "+v.shape.String()+" is no formula")
		}
		s.byName[dimensions[inferred].Name] = rest
	}
	return f.reshape(v, shape)
}

// OptimizationBarrier gives its operands; nothing is optimized across it.
func (f *Function) OptimizationBarrier(operands ...compute.Value) ([]compute.Value, error) {
	all, err := f.ownAll("OptimizationBarrier", operands)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return valuesOf(f.barrier(all)), nil
}

func (f *Function) barrier(all []*value) []*value {
	kinds := make([]shapes.Shape, len(all))
	for i, each := range all {
		kinds[i] = each.shape
	}
	return f.emitAll("optimization_barrier", kinds, all)
}

// SchedulingBarrier gives its operand, when the dependencies are there.
func (f *Function) SchedulingBarrier(operand compute.Value, dependencies ...compute.Value) (compute.Value, error) {
	all, err := f.ownAll("SchedulingBarrier", append([]compute.Value{operand}, dependencies...))
	if err != nil {
		return nil, err
	}
	return f.barrier(all)[0], nil
}

func valuesOf(all []*value) []compute.Value {
	values := make([]compute.Value, len(all))
	for i, each := range all {
		values[i] = each
	}
	return values
}
