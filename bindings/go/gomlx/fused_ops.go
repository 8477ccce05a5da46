package gomlx

import (
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

func (f *Function) floats(op compute.OpType, x compute.Value) (*value, error) {
	v, err := f.own(op.String(), x)
	if err == nil && !v.shape.DType.IsFloat() {
		err = errors.Errorf("%s takes floats, got %s", op, v.shape)
	}
	return v, err
}

// FusedSoftmax along one axis.
func (f *Function) FusedSoftmax(x compute.Value, axis int) (compute.Value, error) {
	v, err := f.floats(compute.OpTypeFusedSoftmax, x)
	if err != nil {
		return nil, err
	}
	if axis < 0 || axis >= v.shape.Rank() {
		return nil, errors.Errorf("FusedSoftmax: there is no axis %d in %s", axis, v.shape)
	}
	return f.emit("softmax", v.shape, []*value{v}, attr("axis", axis)), nil
}

// FusedGelu is x Phi(x), exactly or by a hyperbolic tangent.
func (f *Function) FusedGelu(x compute.Value, exact bool) (compute.Value, error) {
	v, err := f.floats(compute.OpTypeFusedGelu, x)
	if err != nil {
		return nil, err
	}
	name := "gelu_tanh"
	if exact {
		name = "gelu"
	}
	return f.emit(name, v.shape, []*value{v}), nil
}

// FusedLayerNorm normalizes over axes; over others than the last ones by a transposition.
func (f *Function) FusedLayerNorm(x compute.Value, axes []int, epsilon float64, gamma, beta compute.Value) (compute.Value, error) {
	v, err := f.floats(compute.OpTypeFusedLayerNorm, x)
	if err != nil {
		return nil, err
	}
	if axes, err = axesOf("FusedLayerNorm", v.shape, axes, false); err != nil {
		return nil, err
	}
	rank := v.shape.Rank()
	if len(axes) == 0 || axes[0] != rank-len(axes) {
		return nil, unsupported(compute.OpTypeFusedLayerNorm, "the axes "+ints(axes)+" are not the last ones of "+v.shape.String())
	}
	if v.shape.IsDynamic() {
		return nil, unsupported(compute.OpTypeFusedLayerNorm, "an axis of "+v.shape.String()+" is dynamic")
	}
	over := shapes.Make(v.shape.DType, v.shape.Dimensions[axes[0]:]...)
	operands := []*value{v}
	for _, each := range []compute.Value{gamma, beta} {
		if each == nil {
			continue
		}
		w, err := f.floats(compute.OpTypeFusedLayerNorm, each)
		if err != nil {
			return nil, err
		}
		if w.shape.Size() != over.Size() || w.shape.DType != over.DType {
			return nil, unsupported(compute.OpTypeFusedLayerNorm, "scale and offset are not "+over.String()+" but "+w.shape.String())
		}
		if w, err = f.reshape(w, over); err != nil {
			return nil, err
		}
		operands = append(operands, w)
	}
	return f.emit("layer_norm", v.shape, operands, attr("axis", axes[0]), "epsilon = "+strconv.FormatFloat(epsilon, 'g', -1, 64),
		attr("has_gamma", gamma != nil), attr("has_beta", beta != nil)), nil
}

var activations = map[compute.ActivationType]string{compute.ActivationGelu: "gelu", compute.ActivationRelu: "relu",
	compute.ActivationSilu: "silu", compute.ActivationHardSwish: "hard_swish", compute.ActivationTanh: "tanh"}

// finish adds a bias over the last axes, and applies an activation.
func (f *Function) finish(op compute.OpType, product *value, bias compute.Value, activation compute.ActivationType) (compute.Value, error) {
	if bias != nil {
		b, err := f.floats(op, bias)
		if err != nil {
			return nil, err
		}
		axes := make([]int, b.shape.Rank())
		for i := range axes {
			axes[i] = product.shape.Rank() - len(axes) + i
			if axes[i] < 0 || b.shape.Dimensions[i] != product.shape.Dimensions[axes[i]] || b.shape.DType != product.shape.DType {
				return nil, errors.Errorf("%s: the bias %s does not fit the product %s", op, b.shape, product.shape)
			}
		}
		wide, err := f.broadcastInDim(b, product.shape, axes)
		if err != nil {
			return nil, err
		}
		product = f.emit("add", product.shape, []*value{product, wide})
	}
	if activation == compute.ActivationNone {
		return product, nil
	}
	name, ok := activations[activation]
	if !ok {
		return nil, unsupported(op, "there is no activation "+activation.String())
	}
	return f.emit(name, product.shape, []*value{product}), nil
}

// FusedDense is activation(x w + bias).
func (f *Function) FusedDense(x, weight, bias compute.Value, config compute.DenseConfig) (compute.Value, error) {
	op := compute.OpTypeFusedDense
	v, err := f.floats(op, x)
	if err != nil {
		return nil, err
	}
	w, err := f.floats(op, weight)
	if err != nil {
		return nil, err
	}
	axis := 0
	if config.WeightLayout == compute.DenseLayoutOutputsInput {
		axis = w.shape.Rank() - 1
	}
	if v.shape.Rank() < 1 || w.shape.Rank() < 2 || v.shape.DType != w.shape.DType || v.shape.Dimensions[v.shape.Rank()-1] != w.shape.Dimensions[axis] {
		return nil, errors.Errorf("FusedDense: x %s and the weight %s (layout %s) do not go together", v.shape, w.shape, config.WeightLayout)
	}
	return f.finish(op, f.dot(v, w, axis), bias, config.Activation)
}

// FusedAttentionQKVProjection is one product that is cut into three parts, each with its bias.
func (f *Function) FusedAttentionQKVProjection(x, wQKV, biasQ, biasK, biasV compute.Value, queryDim, keyValueDim int) (compute.Value, compute.Value, compute.Value, error) {
	op := compute.OpTypeFusedAttentionQKVProjection
	v, err := f.floats(op, x)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := f.floats(op, wQKV)
	if err != nil {
		return nil, nil, nil, err
	}
	if v.shape.Rank() != 2 || w.shape.Rank() != 2 {
		return nil, nil, nil, unsupported(op, "x "+v.shape.String()+" and the weight "+w.shape.String()+" are no matrices")
	}
	if v.shape.DType != w.shape.DType || v.shape.Dimensions[1] != w.shape.Dimensions[0] ||
		w.shape.Dimensions[1] != queryDim+2*keyValueDim || v.shape.IsDynamic() {
		return nil, nil, nil, errors.Errorf("%s: x %s, the weight %s and dimensions of %d and 2 x %d do not go together", op, v.shape, w.shape, queryDim, keyValueDim)
	}
	product := f.dot(v, w, 0)
	var parts [3]compute.Value
	start := 0
	for i, bias := range []compute.Value{biasQ, biasK, biasV} {
		size := keyValueDim
		if i == 0 {
			size = queryDim
		}
		if parts[i], err = f.finish(op, f.slice(product, 1, start, start+size), bias, compute.ActivationNone); err != nil {
			return nil, nil, nil, err
		}
		start += size
	}
	return parts[0], parts[1], parts[2], nil
}
