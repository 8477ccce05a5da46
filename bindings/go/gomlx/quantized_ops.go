package gomlx

import (
	"encoding/binary"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// blockNames are RLX's names of GGML's formats.
var blockNames = map[compute.GGMLQuantType]string{compute.GGMLQ4_0: "q4_0", compute.GGMLQ8_0: "q8_0", compute.GGMLIQ4NL: "iq4_nl",
	compute.GGMLQ2_K: "q2_k", compute.GGMLQ3_K: "q3_k", compute.GGMLQ4_K: "q4_k", compute.GGMLQ5_K: "q5_k", compute.GGMLQ6_K: "q6_k"}

// inBlocks reads rows of bytes as rows of blocks. compute has no dtype for these: the shape of what is made has as many
// bytes as there are elements.
func (f *Function) inBlocks(op compute.OpType, rows *value, quantization *compute.Quantization) (*value, error) {
	if quantization.Scale != nil || quantization.ZeroPoint != nil {
		return nil, errors.Errorf("%s: blocks of GGML hold their scales; Scale and ZeroPoint must be nil", op)
	}
	format := quantization.GGMLType
	name, ok := blockNames[format]
	if !ok {
		return nil, unsupported(op, "there is no block format "+format.String())
	}
	last := rows.shape.Rank() - 1
	if rows.shape.DType != dtypes.Uint8 || last < 0 {
		return nil, errors.Errorf("%s takes blocks of %s as rows of bytes, got %s", op, format, rows.shape)
	}
	bytes := rows.shape.Dimensions[last]
	if bytes == shapes.DynamicDim || bytes%format.BytesPerBlock() != 0 {
		return nil, errors.Errorf("%s: rows of %s are no blocks of %s, which have %d bytes", op, rows.shape, format, format.BytesPerBlock())
	}
	shape := rows.shape.Clone()
	shape.Dimensions[last] = bytes / format.BytesPerBlock() * format.ValuesPerBlock()
	made := f.emit("bitcast", shape, []*value{rows}, "dtype = "+name)
	made.dtype = name
	return made, nil
}

// codes gives what stands beside the codes of a matrix [K, N] in the order in which dequantize_blockwise takes it.
func (f *Function) codes(op compute.OpType, weights *value, quantization *compute.Quantization) (*value, error) {
	if weights.shape.Rank() != 2 || weights.shape.IsDynamic() {
		return nil, errors.Errorf("%s: the weights are no matrix [K, N] but %s", op, weights.shape)
	}
	if quantization.BlockAxis != 1 || quantization.BlockSize < 1 {
		return nil, errors.Errorf("%s: blocks lie along axis 1, and have a size; got axis %d and size %d", op, quantization.BlockAxis, quantization.BlockSize)
	}
	rows, columns := weights.shape.Dimensions[0], weights.shape.Dimensions[1]
	beside := shapes.Make(dtypes.Float32, rows, (columns+quantization.BlockSize-1)/quantization.BlockSize)
	attrs := []string{"axis = 1", attr("block_size", quantization.BlockSize)}
	operands := []*value{weights}
	add := func(what string, given compute.Value) error {
		v, err := f.own(op.String(), given)
		if err == nil && !v.shape.Equal(beside) {
			err = errors.Errorf("%s: the %s is %s, not %s", op, what, v.shape, beside)
		}
		operands = append(operands, v)
		return err
	}
	if err := add("scale", quantization.Scale); err != nil {
		return nil, err
	}
	switch quantization.Scheme {
	case compute.QuantLinear:
		if !weights.shape.DType.IsInt() {
			return nil, errors.Errorf("%s: weights of scheme %s are integers, got %s", op, quantization.Scheme, weights.shape)
		}
		if bits := weights.shape.DType.Bits(); bits < 4 { // those of RLX have no sign
			operands[0] = f.convert(weights, dtypes.Int8)
		}
		if quantization.ZeroPoint != nil { // what GoMLX adds behind the scale
			if err := add("zero point", quantization.ZeroPoint); err != nil {
				return nil, err
			}
			attrs = append(attrs, "has_bias = true")
		}
	case compute.QuantNF4:
		if quantization.ZeroPoint != nil {
			return nil, errors.Errorf("%s: scheme %s has no zero point", op, quantization.Scheme)
		}
		switch weights.shape.DType {
		case dtypes.Uint4:
		case dtypes.Int4:
			operands[0] = f.resign(weights, dtypes.Uint4)
		case dtypes.Int8, dtypes.Uint8:
			operands[0] = f.emit("convert", withDType(weights.shape, dtypes.Uint4), []*value{weights}, "dtype = u4")
		default:
			return nil, errors.Errorf("%s: codes of scheme %s have 4 bits, got %s", op, quantization.Scheme, weights.shape)
		}
		var bytes []byte
		for _, each := range compute.NF4LookupTable {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(each))
		}
		table, err := f.constant(bytes, shapes.Make(dtypes.Float32, len(compute.NF4LookupTable)))
		if err != nil {
			return nil, err
		}
		operands, attrs = append(operands, table), append(attrs, "has_table = true")
	default:
		return nil, unsupported(op, "there is no scheme "+quantization.Scheme.String())
	}
	return f.emit("dequantize_blockwise", withDType(weights.shape, dtypes.Float32), operands, attrs...), nil
}

// FusedQuantizedDense is activation(x w + bias) of weights that are dequantized as they are read: blocks of GGML
// [N, bytes of a row], or codes [K, N] beside their scales.
func (f *Function) FusedQuantizedDense(x, weights, bias compute.Value, weightsQuantization *compute.Quantization,
	activation compute.ActivationType) (compute.Value, error) {
	op := compute.OpTypeFusedQuantizedDense
	if weightsQuantization == nil {
		return nil, errors.Errorf("%s: it is not said how the weights are quantized", op)
	}
	all, err := f.ownAll(op.String(), []compute.Value{x, weights})
	if err != nil {
		return nil, err
	}
	v, w := all[0], all[1]
	if v.shape.DType != dtypes.Float32 || v.shape.Rank() < 1 {
		return nil, unsupported(op, "x is "+v.shape.String()+", and not of Float32 with at least one axis")
	}
	blocks := weightsQuantization.Scheme == compute.QuantGGML
	contracted, columns := 0, 1
	if blocks {
		contracted, columns = 1, 0
		if w, err = f.inBlocks(op, w, weightsQuantization); err != nil {
			return nil, err
		}
	} else if w, err = f.codes(op, w, weightsQuantization); err != nil {
		return nil, err
	}
	last := v.shape.Rank() - 1
	if w.shape.Rank() != 2 || v.shape.Dimensions[last] != w.shape.Dimensions[contracted] {
		return nil, errors.Errorf("%s: x %s and weights of dimensions %v (%s) do not go together", op, v.shape, w.shape.Dimensions, weightsQuantization.Scheme)
	}
	if !blocks {
		return f.finish(op, f.dot(v, w, contracted), bias, activation)
	}
	shape := v.shape.Clone()
	shape.Dimensions[last] = w.shape.Dimensions[columns]
	if shape.AxisNames != nil {
		shape.AxisNames[last] = ""
	}
	return f.finish(op, f.emit("dequant_matmul", shape, []*value{v, w}), bias, activation)
}

// QuantizedEmbeddingLookup takes rows of blocks of GGML, which are dequantized then. A row that there is not is the nearest.
func (f *Function) QuantizedEmbeddingLookup(data, indices compute.Value, dataQuantization *compute.Quantization) (compute.Value, error) {
	op := compute.OpTypeQuantizedEmbeddingLookup
	if dataQuantization == nil {
		return nil, errors.Errorf("%s: it is not said how the data are quantized", op)
	}
	if dataQuantization.Scheme != compute.QuantGGML {
		return nil, unsupported(op, "rows of scheme "+dataQuantization.Scheme.String())
	}
	all, err := f.ownAll(op.String(), []compute.Value{data, indices})
	if err != nil {
		return nil, err
	}
	table, at := all[0], all[1]
	last := at.shape.Rank() - 1
	if table.shape.Rank() != 2 || table.shape.IsDynamic() || !at.shape.DType.IsInt() || last < 0 || at.shape.Dimensions[last] != 1 {
		return nil, errors.Errorf("%s takes a matrix of bytes and integers whose last axis has one element, got %s and %s", op, table.shape, at.shape)
	}
	rows, err := f.Gather(table, at, last, []int{last}, []int{0}, []int{0}, []int{1, table.shape.Dimensions[1]}, false)
	if err != nil {
		return nil, err
	}
	taken, err := f.inBlocks(op, rows.(*value), dataQuantization)
	if err != nil {
		return nil, err
	}
	return f.emit("dequantize_blocks", withDType(taken.shape, dtypes.Float32), []*value{taken}), nil
}
