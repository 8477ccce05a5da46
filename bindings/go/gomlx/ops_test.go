package gomlx

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	rlx "rlx.invalid/go"
)

// sample builds an op on parameters of its own.
type sample struct {
	t *testing.T
	f compute.Function
}

func (s sample) of(dtype dtypes.DType, dims ...int) compute.Value {
	s.t.Helper()
	v, err := s.f.Parameter(s.t.Name()+string(rune('a'+len(s.f.(*Function).params))), shapes.Make(dtype, dims...), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s sample) floats(dims ...int) compute.Value { return s.of(dtypes.Float32, dims...) }
func (s sample) ints(dims ...int) compute.Value   { return s.of(dtypes.Int32, dims...) }
func (s sample) bools(dims ...int) compute.Value  { return s.of(dtypes.Bool, dims...) }

// open is a matrix whose first axis is dynamic.
func (s sample) open() compute.Value {
	v, err := s.f.Parameter("open", shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim, 3}, []string{"rows", ""}), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s sample) closure(params []compute.Value, build func(f compute.Function, x []compute.Value) compute.Value) compute.Function {
	return s.filled(func() compute.Function { f, _ := s.f.Closure(); return f }(), params, build)
}

// filled gives a function parameters like those, and returns what build makes of them.
func (s sample) filled(f compute.Function, params []compute.Value, build func(f compute.Function, x []compute.Value) compute.Value) compute.Function {
	inner := sample{s.t, f}
	var all []compute.Value
	for _, each := range params {
		shape := each.(*value).shape
		all = append(all, inner.of(shape.DType, shape.Dimensions...))
	}
	if err := f.Return([]compute.Value{build(f, all)}, nil); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// first drops all results but the first.
func first[T any](v compute.Value, _ T, err error) (compute.Value, error) { return v, err }

func firstOf(all []compute.Value, err error) (compute.Value, error) {
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// samples have one call of each op that is called in a way of its own; those of one or two operands are called by their names.
var samples = map[compute.OpType]func(s sample) (compute.Value, error){
	compute.OpTypeParameter:     func(s sample) (compute.Value, error) { return s.floats(2), nil },
	compute.OpTypeConstant:      func(s sample) (compute.Value, error) { return s.f.Constant([]float32{1, 2}, 2) },
	compute.OpTypeCapturedValue: sampleOfIf,
	compute.OpTypeIf:            sampleOfIf,
	compute.OpTypeCall: func(s sample) (compute.Value, error) {
		f, _ := s.f.Builder().NewFunction("called")
		x := s.floats(2)
		s.filled(f, []compute.Value{x}, func(f compute.Function, x []compute.Value) compute.Value { y, _ := f.Neg(x[0]); return y })
		return firstOf(s.f.Call(f, x))
	},
	compute.OpTypeWhile: func(s sample) (compute.Value, error) {
		x, limit := s.floats(), s.floats()
		condition := s.closure([]compute.Value{x}, func(f compute.Function, x []compute.Value) compute.Value { y, _ := f.LessThan(x[0], limit); return y })
		body := s.closure([]compute.Value{x}, func(f compute.Function, x []compute.Value) compute.Value { y, _ := f.Add(x[0], x[0]); return y })
		return firstOf(s.f.While(condition, body, x))
	},
	compute.OpTypeSort: func(s sample) (compute.Value, error) {
		order := s.closure([]compute.Value{s.floats(), s.floats()}, func(f compute.Function, x []compute.Value) compute.Value {
			y, _ := f.GreaterThan(x[0], x[1])
			return y
		})
		return firstOf(s.f.Sort(order, 0, true, s.floats(5)))
	},
	compute.OpTypeAllReduce: func(s sample) (compute.Value, error) {
		return firstOf(s.f.AllReduce([]compute.Value{s.floats(2)}, compute.ReduceOpSum, nil))
	},
	compute.OpTypeArgMinMax: func(s sample) (compute.Value, error) { return s.f.ArgMinMax(s.floats(2, 3), 1, dtypes.Int32, false) },
	compute.OpTypeBatchNormForInference: func(s sample) (compute.Value, error) {
		return s.f.BatchNormForInference(s.floats(2, 3), s.floats(3), s.floats(3), s.floats(3), s.floats(3), 1e-5, 1)
	},
	compute.OpTypeBatchNormForTraining: func(s sample) (compute.Value, error) {
		y, _, _, err := s.f.BatchNormForTraining(s.floats(2, 3), s.floats(3), s.floats(3), 1e-5, 1)
		return y, err
	},
	compute.OpTypeBatchNormGradient: func(s sample) (compute.Value, error) {
		y, _, _, err := s.f.BatchNormGradient(s.floats(2, 3), s.floats(3), s.floats(3), s.floats(3), s.floats(2, 3), 1e-5, 1)
		return y, err
	},
	compute.OpTypeBitcast:  func(s sample) (compute.Value, error) { return s.f.Bitcast(s.floats(2), dtypes.Int32) },
	compute.OpTypeBitCount: func(s sample) (compute.Value, error) { return s.f.BitCount(s.ints(2)) },
	compute.OpTypeClz:      func(s sample) (compute.Value, error) { return s.f.Clz(s.ints(2)) },
	compute.OpTypeBroadcastInDim: func(s sample) (compute.Value, error) {
		return s.f.BroadcastInDim(s.floats(3), shapes.Make(dtypes.Float32, 2, 3), []int{1})
	},
	compute.OpTypeClamp:   func(s sample) (compute.Value, error) { return s.f.Clamp(s.floats(), s.floats(2), s.floats()) },
	compute.OpTypeComplex: func(s sample) (compute.Value, error) { return s.f.Complex(s.floats(2), s.floats(2)) },
	compute.OpTypeConj:    func(s sample) (compute.Value, error) { return s.f.Conj(s.of(dtypes.Complex64, 2)) },
	compute.OpTypeReal:    func(s sample) (compute.Value, error) { return s.f.Real(s.of(dtypes.Complex64, 2)) },
	compute.OpTypeImag:    func(s sample) (compute.Value, error) { return s.f.Imag(s.of(dtypes.Complex64, 2)) },
	compute.OpTypeFFT: func(s sample) (compute.Value, error) {
		return s.f.FFT(s.of(dtypes.Complex64, 8), compute.FFTForward, []int{8})
	},
	compute.OpTypeConcatenate: func(s sample) (compute.Value, error) {
		return s.f.Concatenate(0, s.floats(2), s.floats(3))
	},
	compute.OpTypeConvGeneral: func(s sample) (compute.Value, error) {
		axes := compute.ConvolveAxesConfig{InputBatch: 0, InputChannels: 1, InputSpatial: []int{2}, KernelOutputChannels: 0,
			KernelInputChannels: 1, KernelSpatial: []int{2}, OutputBatch: 0, OutputChannels: 1, OutputSpatial: []int{2}}
		return s.f.ConvGeneral(s.floats(1, 2, 6), s.floats(4, 2, 3), axes, nil, nil, nil, nil, 1, 1)
	},
	compute.OpTypeConvertDType: func(s sample) (compute.Value, error) { return s.f.ConvertDType(s.floats(2), dtypes.Int32) },
	compute.OpTypeDotGeneral: func(s sample) (compute.Value, error) {
		return s.f.DotGeneral(s.floats(2, 3), []int{1}, nil, s.floats(3, 4), []int{0}, nil, compute.DotGeneralConfig{})
	},
	compute.OpTypeDynamicDimensionSize: func(s sample) (compute.Value, error) { return s.f.DynamicDimensionSize(s.open(), 0) },
	compute.OpTypeDynamicShape:         func(s sample) (compute.Value, error) { return s.f.DynamicShape(s.open()) },
	compute.OpTypeDynamicReshape: func(s sample) (compute.Value, error) {
		x := s.open()
		size, err := s.f.DynamicDimensionSize(x, 0)
		if err != nil {
			return nil, err
		}
		return s.f.DynamicReshape(x, compute.DynamicDimensionSpec{Static: 3}, compute.DynamicDimensionSpec{Value: size, Name: "rows"})
	},
	compute.OpTypeDynamicSlice: func(s sample) (compute.Value, error) {
		return s.f.DynamicSlice(s.floats(4), []compute.Value{s.ints()}, []int{2})
	},
	compute.OpTypeDynamicUpdateSlice: func(s sample) (compute.Value, error) {
		return s.f.DynamicUpdateSlice(s.floats(4), s.floats(2), []compute.Value{s.ints()})
	},
	compute.OpTypeGather: func(s sample) (compute.Value, error) {
		return s.f.Gather(s.floats(4, 3), s.ints(2, 1), 1, []int{1}, []int{0}, []int{0}, []int{1, 3}, false)
	},
	compute.OpTypeIota: func(s sample) (compute.Value, error) { return s.f.Iota(shapes.Make(dtypes.Float32, 3), 0) },
	compute.OpTypePad: func(s sample) (compute.Value, error) {
		return s.f.Pad(s.floats(2), s.floats(), compute.PadAxis{Start: 1, End: 1, Interior: 1})
	},
	compute.OpTypeReduceWindow: func(s sample) (compute.Value, error) {
		return s.f.ReduceWindow(s.floats(6), compute.ReduceOpMax, []int{2}, nil, nil, nil, nil)
	},
	compute.OpTypeReshape: func(s sample) (compute.Value, error) { return s.f.Reshape(s.floats(6), 2, 3) },
	compute.OpTypeReverse: func(s sample) (compute.Value, error) { return s.f.Reverse(s.floats(6), 0) },
	compute.OpTypeRNGBitGenerator: func(s sample) (compute.Value, error) {
		_, bits, err := s.f.RNGBitGenerator(s.of(dtypes.Uint64, 3), shapes.Make(dtypes.Uint32, 4))
		return bits, err
	},
	compute.OpTypeScatterSum: func(s sample) (compute.Value, error) {
		return s.f.ScatterSum(s.floats(4), s.ints(2, 1), s.floats(2), 1, nil, []int{0}, []int{0}, false, false)
	},
	compute.OpTypeScatterMax: func(s sample) (compute.Value, error) {
		return s.f.ScatterMax(s.floats(4), s.ints(2, 1), s.floats(2), 1, nil, []int{0}, []int{0}, false, false)
	},
	compute.OpTypeScatterMin: func(s sample) (compute.Value, error) {
		return s.f.ScatterMin(s.floats(4), s.ints(2, 1), s.floats(2), 1, nil, []int{0}, []int{0}, false, false)
	},
	compute.OpTypeSelectAndScatterMax: func(s sample) (compute.Value, error) {
		return s.f.SelectAndScatterMax(s.floats(6), s.floats(3), []int{2}, []int{2}, nil)
	},
	compute.OpTypeSelectAndScatterMin: func(s sample) (compute.Value, error) {
		return s.f.SelectAndScatterMin(s.floats(6), s.floats(3), []int{2}, []int{2}, nil)
	},
	compute.OpTypeSlice:     func(s sample) (compute.Value, error) { return s.f.Slice(s.floats(6), []int{1}, []int{5}, []int{2}) },
	compute.OpTypeTranspose: func(s sample) (compute.Value, error) { return s.f.Transpose(s.floats(2, 3), 1, 0) },
	compute.OpTypeWhere:     func(s sample) (compute.Value, error) { return s.f.Where(s.bools(2), s.floats(2), s.floats(2)) },
	compute.OpTypeOptimizationBarrier: func(s sample) (compute.Value, error) {
		return firstOf(s.f.OptimizationBarrier(s.floats(2)))
	},
	compute.OpTypeSchedulingBarrier: func(s sample) (compute.Value, error) { return s.f.SchedulingBarrier(s.floats(2), s.floats(3)) },

	compute.OpTypeFusedSoftmax: func(s sample) (compute.Value, error) { return s.f.FusedSoftmax(s.floats(2, 3), 1) },
	compute.OpTypeFusedGelu:    func(s sample) (compute.Value, error) { return s.f.FusedGelu(s.floats(2, 3), true) },
	compute.OpTypeFusedLayerNorm: func(s sample) (compute.Value, error) {
		return s.f.FusedLayerNorm(s.floats(2, 3), []int{1}, 1e-5, s.floats(3), s.floats(3))
	},
	compute.OpTypeFusedDense: func(s sample) (compute.Value, error) {
		return s.f.FusedDense(s.floats(2, 3), s.floats(3, 4), s.floats(4), compute.DenseConfig{Activation: compute.ActivationSilu})
	},
	compute.OpTypeFusedScaledDotProductAttention: func(s sample) (compute.Value, error) {
		return first(s.f.FusedScaledDotProductAttention(s.floats(1, 2, 4, 3), s.floats(1, 2, 4, 3), s.floats(1, 2, 4, 3),
			compute.AttentionAxesLayoutBHSD, nil))
	},
	compute.OpTypeFusedScaledDotProductAttentionVJP: func(s sample) (compute.Value, error) {
		q, k, v := s.floats(1, 2, 4, 3), s.floats(1, 2, 4, 3), s.floats(1, 2, 4, 3)
		y, states, err := s.f.FusedScaledDotProductAttention(q, k, v, compute.AttentionAxesLayoutBHSD, nil)
		if err != nil {
			return nil, err
		}
		dq, _, _, err := s.f.FusedScaledDotProductAttentionVJP(q, k, v, compute.AttentionAxesLayoutBHSD, nil, y, states, s.floats(1, 2, 4, 3))
		return dq, err
	},
	compute.OpTypeFusedAttentionQKVProjection: func(s sample) (compute.Value, error) {
		q, _, _, err := s.f.FusedAttentionQKVProjection(s.floats(2, 3), s.floats(3, 8), s.floats(4), s.floats(2), s.floats(2), 4, 2)
		return q, err
	},
	compute.OpTypeFusedQuantizedDense: func(s sample) (compute.Value, error) {
		quantization := &compute.Quantization{Scale: s.floats(3, 2), BlockAxis: 1, BlockSize: 2}
		return s.f.FusedQuantizedDense(s.floats(2, 3), s.of(dtypes.Int8, 3, 4), nil, quantization, compute.ActivationNone)
	},
	compute.OpTypeQuantizedEmbeddingLookup: func(s sample) (compute.Value, error) {
		return s.f.QuantizedEmbeddingLookup(s.of(dtypes.Uint8, 4, 34), s.ints(2, 1),
			&compute.Quantization{Scheme: compute.QuantGGML, GGMLType: compute.GGMLQ8_0})
	},
}

func sampleOfIf(s sample) (compute.Value, error) {
	x := s.floats(2)
	same := s.closure(nil, func(compute.Function, []compute.Value) compute.Value { return x })
	negative := s.closure(nil, func(f compute.Function, _ []compute.Value) compute.Value { y, _ := f.Neg(x); return y })
	return firstOf(s.f.If(s.bools(), same, negative))
}

// sampled builds a call of an op.
func sampled(s sample, op compute.OpType) (compute.Value, error) {
	if build, ok := samples[op]; ok {
		return build(s)
	}
	name := op.String()
	var operand func(dims ...int) compute.Value
	switch {
	case strings.Contains(name, "Logical"):
		operand = s.bools
	case strings.Contains(name, "Bitwise"), strings.HasPrefix(name, "Shift"):
		operand = s.ints
	default:
		operand = s.floats
	}
	if name == "ShiftRightLogical" {
		operand = s.ints
	}
	method := reflect.ValueOf(s.f).MethodByName(name)
	in := []reflect.Value{reflect.ValueOf(operand(2, 3))}
	if strings.HasPrefix(name, "Reduce") {
		in = append(in, reflect.ValueOf(1))
	} else if method.Type().NumIn() == 2 {
		in = append(in, reflect.ValueOf(operand(2, 3)))
	}
	out := method.Call(in)
	err, _ := out[1].Interface().(error)
	return out[0].Interface(), err
}

// refusedOn compiles a call of each op that the backend claims, and gives what the library says of those that it refuses.
func refusedOn(t *testing.T, b *Backend) map[compute.OpType]string {
	refused := map[compute.OpType]string{}
	for op := range b.Capabilities().Operations {
		t.Run(op.String(), func(t *testing.T) {
			builder := b.Builder(t.Name())
			s := sample{t, builder.Main()}
			y, err := sampled(s, op)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.f.Return([]compute.Value{y}, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := builder.Compile(); err != nil {
				var failed *rlx.Error
				if !errors.As(err, &failed) {
					t.Fatal(err)
				}
				refused[op] = failed.Message
			}
		})
	}
	return refused
}

func TestEveryOpThatIsClaimedCompiles(t *testing.T) {
	for op, why := range refusedOn(t, backend(t, "")) {
		t.Errorf("%s: %s", op, why)
	}
	claimed := 0
	for op := range standardOps {
		if op != compute.OpTypeParameter && op != compute.OpTypeConstant && op != compute.OpTypeCapturedValue {
			claimed++
		}
	}
	// 102 ops of compute.StandardOps; Call, Sort, While and If; AllReduce.
	if claimed != 102+4+1 || len(fusedOps) != 9 {
		t.Errorf("%d ops and %d fused ones are claimed", claimed, len(fusedOps))
	}
}

func TestNotEqualTellsZerosApartInTheTotalOrder(t *testing.T) {
	zeros := given{[]float32{0, 0, 1}, shapes.Make(dtypes.Float32, 3)}
	others := given{[]float32{0, float32(math.Copysign(0, -1)), 2}, shapes.Make(dtypes.Float32, 3)}
	got := computed(t, backend(t, ""), []given{zeros, others}, func(f compute.Function, x []compute.Value) (compute.Value, error) {
		different, err := f.NotEqualTotalOrder(x[0], x[1])
		if err != nil {
			return nil, err
		}
		return f.ConvertDType(different, dtypes.Float32)
	})
	closeTo(t, got, []float32{0, 1, 1}, 0)
}
