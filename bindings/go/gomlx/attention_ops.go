package gomlx

import (
	"math"
	"slices"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// attention are the operands and attributes that attention and attention_backward share.
type attention struct {
	query, key, val, bias *value // bias is nil if nothing is added to the scores
	attrs                 []string
}

// FusedScaledDotProductAttention is softmax(query keyᵀ scale + bias) value, masked. The state for the gradient is the
// output itself: attention_backward computes the probabilities again.
func (f *Function) FusedScaledDotProductAttention(query, key, val compute.Value, layout compute.AttentionAxesLayout,
	config *compute.ScaledDotProductAttentionConfig) (compute.Value, []compute.Value, error) {
	a, err := f.attention(compute.OpTypeFusedScaledDotProductAttention, query, key, val, layout, config)
	if err != nil {
		return nil, nil, err
	}
	operands := []*value{a.query, a.key, a.val}
	if a.bias != nil {
		operands = append(operands, a.bias)
	}
	output := f.emit("attention", a.query.shape, operands, a.attrs...)
	return output, []compute.Value{output}, nil
}

// FusedScaledDotProductAttentionVJP gives the cotangents of query, key and value.
func (f *Function) FusedScaledDotProductAttentionVJP(query, key, val compute.Value, layout compute.AttentionAxesLayout,
	config *compute.ScaledDotProductAttentionConfig, _ compute.Value, _ []compute.Value, dOutput compute.Value) (compute.Value, compute.Value, compute.Value, error) {
	op := compute.OpTypeFusedScaledDotProductAttentionVJP
	a, err := f.attention(op, query, key, val, layout, config)
	if err != nil {
		return nil, nil, nil, err
	}
	ct, err := f.floats(op, dOutput)
	if err != nil {
		return nil, nil, nil, err
	}
	if ct.shape.DType != a.query.shape.DType || !slices.Equal(ct.shape.Dimensions, a.query.shape.Dimensions) {
		return nil, nil, nil, errors.Errorf("%s: the cotangent %s is not of the output's shape %s", op, ct.shape, a.query.shape)
	}
	operands := []*value{a.query, a.key, a.val, ct}
	results := []shapes.Shape{a.query.shape, a.key.shape, a.val.shape}
	if a.bias != nil {
		operands, results = append(operands, a.bias), append(results, a.bias.shape)
	}
	all := f.emitAll("attention_backward", results, operands, a.attrs...)
	return all[0], all[1], all[2], nil
}

func (f *Function) attention(op compute.OpType, query, key, val compute.Value, layout compute.AttentionAxesLayout,
	config *compute.ScaledDotProductAttentionConfig) (*attention, error) {
	if config == nil {
		config = &compute.ScaledDotProductAttentionConfig{}
	}
	all := make([]*value, 3)
	for i, each := range []compute.Value{query, key, val} {
		var err error
		if all[i], err = f.floats(op, each); err != nil {
			return nil, err
		}
		if all[i].shape.Rank() != 4 || all[i].shape.DType != all[0].shape.DType || all[i].shape.Dimensions[3] != all[0].shape.Dimensions[3] {
			return nil, errors.Errorf("%s takes three tensors of rank 4 and one head dimension, got %s beside %s", op, all[i].shape, all[0].shape)
		}
		if all[i].shape.IsDynamic() {
			return nil, unsupported(op, "an axis of "+all[i].shape.String()+" is dynamic")
		}
	}
	q, k := all[0].shape, all[1].shape
	heads, kvHeads := q.Dimensions[layout.HeadsAxis()], k.Dimensions[layout.HeadsAxis()]
	queries, keys := q.Dimensions[layout.SeqAxis()], k.Dimensions[layout.SeqAxis()]
	if kvHeads == 0 || heads%kvHeads != 0 || !slices.Equal(k.Dimensions, all[2].shape.Dimensions) || k.Dimensions[0] != q.Dimensions[0] {
		return nil, errors.Errorf("%s: query %s, key %s and value %s do not go together", op, q, k, all[2].shape)
	}
	if config.Causal && queries != keys {
		return nil, unsupported(op, "a causal mask of "+strconv.Itoa(queries)+" queries and "+strconv.Itoa(keys)+" keys")
	}
	scale := config.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(q.Dimensions[3]))
	}
	names := map[compute.AttentionAxesLayout]string{compute.AttentionAxesLayoutBHSD: "bhsd", compute.AttentionAxesLayoutBSHD: "bshd"}
	a := &attention{query: all[0], key: all[1], val: all[2]}
	a.attrs = []string{attr("heads", heads), attr("kv_heads", kvHeads), "layout = " + names[layout], attr("causal", config.Causal),
		"scale = " + strconv.FormatFloat(scale, 'g', -1, 64)}
	scores := shapes.Make(q.DType, q.Dimensions[0], heads, queries, keys)
	if err := f.addToScores(a, op, layout, config, scores); err != nil {
		return nil, err
	}
	if a.bias != nil {
		a.attrs = append(a.attrs, "mask = bias")
	}
	return a, nil
}

// addToScores sums what a configuration adds to scores [batch, heads, queries, keys].
func (f *Function) addToScores(a *attention, op compute.OpType, layout compute.AttentionAxesLayout,
	config *compute.ScaledDotProductAttentionConfig, scores shapes.Shape) error {
	for _, each := range []compute.Value{config.Mask, config.Bias} {
		if each == nil {
			continue
		}
		v, err := f.own(op.String(), each)
		if err != nil {
			return err
		}
		if v.shape.Rank() > 4 {
			return errors.Errorf("%s: the mask %s does not broadcast to %s", op, v.shape, scores)
		}
		// GoMLX's layers give a mask for BSHD as [batch, queries, heads, keys] and the op is described with
		// [batch, heads, queries, keys]; three axes are [batch, queries, keys] or [heads, queries, keys]. What could be
		// taken for either is composed, where the caller knows which it is.
		if each == config.Mask {
			dims := v.shape.Dimensions
			if v.shape.Rank() == 3 && dims[0] != 1 || v.shape.Rank() == 4 && layout == compute.AttentionAxesLayoutBSHD && (dims[1] != 1 || dims[2] != 1) {
				return unsupported(op, "the axes of the mask "+v.shape.String()+" may be heads or queries")
			}
		}
		// The rule of GoMLX for this op gives cotangents for query, key and value alone: a parameter in a bias would
		// get zeros, silently. Composed, it has its gradient.
		if v.shape.DType.IsFloat() && mayBeTrained(v, map[*value]bool{}) {
			return unsupported(op, "the gradient of "+v.shape.String()+", which is added to the scores, is not among the op's")
		}
		axes := make([]int, v.shape.Rank())
		for i := range axes {
			axes[i] = 4 - len(axes) + i
			if size := v.shape.Dimensions[i]; size != 1 && size != scores.Dimensions[axes[i]] {
				return unsupported(op, "the mask "+v.shape.String()+" does not broadcast to "+scores.String())
			}
		}
		if err := f.addMask(a, v, scores, axes); err != nil {
			return err
		}
	}
	if (config.QuerySeqLen == nil) != (config.KeyValueSeqLen == nil) {
		return errors.Errorf("%s takes lengths of queries and of keys, or neither", op)
	}
	for i, each := range []compute.Value{config.QuerySeqLen, config.KeyValueSeqLen} {
		if each == nil {
			continue
		}
		lengths, err := f.own(op.String(), each)
		if err != nil {
			return err
		}
		if lengths.shape.Rank() != 1 || lengths.shape.Dimensions[0] != scores.Dimensions[0] || !lengths.shape.DType.IsInt() {
			return errors.Errorf("%s takes an integer length for each of %d sequences, got %s", op, scores.Dimensions[0], lengths.shape)
		}
		within := shapes.Make(dtypes.Int32, scores.Dimensions[0], scores.Dimensions[2+i])
		places := f.emit("iota", within, nil, "type = i32"+ints(within.Dimensions), "axis = 1")
		wide, err := f.broadcastInDim(f.convert(lengths, dtypes.Int32), within, []int{0})
		if err != nil {
			return err
		}
		seen := f.emit("compare", withDType(within, dtypes.Bool), []*value{places, wide}, "direction = lt")
		if err := f.addMask(a, seen, scores, []int{0, 2 + i}); err != nil {
			return err
		}
	}
	return nil
}

// addMask adds a mask, whose axes are those of the scores; a bool one adds 0 or -inf.
func (f *Function) addMask(a *attention, mask *value, scores shapes.Shape, axes []int) error {
	if mask.shape.DType == dtypes.Bool {
		shape := withDType(mask.shape, scores.DType)
		sides := []*value{mask}
		for _, each := range []float64{0, math.Inf(-1)} {
			side, err := f.scalar(each, scores.DType)
			if err != nil {
				return err
			}
			if side, err = f.broadcast(side, shape); err != nil {
				return err
			}
			sides = append(sides, side)
		}
		mask = f.emit("select", shape, sides)
	}
	wide, err := f.broadcastInDim(f.convert(mask, scores.DType), scores, axes)
	if err != nil {
		return err
	}
	if a.bias != nil {
		wide = f.emit("add", scores, []*value{a.bias, wide})
	}
	a.bias = wide
	return nil
}

// mayBeTrained says whether a value is made of a parameter by floats alone: a program may ask for the gradient of any of
// them. What is made of bools and integers has none.
func mayBeTrained(v *value, seen map[*value]bool) bool {
	if seen[v] || !v.shape.DType.IsFloat() {
		return false
	}
	seen[v] = true
	if v.node == nil {
		return true
	}
	if len(v.node.bodies) > 0 { // what a body captures is not among the operands
		return true
	}
	return slices.ContainsFunc(v.node.operands, func(each *value) bool { return mayBeTrained(each, seen) })
}
