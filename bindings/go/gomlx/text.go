package gomlx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// mostNested is how deep sub-graphs may lie within each other; the library has a limit of its own, which is lower.
const mostNested = 256

// writer writes functions as RLX's text.
type writer struct {
	out     strings.Builder
	symbols *symbols
	names   []string // of the main function's inputs
	depth   int
}

func graphText(main *Function) (string, error) { return namedGraphText(main, nil, "main") }

// namedGraphText gives the inputs of the main function names; nil for those that a run does not ask for.
func namedGraphText(main *Function, names []string, graph string) (string, error) {
	w := &writer{symbols: &main.builder.symbols, names: names}
	w.out.WriteString("rlx 1\n")
	err := w.function(graph, main, main.builder.inputs(), nil)
	return w.out.String(), err
}

// captured are the values of functions around that a function uses, in the order in which it does. Constants are none:
// they are written again where they are used.
func captured(fns ...*Function) []*value {
	var all []*value
	seen := map[*value]bool{}
	for _, f := range fns {
		use := func(v *value) {
			if v.fn != f && !seen[v] && !isConstant(v) {
				seen[v] = true
				all = append(all, v)
			}
		}
		for _, n := range f.written() {
			for _, each := range n.operands {
				use(each)
			}
		}
		for _, each := range f.results() {
			use(each)
		}
	}
	return all
}

// written are the nodes without those that make numbers for which nothing asks.
func (f *Function) written() []*node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *node) bool { return n.onlyFor != nil && !n.onlyFor.plain })
}

// results are the outputs; of the main function what has words is written as those.
func (f *Function) results() []*value {
	made := slices.Clone(f.outputs)
	for i, each := range made {
		if f == f.builder.main && each.words != nil && (each.node != nil || !each.plain) {
			made[i] = each.words
		}
	}
	return made
}

func isConstant(v *value) bool { return v.node != nil && v.node.op == "constant" }

// function writes a graph whose inputs are `params`, then `captures`.
func (w *writer) function(name string, f *Function, params, captures []*value) error {
	if w.depth++; w.depth > mostNested {
		return errors.Errorf("functions lie more than %d deep within each other", mostNested)
	}
	defer func() { w.depth-- }()
	numbers := map[*value]int{}
	next := 0
	fmt.Fprintf(&w.out, "graph @%s {\n", name)
	for i, v := range append(append([]*value{}, params...), captures...) {
		kind, err := w.symbols.typeOfValue(v)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("a%d", i)
		if w.depth == 1 && w.names != nil {
			name = w.names[i]
		}
		fmt.Fprintf(&w.out, "%%%d = input() @\"%s\" : %s\n", next, name, kind)
		numbers[v] = next
		next++
	}
	// number gives a value's, and writes the constant first that it may be.
	number := func(v *value) (int, error) {
		if known, ok := numbers[v]; ok {
			return known, nil
		}
		if !isConstant(v) {
			return 0, errors.Errorf("a value of %s is used in %s before it is there", v.fn, f)
		}
		kind, err := w.symbols.typeOfValue(v)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(&w.out, "%%%d = constant() {value = %s @\"%s\"} : %s\n", next, kind, v.node.constant, kind)
		numbers[v] = next
		next++
		return numbers[v], nil
	}
	for _, n := range f.written() {
		operands := make([]string, len(n.operands))
		for i, each := range n.operands {
			k, err := number(each)
			if err != nil {
				return err
			}
			operands[i] = fmt.Sprintf("%%%d", k)
		}
		names, types := make([]string, len(n.results)), make([]string, len(n.results))
		for i, each := range n.results {
			kind, err := w.symbols.typeOfValue(each)
			if err != nil {
				return errors.WithMessagef(err, "result %d of %s", i, n.op)
			}
			names[i], types[i] = fmt.Sprintf("%%%d", next), kind
			numbers[each] = next
			next++
		}
		fmt.Fprintf(&w.out, "%s = %s(%s)", strings.Join(names, ", "), n.op, strings.Join(operands, ", "))
		if len(n.attrs)+len(n.bodies) > 0 {
			w.out.WriteString(" {" + strings.Join(n.attrs, ", "))
			comma := ""
			if len(n.attrs) > 0 {
				comma = ", "
			}
			var fns []*Function
			for _, each := range n.bodies {
				fns = append(fns, each.fn)
			}
			captures := captured(fns...)
			for _, each := range n.bodies {
				w.out.WriteString(comma + each.attr + " = ")
				comma = ", "
				around := captures
				if each.closed {
					around = nil
				}
				if err := w.function(each.attr, each.fn, each.params, around); err != nil {
					return err
				}
			}
			w.out.WriteString("}")
		}
		w.out.WriteString(" : " + strings.Join(types, ", ") + "\n")
	}
	returned := make([]string, len(f.outputs))
	for i, each := range f.results() {
		k, err := number(each)
		if err != nil {
			return err
		}
		returned[i] = fmt.Sprintf("%%%d @\"o%d\"", k, i)
	}
	w.out.WriteString("return " + strings.Join(returned, ", ") + "\n}\n")
	return nil
}
