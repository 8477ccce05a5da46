package gomlx

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// RLX stores elements narrower than a byte and converts them, and takes no bits of theirs: their bitcasts are made of
// shifts of bytes.

// shifts are the places of the elements within a byte, from the low bit up, as a tensor of that shape along its last axis.
func (f *Function) shifts(shape shapes.Shape, bits int) (*value, error) {
	places := make([]byte, 8/bits)
	for i := range places {
		places[i] = byte(i * bits)
	}
	made, err := f.constant(places, shapes.Make(dtypes.Uint8, len(places)))
	if err != nil {
		return nil, err
	}
	return f.broadcastInDim(made, withDType(shape, dtypes.Uint8), []int{shape.Rank() - 1})
}

// bytesOf gives the bytes of a value along a new last axis, but for one that has one byte an element.
func (f *Function) bytesOf(v *value) *value {
	shape := withDType(v.shape, dtypes.Uint8)
	if size := v.shape.DType.Bits() / 8; size > 1 {
		shape.Dimensions = append(shape.Dimensions, size)
		if shape.AxisNames != nil {
			shape.AxisNames = append(shape.AxisNames, "")
		}
	}
	if v.shape.DType == dtypes.Uint8 {
		return v
	}
	return f.emit("bitcast", shape, []*value{v}, "dtype = u8")
}

// resign takes the bits of packed elements as signed ones, or as unsigned ones, of as many bits.
func (f *Function) resign(v *value, to dtypes.DType) *value {
	if dtypeNames[v.shape.DType] == dtypeNames[to] { // u2 is what stores Int2
		return f.emit("reshape", withDType(v.shape, to), []*value{v}, "dims = "+ints(v.shape.Dimensions))
	}
	return f.emit("convert", withDType(v.shape, to), []*value{f.emit("convert", withDType(v.shape, dtypes.Int8), []*value{v}, "dtype = i8")},
		"dtype = "+dtypeNames[to])
}

// unpack takes the bits of whole bytes as packed elements.
func (f *Function) unpack(v *value, shape shapes.Shape) (*value, error) {
	bytes := f.bytesOf(v)
	bits := shape.DType.Bits()
	split := bytes.shape.Clone()
	split.Dimensions = append(split.Dimensions, 8/bits)
	if split.AxisNames != nil {
		split.AxisNames = append(split.AxisNames, "")
	}
	axes := make([]int, bytes.shape.Rank())
	for i := range axes {
		axes[i] = i
	}
	wide, err := f.broadcastInDim(bytes, split, axes)
	if err != nil {
		return nil, err
	}
	places, err := f.shifts(split, bits)
	if err != nil {
		return nil, err
	}
	mask, err := f.constant([]byte{byte(1<<bits - 1)}, shapes.Make(dtypes.Uint8))
	if err != nil {
		return nil, err
	}
	if mask, err = f.broadcast(mask, split); err != nil {
		return nil, err
	}
	low := f.emit("bitwise_and", split, []*value{f.emit("shift_right_logical", split, []*value{wide, places}), mask})
	// An integer that is out of range wraps: 15 is -1 of 4 bits.
	made := f.emit("convert", withDType(split, shape.DType), []*value{low}, "dtype = "+dtypeNames[shape.DType])
	return f.reshape(made, shape)
}

// pack takes the bits of packed elements, whose last axis fills an element of the other dtype, as that.
func (f *Function) pack(v *value, shape shapes.Shape) (*value, error) {
	bits := v.shape.DType.Bits()
	size := max(shape.DType.Bits()/8, 1)
	split := withDType(shape, dtypes.Uint8)
	split.AxisNames = nil
	split.Dimensions = append(split.Dimensions, size, 8/bits)
	wide := f.emit("convert", withDType(v.shape, dtypes.Uint8), []*value{v}, "dtype = u8")
	wide, err := f.reshape(wide, split)
	if err != nil {
		return nil, err
	}
	mask, err := f.constant([]byte{byte(1<<bits - 1)}, shapes.Make(dtypes.Uint8))
	if err != nil {
		return nil, err
	}
	if mask, err = f.broadcast(mask, split); err != nil {
		return nil, err
	}
	places, err := f.shifts(split, bits)
	if err != nil {
		return nil, err
	}
	high := f.emit("shift_left", split, []*value{f.emit("bitwise_and", split, []*value{wide, mask}), places})
	joined := split.Clone()
	joined.Dimensions = joined.Dimensions[:len(joined.Dimensions)-1]
	bytes := f.emit("reduce", joined, []*value{high}, "kind = sum", "axes = "+ints([]int{joined.Rank()}))
	if size > 1 {
		return f.emit("bitcast", shape, []*value{bytes}, "dtype = "+dtypeNames[shape.DType]), nil
	}
	if bytes, err = f.reshape(bytes, withDType(shape, dtypes.Uint8)); err != nil || shape.DType == dtypes.Uint8 {
		return bytes, err
	}
	return f.emit("bitcast", shape, []*value{bytes}, "dtype = "+dtypeNames[shape.DType]), nil
}
