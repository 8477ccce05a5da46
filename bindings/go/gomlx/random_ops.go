package gomlx

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// RNGBitGenerator draws bits by Philox, from a key that all three numbers of the state go into; the last of them then
// counts on.
func (f *Function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (compute.Value, compute.Value, error) {
	s, err := f.own("RNGBitGenerator", state)
	if err != nil {
		return nil, nil, err
	}
	if !s.shape.Equal(compute.RNGStateShape) {
		return nil, nil, errors.Errorf("RNGBitGenerator takes the state %s, got %s", compute.RNGStateShape, s.shape)
	}
	dims, err := f.builder.symbols.dims(shape)
	if err != nil {
		return nil, nil, errors.WithMessage(err, "RNGBitGenerator")
	}
	drawn := map[int]dtypes.DType{8: dtypes.Uint8, 16: dtypes.Uint16, 32: dtypes.Uint32, 64: dtypes.Uint64}[shape.DType.Bits()]
	if drawn == dtypes.InvalidDType || shape.DType == dtypes.Bool || shape.DType.IsComplex() {
		return nil, nil, errors.Errorf("RNGBitGenerator draws numbers of 8, 16, 32 or 64 bits, got %s", shape)
	}
	// By a shift and not by a bitcast: Core ML, which holds u64 as two words, takes the one and not the other.
	half, err := f.constant(bytes.Repeat([]byte{32, 0, 0, 0, 0, 0, 0, 0}, 3), s.shape)
	if err != nil {
		return nil, nil, err
	}
	low := f.convert(s, dtypes.Uint32)
	high := f.convert(f.emit("shift_right_logical", s.shape, []*value{s, half}), dtypes.Uint32)
	word := func(i, k int) *value { return f.slice([]*value{low, high}[k], 0, i, i+1) }
	key := f.emit("concatenate", shapes.Make(dtypes.Uint32, 2), []*value{word(0, 0), word(0, 1)}, "axis = 0")
	for i := 1; i < 3; i++ {
		for k := range 2 {
			with := f.emit("reshape", shapes.Make(dtypes.Uint32), []*value{word(i, k)}, "dims = []")
			key = f.emit("fold_in", key.shape, []*value{key, with})
		}
	}
	bits := f.emit("rng_bits", withDType(shape, drawn), []*value{key}, "dims = "+dims, "dtype = "+dtypeNames[drawn])
	if shape.DType != drawn {
		bits = f.emit("bitcast", shape, []*value{bits}, "dtype = "+dtypeNames[shape.DType])
	}
	step := make([]byte, 16, 24)
	step = binary.LittleEndian.AppendUint64(step, 1)
	one, err := f.constant(step, s.shape)
	if err != nil {
		return nil, nil, err
	}
	return f.emit("add", s.shape, []*value{s, one}), bits, nil
}

// FFT transforms the last axes, as many as there are lengths.
func (f *Function) FFT(operand compute.Value, fftType compute.FFTType, fftLength []int) (compute.Value, error) {
	v, err := f.own("FFT", operand)
	if err != nil {
		return nil, err
	}
	rank := v.shape.Rank()
	if len(fftLength) == 0 || len(fftLength) > rank {
		return nil, errors.Errorf("FFT takes a length for each of its last axes, got %v for %s", fftLength, v.shape)
	}
	shape := v.shape.Clone()
	last := fftLength[len(fftLength)-1]
	kind, length := "fft", 0
	want := slices.Clone(fftLength)
	switch fftType {
	case compute.FFTForward:
	case compute.FFTInverse:
		kind = "ifft"
	case compute.FFTForwardReal:
		kind, shape.Dimensions[rank-1] = "rfft", last/2+1
		shape.DType = map[dtypes.DType]dtypes.DType{dtypes.Float32: dtypes.Complex64, dtypes.Float64: dtypes.Complex128}[shape.DType]
	case compute.FFTInverseReal:
		kind, length, shape.Dimensions[rank-1] = "irfft", last, last
		want[len(want)-1] = last/2 + 1
		shape.DType = shape.DType.RealDType()
	default:
		return nil, errors.Errorf("FFT: there is no kind %s", fftType)
	}
	if shape.DType == dtypes.InvalidDType || fftType != compute.FFTForwardReal && !v.shape.DType.IsComplex() {
		return nil, errors.Errorf("FFT %s does not take %s", fftType, v.shape)
	}
	axes := make([]int, len(fftLength))
	for i := range axes {
		axes[i] = rank - len(axes) + i
		if v.shape.Dimensions[axes[i]] != want[i] {
			return nil, errors.Errorf("FFT %s of lengths %v takes a dimension of %d for axis %d, got %s", fftType, fftLength, want[i], axes[i], v.shape)
		}
	}
	return f.emit("fft", shape, []*value{v}, "kind = "+kind, "axes = "+ints(axes), attr("length", length)), nil
}
