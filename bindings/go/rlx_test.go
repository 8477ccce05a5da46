package rlx_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	rlx "rlx.invalid/go"
)

// library is the one under test: RLX_LIBRARY names it, or the test is skipped, visibly.
func library(t testing.TB) *rlx.Library {
	t.Helper()
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	l, err := rlx.New(rlx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

const affine = `graph @affine {
  %0 = input() @"x" : f32[2, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) : f32[2, 2]
  return %2 @"y"
}`

func TestAMissingLibraryIsAnErrorOfNew(t *testing.T) {
	_, err := rlx.New(rlx.Options{Library: "/nowhere/librlx_c.so"})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/librlx_c.so") {
		t.Fatalf("got %v", err)
	}
	other := filepath.Join(t.TempDir(), "librlx_c.so")
	if err := os.WriteFile(other, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RLX_LIBRARY", other)
	if _, err := rlx.New(rlx.Options{}); err == nil || !strings.Contains(err.Error(), other) {
		t.Fatalf("got %v", err)
	}
}

func TestAGraphIsBuiltAndRuns(t *testing.T) {
	l := library(t)
	g := must(l.NewGraph("built"))(t)
	defer g.Close()
	x := must(g.Input("x", "f32[N, 2]"))(t)
	two := must(rlx.NewTensor(l, []int{2}, []float32{10, 20}))(t)
	c := must(g.Constant(two))(t)
	wide := must(g.Op("broadcast_in_dim", rlx.Attrs{"dims": []rlx.Word{"N", "2"}, "axes": []int{1}}, c))(t)
	sum := must(g.Op("add", nil, x, wide))(t)
	if kind := must(g.TypeOf(sum))(t); kind != "f32[N, 2]" {
		t.Errorf("the sum is %s", kind)
	}
	top := must(g.Emit("top_k", []rlx.Value{sum}, rlx.Attrs{"k": 1}))(t)
	if len(top) != 2 {
		t.Fatalf("top_k has %d results", len(top))
	}
	if err := g.Output(sum, "sum"); err != nil {
		t.Fatal(err)
	}
	if err := g.Output(top[1], "place"); err != nil {
		t.Fatal(err)
	}
	s := must(l.NewSession("cpu", rlx.SessionOptions{Threads: 1}))(t)
	defer s.Close()
	run := must(s.Compile(g, rlx.CompileOptions{}))(t)
	defer run.Close()
	input := must(rlx.NewTensor(l, []int{2, 2}, []float32{1, 2, 30, 4}))(t)
	outputs := must(run.Run(context.Background(), input))(t)
	numbers := must(rlx.Data[float32](outputs[0]))(t)
	places := must(rlx.Data[int32](outputs[1]))(t)
	for i, want := range []float32{11, 22, 40, 24} {
		if numbers[i] != want {
			t.Errorf("element %d is %v, not %v", i, numbers[i], want)
		}
	}
	if places[0] != 1 || places[1] != 0 {
		t.Errorf("places are %v", places)
	}
	runtime.KeepAlive(outputs)
	if _, err := rlx.Data[float64](outputs[0]); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

func TestSubgraphsAreAttributes(t *testing.T) {
	l := library(t)
	body := must(l.ParseGraph(`graph @body { %0 = input() @"i" : i32[] %1 = input() @"n" : i32[] %2 = add(%0, %0) : i32[] return %2 }`))(t)
	condition := must(l.ParseGraph(`graph @condition { %0 = input() @"i" : i32[] %1 = input() @"n" : i32[] %2 = compare(%0, %1) {direction = lt} : bool[] return %2 }`))(t)
	g := must(l.NewGraph("loop"))(t)
	i, n := must(g.Input("i", "i32[]"))(t), must(g.Input("n", "i32[]"))(t)
	last := must(g.Op("while_loop", rlx.Attrs{"carries": 1, "condition": condition, "body": body}, i, n))(t)
	if err := g.Output(last, "last"); err != nil {
		t.Fatal(err)
	}
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	run := must(s.Compile(g, rlx.CompileOptions{}))(t)
	one, hundred := must(rlx.NewTensor(l, nil, []int32{1}))(t), must(rlx.NewTensor(l, nil, []int32{100}))(t)
	outputs := must(run.Run(context.Background(), one, hundred))(t)
	if got := must(rlx.Data[int32](outputs[0]))(t); got[0] != 128 {
		t.Errorf("got %v, the first power of two that is 100 or more is 128", got)
	}
}

func TestMistakesHaveKindsAndMessages(t *testing.T) {
	l := library(t)
	_, err := l.ParseGraph("graph @g { nonsense }")
	var e *rlx.Error
	if !errors.As(err, &e) || e.Status != rlx.ParseError || !errors.Is(err, rlx.ParseError) || errors.Is(err, rlx.NotFound) {
		t.Errorf("got %#v", err)
	}
	if _, err := l.LoadGraph("/nowhere.rlx"); !errors.As(err, &e) || !strings.Contains(e.Message, "/nowhere.rlx") {
		t.Errorf("got %v", err)
	}
	g := must(l.ParseGraph(affine))(t)
	g.Close()
	g.Close()
	if err := g.Save("/tmp/never.rlx"); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("of a graph that was closed: %v", err)
	}
	if _, err := g.Emit("add", nil, rlx.Attrs{"axis": struct{}{}}); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

func TestBorrowedMemoryIsSharedAndKept(t *testing.T) {
	l := library(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	run := must(s.Compile(must(l.ParseGraph(affine))(t), rlx.CompileOptions{}))(t)
	weights := []float32{1, 0, 0, 1, 1, 1}
	w := must(rlx.BorrowTensor(l, []int{3, 2}, weights))(t)
	if &must(rlx.Data[float32](w))(t)[0] != &weights[0] {
		t.Error("the elements were copied")
	}
	if err := run.SetParam("w", w); err != nil {
		t.Fatal(err)
	}
	w.Close()
	weights, w = nil, nil
	for range 5 {
		runtime.GC()
		_ = make([]byte, 1<<20)
	}
	x := must(rlx.NewTensor(l, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}))(t)
	got := must(rlx.Data[float32](must(run.Run(context.Background(), x))(t)[0]))(t)
	for i, want := range []float32{4, 5, 10, 11} {
		if got[i] != want {
			t.Errorf("element %d is %v, not %v", i, got[i], want)
		}
	}
}

func TestManyGoroutinesRunOneGraph(t *testing.T) {
	l := library(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{Threads: 1}))(t)
	run := must(s.CompileText(`graph @g { %0 = input() @"x" : f32[64] %1 = constant() {value = f32[64] @"c"} : f32[64] %2 = mul(%0, %1) : f32[64] return %2 }`,
		[]rlx.NamedConstant{{Name: "c", Type: "f32[64]", Bytes: ramp(64)}}, rlx.CompileOptions{}))(t)
	var all sync.WaitGroup
	for k := range 32 {
		all.Go(func() {
			for range 50 {
				x, y := make([]byte, 256), make([]byte, 256)
				for i := range 64 {
					putFloat(x, i, float32(k))
				}
				if err := run.Call([][]byte{x}, [][]byte{y}); err != nil {
					t.Error(err)
					return
				}
				for i := range 64 {
					if got := float(y, i); got != float32(k*i) {
						t.Errorf("element %d is %v, not %d", i, got, k*i)
						return
					}
				}
			}
		})
	}
	all.Wait()
	if err := run.Call([][]byte{make([]byte, 8)}, [][]byte{make([]byte, 256)}); err == nil {
		t.Error("an input that is too short was taken")
	}
}

func putFloat(bytes []byte, i int, value float32) {
	bits := math.Float32bits(value)
	for k := range 4 {
		bytes[4*i+k] = byte(bits >> (8 * k))
	}
}

func float(bytes []byte, i int) float32 {
	var bits uint32
	for k := range 4 {
		bits |= uint32(bytes[4*i+k]) << (8 * k)
	}
	return math.Float32frombits(bits)
}

func ramp(n int) []byte {
	bytes := make([]byte, 4*n)
	for i := range n {
		putFloat(bytes, i, float32(i))
	}
	return bytes
}

func TestAContextEndsARun(t *testing.T) {
	l := library(t)
	// 10^12 rounds: it ends because it is told to.
	forever := must(l.ParseGraph(`graph @forever {
  %0 = input() @"i" : i64[]
  %1 = input() @"n" : i64[]
  %2 = while_loop(%0, %1) {carries = 1, condition = graph @c { %0 = input() @"i" : i64[] %1 = input() @"n" : i64[] %2 = compare(%0, %1) {direction = lt} : bool[] return %2 },
    body = graph @b { %0 = input() @"i" : i64[] %1 = input() @"n" : i64[] %2 = constant() {value = i64[] [1]} : i64[] %3 = add(%0, %2) : i64[] return %3 }} : i64[]
  return %2
}`))(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	run := must(s.Compile(forever, rlx.CompileOptions{}))(t)
	zero, many := must(rlx.NewTensor(l, nil, []int64{0}))(t), must(rlx.NewTensor(l, nil, []int64{1_000_000_000_000}))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := run.Run(ctx, zero, many); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	ended, end := context.WithCancelCause(context.Background())
	end(errors.New("enough"))
	if _, err := run.Run(ended, zero, many); err == nil || err.Error() != "enough" {
		t.Errorf("got %v", err)
	}
	few := must(rlx.NewTensor(l, nil, []int64{10}))(t)
	long, cancelLong := context.WithTimeout(context.Background(), time.Minute)
	defer cancelLong()
	outputs := must(run.Run(long, zero, few))(t)
	if got := must(rlx.Data[int64](outputs[0]))(t); got[0] != 10 {
		t.Errorf("got %v", got)
	}
}

func TestDeviceTensorsChain(t *testing.T) {
	l := library(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	run := must(s.Compile(must(l.ParseGraph(`graph @twice { %0 = input() @"x" : f32[2] %1 = add(%0, %0) : f32[2] return %1 }`))(t), rlx.CompileOptions{}))(t)
	x := must(rlx.NewTensor(l, []int{2}, []float32{1, 2}))(t)
	there := must(x.ToDevice("cpu"))(t)
	for range 5 {
		outputs, running, err := run.Submit(there)
		if err != nil {
			t.Fatal(err)
		}
		running.Close()
		there = outputs[0]
	}
	back := must(there.ToHost(context.Background()))(t)
	if got := must(rlx.Data[float32](back))(t); got[0] != 32 || got[1] != 64 {
		t.Errorf("got %v", got)
	}
	if there.DType() != "f32" || there.Dims()[0] != 2 || there.Device() != "cpu" || there.WhyGone() != "" {
		t.Errorf("%s %v on %s: %s", there.DType(), there.Dims(), there.Device(), there.WhyGone())
	}
}

func TestTrainingLowersTheLoss(t *testing.T) {
	l := library(t)
	loss := must(l.ParseGraph(`graph @loss {
  %0 = input() @"x" : f32[4, 2]
  %1 = input() @"y" : f32[4, 1]
  %2 = param() @"w" : f32[2, 1]
  %3 = matmul(%0, %2) : f32[4, 1]
  %4 = sub(%3, %1) : f32[4, 1]
  %5 = mul(%4, %4) : f32[4, 1]
  %6 = mean(%5) {axes = [0, 1]} : f32[]
  return %6 @"loss"
}`))(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{Threads: 1}))(t)
	w := must(rlx.NewTensor(l, []int{2, 1}, []float32{0, 0}))(t)
	training := must(s.NewTraining(loss, map[string]*rlx.Tensor{"w": w}, `{optimizer = "sgd", learning_rate = {peak = 0.1}}`))(t)
	x := must(rlx.NewTensor(l, []int{4, 2}, []float32{1, 0, 0, 1, 1, 1, 1, -1}))(t)
	y := must(rlx.NewTensor(l, []int{4, 1}, []float32{3, -2, 1, 5}))(t) // 3 a - 2 b
	batch := map[string]*rlx.Tensor{"x": x, "y": y}
	for range 200 {
		if step, err := training.Step(batch, false); err != nil || step.Path != rlx.UpdateFused {
			t.Fatal(err)
		}
	}
	got := must(rlx.Data[float32](must(training.Param("w", false))(t)))(t)
	if math.Abs(float64(got[0]-3)) > 1e-4 || math.Abs(float64(got[1]+2)) > 1e-4 {
		t.Errorf("w is %v, the line is 3 a - 2 b", got)
	}
	path := filepath.Join(t.TempDir(), "checkpoint")
	if err := training.Save(path, map[string]string{"epoch": "7"}); err != nil {
		t.Fatal(err)
	}
	if notes := must(training.Load(path))(t); notes["epoch"] != "7" {
		t.Errorf("notes are %v", notes)
	}
}

func TestACoreMLPackageIsWrittenReadAndRuns(t *testing.T) {
	l := library(t)
	g := must(l.ParseGraph(affine))(t)
	w := must(rlx.NewTensor(l, []int{3, 2}, []float32{1, 0, 0, 1, 1, 1}))(t)
	path := filepath.Join(t.TempDir(), "affine.mlpackage")
	must(g.WriteCoreML(path, map[string]*rlx.Tensor{"w": w}, rlx.PackageOptions{Precision: "f32", Author: "a test"}))(t)
	model := must(l.LoadCoreML(path, rlx.CoreMLOptions{}))(t)
	if text := must(model.Description())(t); !strings.Contains(text, "a test") {
		t.Errorf("the description is %s", text)
	}
	x := must(rlx.NewTensor(l, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}))(t)
	outputs := must(model.Predict(map[string]*rlx.Tensor{"x": x}, nil))(t)
	got := must(rlx.Data[float32](outputs["y"]))(t)
	for i, want := range []float32{4, 5, 10, 11} {
		if got[i] != want {
			t.Errorf("element %d is %v, not %v", i, got[i], want)
		}
	}
}

func TestDerivativesAndBatches(t *testing.T) {
	l := library(t)
	g := must(l.ParseGraph(`graph @cube { %0 = input() @"x" : f64[] %1 = mul(%0, %0) : f64[] %2 = mul(%1, %0) : f64[] return %2 }`))(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	vjp := must(g.VJP([]bool{true}, []bool{true}, false))(t)
	three, one := must(rlx.NewTensor(l, nil, []float64{3}))(t), must(rlx.NewTensor(l, nil, []float64{1}))(t)
	outputs := must(must(s.Compile(vjp, rlx.CompileOptions{}))(t).Run(context.Background(), three, one))(t)
	if got := must(rlx.Data[float64](outputs[0]))(t); math.Abs(got[0]-27) > 1e-12 {
		t.Errorf("the derivative of x^3 at 3 is 27, got %v", got)
	}
	batched := must(g.Batch([]bool{true}, "N"))(t)
	inputs, _, results, err := batched.Types()
	if err != nil || inputs[0] != "f64[N]" || results[0] != "f64[N]" {
		t.Errorf("%v to %v: %v", inputs, results, err)
	}
	if _, err := g.VJP([]bool{true, true}, []bool{true}, false); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

func TestObjectsThatAreForgottenAreFreed(t *testing.T) {
	l := library(t)
	for range 200 { // 200 x 8 MB: more than the machine would give if they stayed
		tensor := must(rlx.NewTensor(l, []int{1 << 21}, []float32(nil)))(t)
		_ = tensor.Dims()
		tensor = nil
		runtime.GC()
	}
}

func BenchmarkCallOfATinyGraph(b *testing.B) {
	l := library(b)
	s := must(l.NewSession("cpu", rlx.SessionOptions{Threads: 1}))(b)
	run := must(s.CompileText(`graph @g { %0 = input() @"x" : f32[4] %1 = add(%0, %0) : f32[4] return %1 }`, nil, rlx.CompileOptions{}))(b)
	x, y := [][]byte{make([]byte, 16)}, [][]byte{make([]byte, 16)}
	for b.Loop() {
		if err := run.Call(x, y); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBlocksWithoutAnExactFormBecomeTheNearestCodesWhereThatIsAskedFor(t *testing.T) {
	l := library(t)
	g := must(l.ParseGraph(`graph @blocks {
%0 = input() @"x" : f32[1, 256]
%1 = param() @"w" : q4_0[32, 256]
%2 = dequantize_blocks(%1) : f32[32, 256]
%3 = broadcast_in_dim(%0) {dims = [32, 256], axes = [0, 1]} : f32[32, 256]
%4 = add(%3, %2) : f32[32, 256]
return %4 @"y"
}`))(t)
	blocks := make([]byte, 32*8*18)
	for i := range blocks {
		if blocks[i] = byte(7 * i); i%18 == 1 {
			blocks[i] = 0x2c // the upper half of a scale, about 0.06
		}
	}
	w := must(l.NewTensorFromBytes("q4_0", []int{32, 256}, blocks))(t)
	for _, nearest := range []bool{false, true} {
		report := must(g.WriteCoreML(filepath.Join(t.TempDir(), "blocks.mlpackage"), map[string]*rlx.Tensor{"w": w},
			rlx.PackageOptions{MinimumIOS: 16, Nearest: nearest}))(t)
		if strings.Contains(report, "nearest multiples") != nearest { // iOS 16 has no scales of blocks
			t.Errorf("nearest %v: %s", nearest, report)
		}
	}
}

func TestAGraphIsReadWithItsConstantsBeside(t *testing.T) {
	l := library(t)
	const text = `graph @shifted { %0 = input() @"x" : f32[2] %1 = constant() {value = f32[2] @"c"} : f32[2] %2 = add(%0, %1) : f32[2] return %2 @"y" }`
	g := must(l.ParseGraphWith(text, []rlx.NamedConstant{{Name: "c", Type: "f32[2]", Bytes: []byte{0, 0, 128, 63, 0, 0, 0, 64}}}))(t)
	s := must(l.NewSession("cpu", rlx.SessionOptions{}))(t)
	compiled := must(s.Compile(g, rlx.CompileOptions{}))(t)
	results := must(compiled.Run(t.Context(), must(rlx.NewTensor(l, []int{2}, []float32{10, 20}))(t)))(t)
	if got := must(rlx.Data[float32](results[0]))(t); got[0] != 11 || got[1] != 22 {
		t.Errorf("got %v", got)
	}
	if _, err := l.ParseGraphWith(text, nil); !errors.Is(err, rlx.NotFound) {
		t.Errorf("got %v", err)
	}
}
