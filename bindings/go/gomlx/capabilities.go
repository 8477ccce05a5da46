package gomlx

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// how says by what an op runs: docs/gomlx.md shows it.
type how struct {
	// By is the op of RLX; several words are what it is made of.
	By string
	// Composed: of several ops of RLX.
	Composed bool
}

// standardOps are all ops but the fused ones.
var standardOps = map[compute.OpType]how{}

var fusedOps = map[compute.OpType]how{
	compute.OpTypeFusedSoftmax:                      {By: "softmax"},
	compute.OpTypeFusedLayerNorm:                    {By: "layer_norm"},
	compute.OpTypeFusedGelu:                         {By: "gelu, gelu_tanh"},
	compute.OpTypeFusedDense:                        {By: "dot_general, add, an activation", Composed: true},
	compute.OpTypeFusedScaledDotProductAttention:    {By: "attention"},
	compute.OpTypeFusedScaledDotProductAttentionVJP: {By: "attention_backward"},
	compute.OpTypeFusedAttentionQKVProjection:       {By: "dot_general, slice, add", Composed: true},
	compute.OpTypeFusedQuantizedDense:               {By: "dequant_matmul, or dequantize_blockwise and dot_general; add, an activation", Composed: true},
	compute.OpTypeQuantizedEmbeddingLookup:          {By: "gather, dequantize_blocks", Composed: true},
}

func init() {
	for op, by := range map[compute.OpType]string{
		compute.OpTypeParameter: "input", compute.OpTypeConstant: "constant", compute.OpTypeIdentity: "its operand",
		compute.OpTypeReduceWindow: "reduce_window", compute.OpTypeBitCount: "popcnt", compute.OpTypeAbs: "abs", compute.OpTypeAdd: "add",
		compute.OpTypeAtan2: "atan2", compute.OpTypeBitcast: "bitcast", compute.OpTypeBitwiseAnd: "bitwise_and",
		compute.OpTypeBitwiseNot: "bitwise_not", compute.OpTypeBitwiseOr: "bitwise_or", compute.OpTypeBitwiseXor: "bitwise_xor",
		compute.OpTypeBroadcastInDim: "broadcast_in_dim", compute.OpTypeCall: "call", compute.OpTypeCeil: "ceil", compute.OpTypeClz: "clz",
		compute.OpTypeComplex: "complex", compute.OpTypeConcatenate: "concatenate", compute.OpTypeConj: "conjugate",
		compute.OpTypeConvGeneral: "convolution", compute.OpTypeConvertDType: "convert", compute.OpTypeCos: "cos", compute.OpTypeDiv: "div",
		compute.OpTypeDotGeneral: "dot_general", compute.OpTypeDynamicSlice: "dynamic_slice",
		compute.OpTypeDynamicUpdateSlice: "dynamic_update_slice", compute.OpTypeDynamicDimensionSize: "extent", compute.OpTypeEqual: "compare",
		compute.OpTypeEqualTotalOrder: "compare", compute.OpTypeErf: "erf", compute.OpTypeExp: "exp", compute.OpTypeExpm1: "expm1",
		compute.OpTypeFFT: "fft", compute.OpTypeFloor: "floor", compute.OpTypeGather: "gather", compute.OpTypeGreaterOrEqual: "compare",
		compute.OpTypeGreaterOrEqualTotalOrder: "compare", compute.OpTypeGreaterThan: "compare", compute.OpTypeGreaterThanTotalOrder: "compare",
		compute.OpTypeImag: "imag", compute.OpTypeIota: "iota", compute.OpTypeIsFinite: "is_finite", compute.OpTypeIsNaN: "compare",
		compute.OpTypeLessOrEqual: "compare", compute.OpTypeLessOrEqualTotalOrder: "compare", compute.OpTypeLessThan: "compare",
		compute.OpTypeLessThanTotalOrder: "compare", compute.OpTypeLog: "log", compute.OpTypeLog1p: "log1p",
		compute.OpTypeLogicalAnd: "bitwise_and", compute.OpTypeLogicalNot: "bitwise_not", compute.OpTypeLogicalOr: "bitwise_or",
		compute.OpTypeLogicalXor: "bitwise_xor", compute.OpTypeLogistic: "logistic", compute.OpTypeMax: "maximum", compute.OpTypeMin: "minimum",
		compute.OpTypeMul: "mul", compute.OpTypeNeg: "neg", compute.OpTypeNotEqual: "compare", compute.OpTypeNotEqualTotalOrder: "compare",
		compute.OpTypePad: "pad", compute.OpTypePow: "pow", compute.OpTypeReal: "real", compute.OpTypeReduceBitwiseAnd: "reduce",
		compute.OpTypeReduceBitwiseOr: "reduce", compute.OpTypeReduceBitwiseXor: "reduce", compute.OpTypeReduceLogicalAnd: "reduce",
		compute.OpTypeReduceLogicalOr: "reduce", compute.OpTypeReduceLogicalXor: "reduce", compute.OpTypeReduceMax: "reduce",
		compute.OpTypeReduceMin: "reduce", compute.OpTypeReduceProduct: "reduce", compute.OpTypeReduceSum: "reduce", compute.OpTypeRem: "rem",
		compute.OpTypeReshape: "reshape", compute.OpTypeDynamicReshape: "reshape", compute.OpTypeReverse: "reverse",
		compute.OpTypeRound: "round_nearest_even", compute.OpTypeRsqrt: "rsqrt", compute.OpTypeScatterMax: "scatter",
		compute.OpTypeScatterMin: "scatter", compute.OpTypeScatterSum: "scatter", compute.OpTypeSelectAndScatterMax: "select_and_scatter",
		compute.OpTypeSelectAndScatterMin: "select_and_scatter", compute.OpTypeShiftLeft: "shift_left",
		compute.OpTypeShiftRightArithmetic: "shift_right_arithmetic", compute.OpTypeShiftRightLogical: "shift_right_logical",
		compute.OpTypeSign: "sign", compute.OpTypeSin: "sin", compute.OpTypeSlice: "slice", compute.OpTypeSqrt: "sqrt", compute.OpTypeSub: "sub",
		compute.OpTypeTanh: "tanh", compute.OpTypeTranspose: "transpose", compute.OpTypeWhere: "select",
		compute.OpTypeOptimizationBarrier: "optimization_barrier", compute.OpTypeSchedulingBarrier: "optimization_barrier",
		compute.OpTypeSort: "sort", compute.OpTypeWhile: "while_loop", compute.OpTypeIf: "if_else", compute.OpTypeCapturedValue: "an operand",
		compute.OpTypeAllReduce: "its operands",
	} {
		standardOps[op] = how{By: by}
	}
	for op, by := range map[compute.OpType]string{
		compute.OpTypeRNGBitGenerator: "rng_bits, add", compute.OpTypeBatchNormForInference: "reduce, mul, ...",
		compute.OpTypeBatchNormForTraining: "reduce, mul, ...", compute.OpTypeBatchNormGradient: "reduce, mul, ...",
		compute.OpTypeArgMinMax: "argmax, argmin, convert", compute.OpTypeClamp: "maximum, minimum", compute.OpTypeDynamicShape: "extent, concatenate",
	} {
		standardOps[op] = how{By: by, Composed: true}
	}
}

func capabilities() compute.Capabilities {
	c := compute.Capabilities{Operations: map[compute.OpType]bool{}, Functions: true, DTypes: map[dtypes.DType]bool{}, DynamicAxes: true}
	for op := range standardOps {
		c.Operations[op] = true
	}
	for op := range fusedOps {
		c.Operations[op] = true
	}
	for dtype := range dtypeNames {
		c.DTypes[dtype] = true
	}
	return c
}
