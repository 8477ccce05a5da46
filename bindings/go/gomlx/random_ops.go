package gomlx

import (
	"encoding/binary"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// RNGBitGenerator draws bits by Philox, those that XLA draws: the first number of the state is the key, the other two are
// the counter of 128 bits, low ones first, which then counts on by the blocks of 16 bytes that were drawn. Of 8 and 16 bits
// each number is the lowest ones of 32.
func (f *Function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (compute.Value, compute.Value, error) {
	s, err := f.ownState("RNGBitGenerator", state)
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
	wanted := map[int]dtypes.DType{8: dtypes.Uint8, 16: dtypes.Uint16, 32: dtypes.Uint32, 64: dtypes.Uint64}[shape.DType.Bits()]
	if wanted == dtypes.InvalidDType || shape.DType == dtypes.Bool || shape.DType.IsComplex() {
		return nil, nil, errors.Errorf("RNGBitGenerator draws numbers of 8, 16, 32 or 64 bits, got %s", shape)
	}
	drawn, perBlock := dtypes.Uint32, 4
	if wanted == dtypes.Uint64 {
		drawn, perBlock = dtypes.Uint64, 2
	}
	words, err := f.words(s)
	if err != nil {
		return nil, nil, err
	}
	draw := func(shape shapes.Shape, dims string) *value {
		operands := []*value{f.slice(words, 0, 0, 2), f.slice(words, 0, 2, 6)}
		return f.emit("rng_bits", shape, operands, "dims = "+dims, "dtype = "+dtypeNames[shape.DType])
	}
	blocks, err := f.blocks(shape, perBlock)
	if err != nil {
		return nil, nil, err
	}
	if f.builder.carriesWords() {
		next, err := f.numbersOf(f.counted(words, blocks), s.shape)
		if err != nil {
			return nil, nil, err
		}
		if wanted == dtypes.Uint64 && shape.DType == wanted && !shape.IsDynamic() {
			half := shapes.Make(dtypes.Uint32, append(slices.Clone(shape.Dimensions), 2)...)
			if shape.Equal(s.shape) { // a state for other draws
				half = wordsShape
			}
			bits, err := f.numbersOf(draw(half, ints(half.Dimensions)), shape)
			return next, bits, err
		}
		return next, f.drawnAs(draw(withDType(shape, drawn), dims), wanted, shape), nil
	}
	bits := f.drawnAs(draw(withDType(shape, drawn), dims), wanted, shape)
	part := func(i int) *value { return f.slice(s, 0, i, i+1) }
	counter := f.emit("add", blocks.shape, []*value{part(1), blocks})
	carry := f.emit("compare", withDType(blocks.shape, dtypes.Bool), []*value{counter, part(1)}, "direction = lt")
	above := f.emit("add", blocks.shape, []*value{part(2), f.convert(carry, dtypes.Uint64)})
	return f.emit("concatenate", s.shape, []*value{part(0), counter, above}, "axis = 0"), bits, nil
}

// drawnAs gives bits the dtype of a shape, by the unsigned one of as many bits.
func (f *Function) drawnAs(bits *value, unsigned dtypes.DType, shape shapes.Shape) *value {
	bits = f.convert(bits, unsigned)
	if shape.DType != unsigned {
		bits = f.emit("bitcast", shape, []*value{bits}, "dtype = "+dtypeNames[shape.DType])
	}
	return bits
}

// blocks are as many as hold the elements, perBlock in each, as a Uint64[1].
func (f *Function) blocks(shape shapes.Shape, perBlock int) (*value, error) {
	number := func(n int) (*value, error) {
		return f.constant(binary.LittleEndian.AppendUint64(nil, uint64(n)), shapes.Make(dtypes.Uint64, 1))
	}
	if !shape.IsDynamic() {
		return number((shape.Size() + perBlock - 1) / perBlock)
	}
	size, err := number(1)
	if err != nil {
		return nil, err
	}
	for axis := range shape.Rank() {
		extent, err := f.extent(&value{fn: f, shape: shape}, axis)
		if err != nil {
			return nil, err
		}
		if extent, err = f.reshape(f.convert(extent, dtypes.Uint64), size.shape); err != nil {
			return nil, err
		}
		size = f.emit("mul", size.shape, []*value{size, extent})
	}
	more, err := number(perBlock - 1)
	if err != nil {
		return nil, err
	}
	each, err := number(perBlock)
	if err != nil {
		return nil, err
	}
	return f.emit("div", size.shape, []*value{f.emit("add", size.shape, []*value{size, more}), each}), nil
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
