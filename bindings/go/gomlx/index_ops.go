package gomlx

import (
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// Gather takes slices from where index vectors say; one that does not lie within the operand is moved there.
func (f *Function) Gather(operand, startIndices compute.Value, indexVectorAxis int,
	offsetOutputAxes, collapsedSliceAxes, startIndexMap, sliceSizes []int, indicesAreSorted bool) (compute.Value, error) {
	all, err := f.ownAll("Gather", []compute.Value{operand, startIndices})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Gather(all[0].shape, all[1].shape, indexVectorAxis, offsetOutputAxes, collapsedSliceAxes,
		startIndexMap, sliceSizes, indicesAreSorted)
	if err != nil {
		return nil, err
	}
	sizes := make([]string, len(sliceSizes))
	for axis, size := range sliceSizes {
		dim := number(size)
		if size == shapes.DynamicDim { // the whole axis
			if dim, err = f.builder.symbols.dim(all[0].shape, axis); err != nil {
				return nil, errors.WithMessage(err, "Gather")
			}
		}
		sizes[axis] = dim.String()
	}
	return f.emit("gather", shape, all, "offset_dims = "+ints(offsetOutputAxes), "collapsed_slice_dims = "+ints(collapsedSliceAxes),
		"start_index_map = "+ints(startIndexMap), attr("index_vector_dim", indexVectorAxis), "slice_sizes = ["+strings.Join(sizes, ", ")+"]",
		"out_of_range = clip"), nil
}

func (f *Function) scatter(op compute.OpType, kind string, operand, indices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int) (compute.Value, error) {
	all, err := f.ownAll(op.String(), []compute.Value{operand, indices, updates})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.Scatter(all[0].shape, all[1].shape, all[2].shape, indexVectorAxis, updateWindowAxes,
		insertedWindowAxes, scatterAxesToOperandAxes)
	if err != nil {
		return nil, err
	}
	return f.emit("scatter", shape, all, "kind = "+kind, "update_window_dims = "+ints(updateWindowAxes),
		"inserted_window_dims = "+ints(insertedWindowAxes), "scatter_dims_to_operand_dims = "+ints(scatterAxesToOperandAxes),
		attr("index_vector_dim", indexVectorAxis)), nil
}

// ScatterSum adds updates where index vectors say.
func (f *Function) ScatterSum(operand, scatterIndices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterSum, "add", operand, scatterIndices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

// ScatterMax keeps the greatest of what stands there and the updates.
func (f *Function) ScatterMax(operand, scatterIndices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMax, "max", operand, scatterIndices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

// ScatterMin keeps the least of what stands there and the updates.
func (f *Function) ScatterMin(operand, scatterIndices, updates compute.Value, indexVectorAxis int,
	updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes []int, _, _ bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMin, "min", operand, scatterIndices, updates, indexVectorAxis, updateWindowAxes, insertedWindowAxes, scatterAxesToOperandAxes)
}

// starts are scalars, one for each axis, all of one dtype.
func (f *Function) starts(op string, given []compute.Value, rank int) ([]*value, error) {
	all, err := f.ownAll(op, given)
	if err != nil {
		return nil, err
	}
	if len(all) == 1 && all[0].shape.Rank() == 1 && all[0].shape.Dimensions[0] == rank { // all starts in one tensor
		packed := all[0]
		all = make([]*value, rank)
		for axis := range all {
			if all[axis], err = f.reshape(f.slice(packed, 0, axis, axis+1), shapes.Make(packed.shape.DType)); err != nil {
				return nil, err
			}
		}
	}
	if len(all) != rank {
		return nil, errors.Errorf("%s takes one start for each of %d axes, got %d", op, rank, len(all))
	}
	for i, each := range all {
		if !each.shape.IsScalar() || !each.shape.DType.IsInt() {
			return nil, errors.Errorf("%s: start %d is %s, not an integer scalar", op, i, each.shape)
		}
		if each.shape.DType != all[0].shape.DType || each.shape.DType.IsPacked() {
			for k := range all {
				all[k] = f.convert(all[k], dtypes.Int64)
			}
			break
		}
	}
	return all, nil
}

// DynamicSlice takes a slice from where scalars say, moved so that it lies within the operand.
func (f *Function) DynamicSlice(operand compute.Value, startIndices []compute.Value, sliceDims []int) (compute.Value, error) {
	v, err := f.own("DynamicSlice", operand)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DynamicSlice(v.shape, sliceDims)
	if err != nil {
		return nil, err
	}
	starts, err := f.starts("DynamicSlice", startIndices, v.shape.Rank())
	if err != nil {
		return nil, err
	}
	return f.emit("dynamic_slice", shape, append([]*value{v}, starts...), "sizes = "+ints(sliceDims)), nil
}

// DynamicUpdateSlice puts a slice where scalars say, moved so that it lies within the operand.
func (f *Function) DynamicUpdateSlice(operand, update compute.Value, startIndices []compute.Value) (compute.Value, error) {
	all, err := f.ownAll("DynamicUpdateSlice", []compute.Value{operand, update})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DynamicUpdateSlice(all[0].shape, all[1].shape)
	if err != nil {
		return nil, err
	}
	starts, err := f.starts("DynamicUpdateSlice", startIndices, all[0].shape.Rank())
	if err != nil {
		return nil, err
	}
	return f.emit("dynamic_update_slice", shape, append(all, starts...)), nil
}

// ArgMinMax is the place of the least or greatest element of an axis, the first of equals, NaN first of all.
func (f *Function) ArgMinMax(x compute.Value, axis int, outputDType dtypes.DType, isMin bool) (compute.Value, error) {
	v, err := f.own("ArgMinMax", x)
	if err != nil {
		return nil, err
	}
	axes, err := axesOf("ArgMinMax", v.shape, []int{axis}, false)
	if err != nil {
		return nil, err
	}
	if v.shape.DType == dtypes.Bool { // false is less than true
		v = f.convert(v, dtypes.Uint8)
	}
	shape, err := shapeinference.ArgMinMax(v.shape, axes[0], outputDType)
	if err != nil {
		return nil, err
	}
	name := "argmax"
	if isMin {
		name = "argmin"
	}
	return f.convert(f.emit(name, withDType(shape, dtypes.Int32), []*value{v}, attr("axis", axes[0])), outputDType), nil
}
