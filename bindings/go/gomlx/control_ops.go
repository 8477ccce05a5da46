package gomlx

import (
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// sub checks a function that an op holds: a closure of this one, or, with named, one of the builder's functions. It must
// have returned.
func (f *Function) sub(op, role string, given compute.Function, named bool) (*Function, error) {
	g, ok := given.(*Function)
	if !ok || g == nil {
		return nil, errors.Errorf("%s: the %s is a %T, not a function of backend rlx", op, role, given)
	}
	if g.builder != f.builder {
		return nil, errors.Errorf("%s: the %s is of builder %q, not of %q", op, role, g.builder.name, f.builder.name)
	}
	if f.returned {
		return nil, errors.Errorf("%s: function %s has returned: it takes no more ops", op, f)
	}
	if !named && g.parent != f {
		return nil, errors.Errorf("%s: the %s is %s; it must be a closure of %s", op, role, g, f)
	}
	if named {
		for around := f; around != nil; around = around.parent {
			if around == g {
				return nil, errors.Errorf("%s: function %s calls itself", op, g)
			}
		}
	}
	if !g.returned {
		return nil, errors.Errorf("%s: the %s has not returned anything", op, role)
	}
	return g, nil
}

// signature checks shapes one by one.
func signature(op, what string, got []*value, want []shapes.Shape) error {
	if len(got) != len(want) {
		return errors.Errorf("%s: there are %d %s, not %d", op, len(want), what, len(got))
	}
	for i, each := range got {
		if !each.shape.Equal(want[i]) {
			return errors.Errorf("%s: number %d of the %s is %s, not %s", op, i, what, each.shape, want[i])
		}
	}
	return nil
}

func shapesOf(all []*value) []shapes.Shape {
	kinds := make([]shapes.Shape, len(all))
	for i, each := range all {
		kinds[i] = each.shape
	}
	return kinds
}

// emitWith adds a node that holds sub-graphs: behind its operands it takes what they capture.
func (f *Function) emitWith(op string, results []shapes.Shape, operands []*value, bodies []body, attrs ...string) []*value {
	fns := make([]*Function, len(bodies))
	for i, each := range bodies {
		fns[i] = each.fn
	}
	made := f.emitAll(op, results, append(append([]*value{}, operands...), captured(fns...)...), attrs...)
	made[0].node.bodies = bodies
	return made
}

// Call applies a function of the builder.
func (f *Function) Call(called compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	g, err := f.sub("Call", "function", called, true)
	if err != nil {
		return nil, err
	}
	operands, err := f.ownAll("Call", inputs)
	if err != nil {
		return nil, err
	}
	if err := signature("Call", "parameters", operands, shapesOf(g.params)); err != nil {
		return nil, err
	}
	return valuesOf(f.emitWith("call", shapesOf(g.outputs), operands, []body{{attr: "body", fn: g, params: g.params}})), nil
}

// If runs one of two closures.
func (f *Function) If(pred compute.Value, trueBranch, falseBranch compute.Function) ([]compute.Value, error) {
	condition, err := f.own("If", pred)
	if err != nil {
		return nil, err
	}
	if !condition.shape.Equal(shapes.Make(dtypes.Bool)) {
		return nil, errors.Errorf("If takes a bool scalar for its condition, got %s", condition.shape)
	}
	yes, err := f.sub("If", "true branch", trueBranch, false)
	if err != nil {
		return nil, err
	}
	no, err := f.sub("If", "false branch", falseBranch, false)
	if err != nil {
		return nil, err
	}
	if len(yes.params)+len(no.params) > 0 {
		return nil, errors.New("If: branches take no parameters; they capture what they need")
	}
	if err := signature("If", "outputs of the true branch", no.outputs, shapesOf(yes.outputs)); err != nil {
		return nil, err
	}
	return valuesOf(f.emitWith("if_else", shapesOf(yes.outputs), []*value{condition},
		[]body{{attr: "then_branch", fn: yes}, {attr: "else_branch", fn: no}})), nil
}

// While applies body to the state as long as cond holds.
func (f *Function) While(cond, loop compute.Function, initialState ...compute.Value) ([]compute.Value, error) {
	state, err := f.ownAll("While", initialState)
	if err != nil {
		return nil, err
	}
	if len(state) == 0 {
		return nil, errors.New("While takes at least one value of state")
	}
	condition, err := f.sub("While", "condition", cond, false)
	if err != nil {
		return nil, err
	}
	step, err := f.sub("While", "body", loop, false)
	if err != nil {
		return nil, err
	}
	for _, each := range []struct {
		what string
		got  []*value
	}{{"parameters of the condition", condition.params}, {"parameters of the body", step.params}, {"outputs of the body", step.outputs}} {
		if err := signature("While", each.what, state, shapesOf(each.got)); err != nil {
			return nil, err
		}
	}
	if len(condition.outputs) != 1 || !condition.outputs[0].shape.Equal(shapes.Make(dtypes.Bool)) {
		return nil, errors.New("While: the condition gives one bool scalar")
	}
	return valuesOf(f.emitWith("while_loop", shapesOf(state), state,
		[]body{{attr: "condition", fn: condition, params: condition.params}, {attr: "body", fn: step, params: step.params}}, attr("carries", len(state)))), nil
}

// Sort orders the inputs along an axis by a closure that says whether its first elements come first.
func (f *Function) Sort(comparator compute.Function, axis int, _ bool, inputs ...compute.Value) ([]compute.Value, error) {
	all, err := f.ownAll("Sort", inputs)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("Sort takes at least one operand")
	}
	axes, err := axesOf("Sort", all[0].shape, []int{axis}, false)
	if err != nil {
		return nil, err
	}
	order, err := f.sub("Sort", "comparator", comparator, false)
	if err != nil {
		return nil, err
	}
	var want []shapes.Shape
	for i, each := range all { // both elements of each operand, as GoMLX's own callers have it
		for range 2 {
			if !each.shape.EqualDimensions(all[0].shape) {
				return nil, errors.Errorf("Sort takes operands of the same dimensions; the first is %s, number %d is %s", all[0].shape, i, each.shape)
			}
			want = append(want, shapes.Make(each.shape.DType))
		}
	}
	if err := signature("Sort", "parameters for the comparator", order.params, want); err != nil {
		return nil, err
	}
	if len(order.outputs) != 1 || !order.outputs[0].shape.Equal(shapes.Make(dtypes.Bool)) {
		return nil, errors.New("Sort: the comparator gives one bool scalar")
	}
	// A comparator of RLX sees two elements of each operand and nothing else: a scalar that it captures is sorted along with
	// them, which changes nothing where all elements are equal.
	if slices.ContainsFunc(captured(order), func(v *value) bool { return !v.shape.IsScalar() }) {
		return f.sortByLoops(order, axes[0], all)
	}
	operands, params := slices.Clone(all), slices.Clone(order.params)
	for _, each := range captured(order) {
		wide, err := f.broadcast(each, withDType(all[0].shape, each.shape.DType))
		if err != nil {
			return nil, err
		}
		operands = append(operands, wide)
		params = append(params, each, &value{fn: order, shape: each.shape})
	}
	made := f.emitAll("sort", shapesOf(operands), operands, attr("axis", axes[0]))
	made[0].node.bodies = []body{{attr: "comparator", fn: order, params: params, closed: true}}
	return valuesOf(made[:len(all)]), nil
}

// AllReduce over the one device that there is gives its operands.
func (f *Function) AllReduce(operands []compute.Value, _ compute.ReduceOpType, replicaGroups [][]int) ([]compute.Value, error) {
	for _, group := range replicaGroups {
		if len(group) > 1 || len(group) == 1 && group[0] != 0 {
			return nil, errors.Errorf("AllReduce: backend rlx computes on device 0 alone, got the group %v", group)
		}
	}
	all, err := f.ownAll("AllReduce", operands)
	if err != nil {
		return nil, err
	}
	return valuesOf(all), nil
}
