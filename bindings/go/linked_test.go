//go:build rlx_cgo

package rlx_test

import (
	"testing"

	rlx "rlx.invalid/go"
)

func TestAProgramThatIsLinkedLooksForNoLibrary(t *testing.T) {
	t.Setenv("RLX_LIBRARY", "")
	l, err := rlx.New(rlx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Path() != "" {
		t.Errorf("the library is %q", l.Path())
	}
	g := must(l.ParseGraph(`graph @twice { %0 = input() @"x" : f32[2] %1 = add(%0, %0) : f32[2] return %1 @"y" }`))(t)
	compiled := must(must(l.NewSession("cpu", rlx.SessionOptions{}))(t).Compile(g, rlx.CompileOptions{}))(t)
	results := must(compiled.Run(t.Context(), must(rlx.NewTensor(l, []int{2}, []float32{1, 2}))(t)))(t)
	if got := must(rlx.Data[float32](results[0]))(t); got[0] != 2 || got[1] != 4 {
		t.Errorf("got %v", got)
	}
}
