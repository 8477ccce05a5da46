package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// batchNorm is what the three ops share: the operand, vectors over its features, and the axes that are no features.
type batchNorm struct {
	f       *Function
	x       *value
	vectors []*value
	feature int
	axes    []int
	err     error // of the first step that failed
}

func (f *Function) batchNorm(op string, operand compute.Value, vectors []compute.Value, featureAxis int) (*batchNorm, error) {
	all, err := f.ownAll(op, append([]compute.Value{operand}, vectors...))
	if err != nil {
		return nil, err
	}
	x := all[0]
	if featureAxis < 0 {
		featureAxis += x.shape.Rank()
	}
	if !x.shape.DType.IsFloat() || featureAxis < 0 || featureAxis >= x.shape.Rank() {
		return nil, errors.Errorf("%s takes floats with a feature axis, got %s and axis %d", op, x.shape, featureAxis)
	}
	want := shapes.Make(x.shape.DType, x.shape.Dimensions[featureAxis])
	for i, each := range all[1:] {
		if !each.shape.Equal(want) && !each.shape.Equal(x.shape) {
			return nil, errors.Errorf("%s: operand %d is %s, not %s", op, i+1, each.shape, want)
		}
	}
	n := &batchNorm{f: f, x: x, vectors: all[1:], feature: featureAxis}
	for axis := range x.shape.Rank() {
		if axis != featureAxis {
			n.axes = append(n.axes, axis)
		}
	}
	return n, nil
}

// wide gives a vector over features the dims of the operand.
func (n *batchNorm) wide(v *value) *value {
	made, err := n.f.broadcastInDim(v, n.x.shape, []int{n.feature})
	if err != nil && n.err == nil {
		n.err = err
		return n.x
	}
	return made
}

func (n *batchNorm) two(op string, lhs, rhs *value) *value {
	return n.f.emit(op, lhs.shape, []*value{lhs, rhs})
}

func (n *batchNorm) sum(v *value) *value {
	shape := shapes.Make(v.shape.DType, v.shape.Dimensions[n.feature])
	return n.f.emit("reduce", shape, []*value{v}, "kind = sum", "axes = "+ints(n.axes))
}

// scalarLike is a number as a tensor of v's shape.
func (n *batchNorm) scalarLike(number float64, v *value) *value {
	made, err := n.f.scalar(number, v.shape.DType)
	if err == nil {
		made, err = n.f.broadcast(made, v.shape)
	}
	if err != nil {
		if n.err == nil {
			n.err = err
		}
		return v
	}
	return made
}

// count is over how many elements a feature's mean is.
func (n *batchNorm) count() float64 {
	product := 1
	for _, axis := range n.axes {
		product *= n.x.shape.Dimensions[axis]
	}
	return float64(product)
}

func (n *batchNorm) mean(v *value) *value {
	sum := n.sum(v)
	return n.two("div", sum, n.scalarLike(n.count(), sum))
}

// inverse is 1 / sqrt(variance + epsilon).
func (n *batchNorm) inverse(variance *value, epsilon float32) *value {
	return n.f.emit("rsqrt", variance.shape, []*value{n.two("add", variance, n.scalarLike(float64(epsilon), variance))})
}

func (n *batchNorm) normalized(mean, variance *value, epsilon float32) *value {
	return n.two("mul", n.two("sub", n.x, n.wide(mean)), n.wide(n.inverse(variance, epsilon)))
}

// BatchNormForInference normalizes by a mean and a variance that are given.
func (f *Function) BatchNormForInference(operand, scale, offset, mean, variance compute.Value, epsilon float32, featureAxis int) (compute.Value, error) {
	n, err := f.batchNorm("BatchNormForInference", operand, []compute.Value{scale, offset, mean, variance}, featureAxis)
	if err != nil {
		return nil, err
	}
	scaled := n.two("mul", n.normalized(n.vectors[2], n.vectors[3], epsilon), n.wide(n.vectors[0]))
	return n.two("add", scaled, n.wide(n.vectors[1])), n.err
}

// BatchNormForTraining normalizes by the batch's own mean and variance, which it gives too.
func (f *Function) BatchNormForTraining(operand, scale, offset compute.Value, epsilon float32, featureAxis int) (compute.Value, compute.Value, compute.Value, error) {
	n, err := f.batchNorm("BatchNormForTraining", operand, []compute.Value{scale, offset}, featureAxis)
	if err != nil {
		return nil, nil, nil, err
	}
	mean := n.mean(n.x)
	away := n.two("sub", n.x, n.wide(mean))
	variance := n.mean(n.two("mul", away, away))
	scaled := n.two("mul", n.normalized(mean, variance, epsilon), n.wide(n.vectors[0]))
	return n.two("add", scaled, n.wide(n.vectors[1])), mean, variance, n.err
}

// BatchNormGradient is the derivative of BatchNormForTraining by its operands; the mean and the variance are the batch's.
func (f *Function) BatchNormGradient(operand, scale, mean, variance, gradOutput compute.Value, epsilon float32, featureAxis int) (compute.Value, compute.Value, compute.Value, error) {
	n, err := f.batchNorm("BatchNormGradient", operand, []compute.Value{scale, mean, variance, gradOutput}, featureAxis)
	if err != nil {
		return nil, nil, nil, err
	}
	ct := n.vectors[3]
	if !slices.Equal(ct.shape.Dimensions, n.x.shape.Dimensions) {
		return nil, nil, nil, errors.Errorf("BatchNormGradient: the gradient is %s, the operand %s", ct.shape, n.x.shape)
	}
	// Ioffe, Szegedy, arXiv:1502.03167, section 3: with y the normalized operand,
	// dx = scale / sqrt(variance + epsilon) (ct - mean(ct) - y mean(ct y)).
	y := n.normalized(n.vectors[1], n.vectors[2], epsilon)
	gradScale, gradOffset := n.sum(n.two("mul", ct, y)), n.sum(ct)
	byCount := func(v *value) *value { return n.wide(n.two("div", v, n.scalarLike(n.count(), v))) }
	rest := n.two("sub", n.two("sub", ct, byCount(gradOffset)), n.two("mul", y, byCount(gradScale)))
	factor := n.two("mul", n.vectors[0], n.inverse(n.vectors[2], epsilon))
	return n.two("mul", rest, n.wide(factor)), gradScale, gradOffset, n.err
}
