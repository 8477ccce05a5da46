package gomlx

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

// DotGeneral sums products over contracted axes, for each index of the batch axes.
func (f *Function) DotGeneral(lhs compute.Value, lhsContractingAxes, lhsBatchAxes []int,
	rhs compute.Value, rhsContractingAxes, rhsBatchAxes []int, config compute.DotGeneralConfig) (compute.Value, error) {
	all, err := f.ownAll("DotGeneral", []compute.Value{lhs, rhs})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.DotGeneral(all[0].shape, lhsContractingAxes, lhsBatchAxes, all[1].shape, rhsContractingAxes, rhsBatchAxes, config)
	if err != nil {
		return nil, err
	}
	in := all[0].shape.DType
	accumulator := config.AccumulatorDType
	if accumulator == dtypes.InvalidDType {
		accumulator = in
	}
	// A half accumulates in f32 as it is.
	if accumulator != in {
		all[0], all[1] = f.convert(all[0], accumulator), f.convert(all[1], accumulator)
	}
	made := f.emit("dot_general", withDType(shape, accumulator), all, "lhs_batch = "+ints(lhsBatchAxes), "rhs_batch = "+ints(rhsBatchAxes),
		"lhs_contract = "+ints(lhsContractingAxes), "rhs_contract = "+ints(rhsContractingAxes))
	return f.convert(made, shape.DType), nil
}

// dot contracts the last axis of lhs with the first of rhs.
func (f *Function) dot(lhs, rhs *value, rhsAxis int) *value {
	last := lhs.shape.Rank() - 1
	shape := lhs.shape.Clone()
	shape.Dimensions = shape.Dimensions[:last]
	if shape.AxisNames != nil {
		shape.AxisNames = shape.AxisNames[:last]
	}
	rest := slices.Delete(slices.Clone(rhs.shape.Dimensions), rhsAxis, rhsAxis+1)
	shape.Dimensions = append(shape.Dimensions, rest...)
	if shape.AxisNames != nil {
		shape.AxisNames = append(shape.AxisNames, make([]string, len(rest))...)
	}
	return f.emit("dot_general", shape, []*value{lhs, rhs}, attr("lhs_contract", ints([]int{last})), attr("rhs_contract", ints([]int{rhsAxis})))
}

// ConvGeneral slides a kernel over the input.
func (f *Function) ConvGeneral(input, kernel compute.Value, axes compute.ConvolveAxesConfig, strides []int, paddings [][2]int,
	inputDilations, kernelDilations []int, channelGroupCount, batchGroupCount int) (compute.Value, error) {
	all, err := f.ownAll("ConvGeneral", []compute.Value{input, kernel})
	if err != nil {
		return nil, err
	}
	channelGroupCount, batchGroupCount = max(channelGroupCount, 1), max(batchGroupCount, 1)
	shape, err := shapeinference.ConvGeneral(all[0].shape, all[1].shape, axes, strides, paddings, inputDilations, kernelDilations,
		channelGroupCount, batchGroupCount)
	if err != nil {
		return nil, err
	}
	count := len(axes.InputSpatial)
	low, high := lowHigh(paddings, count)
	return f.emit("convolution", shape, all, "strides = "+ints(orOnes(strides, count)), "padding_low = "+low, "padding_high = "+high,
		"lhs_dilation = "+ints(orOnes(inputDilations, count)), "rhs_dilation = "+ints(orOnes(kernelDilations, count)),
		attr("feature_group_count", channelGroupCount), attr("batch_group_count", batchGroupCount),
		"lhs_layout = "+ints(append([]int{axes.InputBatch, axes.InputChannels}, axes.InputSpatial...)),
		"rhs_layout = "+ints(append([]int{axes.KernelOutputChannels, axes.KernelInputChannels}, axes.KernelSpatial...)),
		"out_layout = "+ints(append([]int{axes.OutputBatch, axes.OutputChannels}, axes.OutputSpatial...))), nil
}

// scalar makes a constant of a dtype from a number: of floats directly, since a device may have no f64 to convert from.
func (f *Function) scalar(number float64, dtype dtypes.DType) (*value, error) {
	var bytes []byte
	switch dtype {
	case dtypes.Float32:
		bytes = binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number)))
	case dtypes.Float16:
		bytes = binary.LittleEndian.AppendUint16(nil, uint16(float16.FromFloat64(number)))
	case dtypes.BFloat16:
		bytes = binary.LittleEndian.AppendUint16(nil, uint16(bfloat16.FromFloat64(number)))
	default:
		first, err := f.constant(binary.LittleEndian.AppendUint64(nil, math.Float64bits(number)), shapes.Make(dtypes.Float64))
		if err != nil {
			return nil, err
		}
		return f.convert(first, dtype), nil
	}
	return f.constant(bytes, shapes.Make(dtype))
}
