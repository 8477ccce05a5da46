package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// reduceKinds are RLX's names; of bools all and any stand for the least and the greatest.
func reduceKind(op string, dtype dtypes.DType) string {
	if dtype == dtypes.Bool {
		switch op {
		case "min", "prod":
			return "all"
		case "max", "sum":
			return "any"
		}
	}
	return op
}

func (f *Function) reduce(op compute.OpType, kind string, x compute.Value, axes []int) (compute.Value, error) {
	v, err := f.own(op.String(), x)
	if err != nil {
		return nil, err
	}
	if axes, err = axesOf(op.String(), v.shape, axes, true); err != nil {
		return nil, err
	}
	shape, err := shapeinference.Reduce(v.shape, axes)
	if err != nil {
		return nil, err
	}
	isBool := v.shape.DType == dtypes.Bool
	switch op {
	case compute.OpTypeReduceLogicalAnd, compute.OpTypeReduceLogicalOr, compute.OpTypeReduceLogicalXor:
		if !isBool {
			return nil, errors.Errorf("%s takes bools, got %s", op, v.shape)
		}
	case compute.OpTypeReduceBitwiseAnd, compute.OpTypeReduceBitwiseOr, compute.OpTypeReduceBitwiseXor:
		if !v.shape.DType.IsInt() {
			return nil, errors.Errorf("%s takes integers, got %s", op, v.shape)
		}
	}
	return f.emit("reduce", shape, []*value{v}, "kind = "+reduceKind(kind, v.shape.DType), "axes = "+ints(axes)), nil
}

// reduceBits combines elements by an op of bits, from a first value on whose bits are all set, or none.
func (f *Function) reduceBits(op compute.OpType, name string, allSet bool, x compute.Value, axes []int) (compute.Value, error) {
	made, err := f.reduce(op, "custom", x, axes) // checks
	if err != nil {
		return nil, err
	}
	n := made.(*value).node
	dtype := n.results[0].shape.DType
	first := make([]byte, dtype.Size())
	if allSet {
		for i := range first {
			first[i] = 0xff
		}
	}
	initial, err := f.constant(first, shapes.Make(dtype))
	if err != nil {
		return nil, err
	}
	n.operands = append(n.operands, initial)
	join := newFunction(f.builder, "", f)
	for range 2 {
		join.params = append(join.params, &value{fn: join, shape: shapes.Make(dtype)})
	}
	join.outputs = []*value{join.emit(name, shapes.Make(dtype), slices.Clone(join.params))}
	n.bodies = []body{{attr: "body", fn: join, params: join.params}}
	return made, nil
}

// ReduceSum adds.
func (f *Function) ReduceSum(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceSum, "sum", x, axes)
}

// ReduceProduct multiplies.
func (f *Function) ReduceProduct(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceProduct, "prod", x, axes)
}

// ReduceMax keeps the greatest.
func (f *Function) ReduceMax(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMax, "max", x, axes)
}

// ReduceMin keeps the least.
func (f *Function) ReduceMin(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceMin, "min", x, axes)
}

// ReduceLogicalAnd is whether all hold.
func (f *Function) ReduceLogicalAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalAnd, "all", x, axes)
}

// ReduceLogicalOr is whether any holds.
func (f *Function) ReduceLogicalOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduce(compute.OpTypeReduceLogicalOr, "any", x, axes)
}

// ReduceLogicalXor is whether an odd number of them hold.
func (f *Function) ReduceLogicalXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduceBits(compute.OpTypeReduceLogicalXor, "bitwise_xor", false, x, axes)
}

// ReduceBitwiseAnd keeps bits that are set in all.
func (f *Function) ReduceBitwiseAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduceBits(compute.OpTypeReduceBitwiseAnd, "bitwise_and", true, x, axes)
}

// ReduceBitwiseOr keeps bits that are set in any.
func (f *Function) ReduceBitwiseOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduceBits(compute.OpTypeReduceBitwiseOr, "bitwise_or", false, x, axes)
}

// ReduceBitwiseXor keeps bits that are set in an odd number of them.
func (f *Function) ReduceBitwiseXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduceBits(compute.OpTypeReduceBitwiseXor, "bitwise_xor", false, x, axes)
}

func orOnes(given []int, count int) []int {
	if len(given) == 0 {
		return repeated(1, count)
	}
	return given
}

func lowHigh(paddings [][2]int, count int) (string, string) {
	low, high := repeated(0, count), repeated(0, count)
	for i, each := range paddings {
		low[i], high[i] = each[0], each[1]
	}
	return ints(low), ints(high)
}

// ReduceWindow combines elements within windows.
func (f *Function) ReduceWindow(input compute.Value, reductionType compute.ReduceOpType,
	windowDimensions, strides, inputDilations, windowDilations []int, paddings [][2]int) (compute.Value, error) {
	v, err := f.own("ReduceWindow", input)
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.ReduceWindow(v.shape, windowDimensions, strides, inputDilations, windowDilations, paddings)
	if err != nil {
		return nil, err
	}
	kind, ok := map[compute.ReduceOpType]string{compute.ReduceOpSum: "sum", compute.ReduceOpProduct: "prod",
		compute.ReduceOpMax: "max", compute.ReduceOpMin: "min"}[reductionType]
	if !ok {
		return nil, errors.Errorf("ReduceWindow reduces by Sum, Product, Max or Min, got %s", reductionType)
	}
	rank := v.shape.Rank()
	window := orOnes(windowDimensions, rank)
	if len(strides) == 0 {
		strides = window
	}
	low, high := lowHigh(paddings, rank)
	return f.emit("reduce_window", shape, []*value{v}, "kind = "+reduceKind(kind, v.shape.DType), "window_dims = "+ints(window),
		"strides = "+ints(strides), "base_dilation = "+ints(orOnes(inputDilations, rank)),
		"window_dilation = "+ints(orOnes(windowDilations, rank)), "padding_low = "+low, "padding_high = "+high), nil
}

func (f *Function) selectAndScatter(op compute.OpType, direction string, operand, source compute.Value,
	windowDimensions, windowStrides []int, paddings [][2]int) (compute.Value, error) {
	all, err := f.ownAll(op.String(), []compute.Value{operand, source})
	if err != nil {
		return nil, err
	}
	shape, err := shapeinference.SelectAndScatter(all[0].shape, all[1].shape, windowDimensions, windowStrides, paddings)
	if err != nil {
		return nil, err
	}
	rank := all[0].shape.Rank()
	if len(windowStrides) == 0 {
		windowStrides = windowDimensions
	}
	low, high := lowHigh(paddings, rank)
	return f.emit("select_and_scatter", shape, all, "select = "+direction, "window_dims = "+ints(windowDimensions),
		"strides = "+ints(windowStrides), "padding_low = "+low, "padding_high = "+high), nil
}

// SelectAndScatterMax adds each element of source where its window has the greatest element.
func (f *Function) SelectAndScatterMax(operand, source compute.Value, windowDimensions, windowStrides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMax, "ge", operand, source, windowDimensions, windowStrides, paddings)
}

// SelectAndScatterMin adds each element of source where its window has the least element.
func (f *Function) SelectAndScatterMin(operand, source compute.Value, windowDimensions, windowStrides []int, paddings [][2]int) (compute.Value, error) {
	return f.selectAndScatter(compute.OpTypeSelectAndScatterMin, "le", operand, source, windowDimensions, windowStrides, paddings)
}
