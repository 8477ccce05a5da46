package rlx_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

// models are those of tests/golden/language_models, which transformers made (tests/golden/generate/language_models.py); the
// .gguf files are of llama.cpp's converter.
func models(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, each := range must(os.ReadDir(golden.Path(t, "golden", "language_models")))(t) {
		if each.IsDir() {
			names = append(names, each.Name())
		}
	}
	if len(names) != 14 {
		t.Fatalf("there are %d models, not 14", len(names))
	}
	return names
}

// load reads a model for the CPU; it is closed with the test.
func load(t testing.TB, l *rlx.Library, path string, options rlx.LanguageModelOptions) *rlx.LanguageModel {
	t.Helper()
	m := must(l.LoadLanguageModel(path, "cpu", options))(t)
	t.Cleanup(m.Close)
	return m
}

func goldenModel(t testing.TB, l *rlx.Library, name string, options rlx.LanguageModelOptions) *rlx.LanguageModel {
	t.Helper()
	return load(t, l, golden.Path(t, "golden", "language_models", name), options)
}

func goldenIDs(t testing.TB, name string) []int32 {
	t.Helper()
	return golden.JSON[[]int32](t, "golden", "language_models", name, "ids.json")
}

func goldenLogits(t testing.TB, name string) []float32 {
	t.Helper()
	return golden.Floats(t, "golden", "language_models", name, "logits.npy")
}

const (
	vocabulary = 41   // of these models
	tolerance  = 1e-4 // of logits of some units, as tests/models has it
)

// difference is the largest one of two lists of as many numbers.
func difference(t testing.TB, got, wanted []float32) float64 {
	t.Helper()
	if len(got) != len(wanted) {
		t.Fatalf("there are %d numbers, not %d", len(got), len(wanted))
	}
	largest := 0.0
	for i := range got {
		largest = math.Max(largest, math.Abs(float64(got[i])-float64(wanted[i]))) // NaN stays NaN
	}
	return largest
}

func isNear(t testing.TB, what string, got, wanted []float32) {
	t.Helper()
	if d := difference(t, got, wanted); !(d < tolerance) {
		t.Errorf("%s: a difference of %g", what, d)
	}
}

// rows are the elements of logits, f32[tokens, width].
func rows(t testing.TB, logits *rlx.Tensor, err error) []float32 {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer logits.Close()
	if len(logits.Dims()) != 2 {
		t.Fatalf("the logits are [%v]", logits.Dims())
	}
	return slices.Clone(must(rlx.Data[float32](logits))(t))
}

// stretches says of a model whose first tokens see other positions if the rest of the text is not there yet.
func stretches(name string) bool { return name == "llama_dynamic" || name == "phi3_longrope" }

func TestLogitsAreThoseOfTransformers(t *testing.T) {
	l, files := library(t), 0
	for _, name := range models(t) {
		ids, wanted := goldenIDs(t, name), goldenLogits(t, name)
		for _, file := range []string{name, name + ".gguf"} {
			path := golden.Path(t, "golden", "language_models", file)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			files++
			m := load(t, l, path, rlx.LanguageModelOptions{Context: 256, Copied: file != name})
			all, err := m.AllLogits(ids)
			isNear(t, file, rows(t, all, err), wanted)
			s := must(m.NewSequence())(t)
			m.Close() // the sequence goes on
			if !stretches(name) {
				isNear(t, file+", token 19", must(s.Logits(ids[:20]...))(t), wanted[19*vocabulary:20*vocabulary])
				all, err := s.AllLogits(ids[20:]...)
				isNear(t, file+", the rest", rows(t, all, err), wanted[20*vocabulary:])
			} else {
				all, err := s.AllLogits(ids...)
				isNear(t, file+", at once", rows(t, all, err), wanted)
			}
			if s.Position() != len(ids) {
				t.Errorf("%s: %d tokens, not %d", file, s.Position(), len(ids))
			}
			s.Close()
		}
	}
	if files != 25 {
		t.Errorf("%d files, not 14 folders and 11 GGUF files", files)
	}
}

func TestASequenceGoesBackAndItsCopyGoesOnByItself(t *testing.T) {
	l := library(t)
	ids, wanted := goldenIDs(t, "llama3"), goldenLogits(t, "llama3")
	row := func(i int) []float32 { return wanted[i*vocabulary : (i+1)*vocabulary] }
	m := goldenModel(t, l, "llama3", rlx.LanguageModelOptions{Chunk: 16, Threads: 1})
	one := must(m.NewSequence())(t)
	defer one.Close()
	if one.Position() != 0 {
		t.Errorf("a new sequence has %d tokens", one.Position())
	}
	isNear(t, "the first", must(one.Logits(ids[:40]...))(t), row(39))
	if one.MemoryBytes() < 40*2*2*2*8*4 { // keys and values: layers, heads, width
		t.Errorf("%d tokens take %d bytes", one.Position(), one.MemoryBytes())
	}
	other := must(one.Copy())(t)
	defer other.Close()
	must(one.Logits(3, 3, 3))(t)
	if one.Position() != 43 || other.Position() != 40 {
		t.Errorf("%d and %d tokens", one.Position(), other.Position())
	}
	isNear(t, "the copy", must(other.Logits(ids[40:50]...))(t), row(49))
	if err := one.Rewind(3); err != nil {
		t.Fatal(err)
	}
	isNear(t, "gone back", must(one.Logits(ids[40]))(t), row(40))
	one.Close()
	isNear(t, "alone", must(other.Logits(ids[50]))(t), row(50))
	for _, tokens := range []int{52, -1} {
		if err := other.Rewind(tokens); !errors.Is(err, rlx.InvalidArgument) {
			t.Errorf("gone back by %d of 51: %v", tokens, err)
		}
	}
	if other.Position() != 51 {
		t.Errorf("%d tokens after what failed", other.Position())
	}
}

func TestGreedyTokensOfALoopAreThoseOfTransformers(t *testing.T) {
	l := library(t)
	greedy := golden.Greedy(t)
	sampler := must(l.NewSampler(rlx.GenerateOptions{Temperature: new(0.0)}))(t)
	defer sampler.Close()
	for _, name := range models(t) {
		m := goldenModel(t, l, name, rlx.LanguageModelOptions{Context: 256})
		s := must(m.NewSequence())(t)
		logits := must(s.Logits(greedy[name].Prompt...))(t)
		var tokens []int32
		for range greedy[name].Tokens {
			tokens = append(tokens, must(sampler.Sample(logits))(t))
			logits = must(s.Logits(tokens[len(tokens)-1]))(t)
		}
		if !slices.Equal(tokens, greedy[name].Tokens) {
			t.Errorf("%s: %v, not %v", name, tokens, greedy[name].Tokens)
		}
		s.Close()
		m.Close()
	}
}

// What is kept, and how likely it is, by the processors of transformers: tests/sampling/sampler_cases.py.
func TestChancesAreThoseOfTransformers(t *testing.T) {
	l := library(t)
	recorded := golden.JSON[struct {
		Seen  []int32
		Rows  map[string][]any // numbers, or "-inf"
		Cases []struct {
			Row      string
			Settings struct {
				Temperature       *float64
				TopK              *int     `json:"top_k"`
				TopP              *float64 `json:"top_p"`
				MinP              *float64 `json:"min_p"`
				TypicalP          *float64 `json:"typical_p"`
				RepetitionPenalty *float64 `json:"repetition_penalty"`
				LogitBias         [][2]any `json:"logit_bias"`
			}
			Kept          []int32
			Probabilities []float64
		}
	}](t, "sampling", "sampler_cases.json")
	number := func(value any) float64 {
		if n, ok := value.(float64); ok {
			return n
		}
		return math.Inf(-1)
	}
	for _, wanted := range recorded.Cases {
		var logits []float32
		for _, each := range recorded.Rows[wanted.Row] {
			logits = append(logits, float32(number(each)))
		}
		s := wanted.Settings
		bias := map[int32]float64{}
		for _, pair := range s.LogitBias {
			bias[int32(number(pair[0]))] = number(pair[1])
		}
		sampler := must(l.NewSampler(rlx.GenerateOptions{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP,
			TypicalP: s.TypicalP, RepetitionPenalty: s.RepetitionPenalty, LogitBias: bias}))(t)
		if err := sampler.See(recorded.Seen...); err != nil {
			t.Fatal(err)
		}
		chances := must(sampler.Chances(logits))(t)
		sampler.Close()
		for i := range max(len(chances), 1) - 1 {
			if chances[i].Probability < chances[i+1].Probability {
				t.Errorf("%s, %+v: the likeliest do not come first", wanted.Row, s)
			}
		}
		slices.SortFunc(chances, func(a, b rlx.Chance) int { return int(a.ID - b.ID) })
		if len(chances) != len(wanted.Kept) {
			t.Errorf("%s, %+v: %d are kept, not %d", wanted.Row, s, len(chances), len(wanted.Kept))
			continue
		}
		for i, each := range chances {
			// transformers rounds each step to f32; large logits have errors of their size.
			if each.ID != wanted.Kept[i] || !(math.Abs(each.Probability-wanted.Probabilities[i]) < 2e-4*each.Probability+1e-12) {
				t.Errorf("%s, %+v: %+v, not %d with %g", wanted.Row, s, each, wanted.Kept[i], wanted.Probabilities[i])
			}
		}
	}
	if len(recorded.Cases) <= 100 {
		t.Errorf("%d cases are too few", len(recorded.Cases))
	}
}

func TestSamplersDraw(t *testing.T) {
	l := library(t)
	logits := []float32{0, 1, 2, 3}
	drawn := func(s *rlx.Sampler) (all []int32) {
		for range 16 {
			all = append(all, must(s.Sample(logits))(t))
		}
		return all
	}
	s := must(l.NewSampler(rlx.GenerateOptions{Seed: 5, Temperature: new(2.0)}))(t)
	first := drawn(s)
	if err := s.Reset(); err != nil {
		t.Fatal(err)
	}
	if again := drawn(s); !slices.Equal(first, again) {
		t.Errorf("%v and %v", first, again)
	}
	other := must(l.NewSampler(rlx.GenerateOptions{Seed: 6, Temperature: new(2.0)}))(t)
	if slices.Equal(first, drawn(other)) {
		t.Errorf("two seeds give %v", first)
	}
	// Penalties for each time that a token was written take turns between tokens that are as likely.
	turns := must(l.NewSampler(rlx.GenerateOptions{Temperature: new(0.0), FrequencyPenalty: 1}))(t)
	logits = []float32{1, 1, -9}
	if all := drawn(turns)[:4]; !slices.Equal(all, []int32{0, 1, 0, 1}) {
		t.Errorf("got %v", all)
	}
	once := must(l.NewSampler(rlx.GenerateOptions{Temperature: new(0.0), PresencePenalty: 1.5}))(t)
	logits = []float32{2, 1, -9}
	if all := drawn(once)[:4]; !slices.Equal(all, []int32{0, 1, 0, 0}) {
		t.Errorf("got %v", all)
	}
	for _, bad := range [][]float32{{0, float32(math.NaN())}, {float32(math.Inf(1)), 0}, {float32(math.Inf(-1))}, nil} {
		if _, err := s.Sample(bad); !errors.Is(err, rlx.InvalidArgument) {
			t.Errorf("of %v: %v", bad, err)
		}
	}
}

func TestAModelSaysWhatItIs(t *testing.T) {
	l := library(t)
	for _, name := range []string{"llama3", "qwen3_moe", "mistral_window"} {
		config := golden.JSON[struct {
			Type         string `json:"model_type"`
			Vocabulary   int    `json:"vocab_size"`
			Hidden       int    `json:"hidden_size"`
			Layers       int    `json:"num_hidden_layers"`
			Heads        int    `json:"num_attention_heads"`
			KVHeads      int    `json:"num_key_value_heads"`
			HeadDim      int    `json:"head_dim"`
			Intermediate int    `json:"intermediate_size"`
			Experts      int    `json:"num_local_experts"`
			Window       *int   `json:"sliding_window"`
			Positions    int    `json:"max_position_embeddings"`
			BOSID        *int32 `json:"bos_token_id"`
			EOSID        int32  `json:"eos_token_id"`
		}](t, "golden", "language_models", name, "config.json")
		about := must(goldenModel(t, l, name, rlx.LanguageModelOptions{Context: 100}).Describe())(t)
		window := 0
		if config.Window != nil {
			window = *config.Window
		}
		wanted := rlx.LanguageModelDescription{Architecture: config.Type, Vocabulary: config.Vocabulary, Hidden: config.Hidden, Layers: config.Layers,
			Heads: config.Heads, KVHeads: config.KVHeads, HeadDim: config.HeadDim, Intermediate: about.Intermediate, Experts: config.Experts,
			Window: window, PromisedContext: config.Positions, Context: 100, BOSID: config.BOSID, StopIDs: []int32{config.EOSID}}
		if name != "qwen3_moe" { // whose experts have a size of their own
			wanted.Intermediate = config.Intermediate
		}
		if got, want := string(must(json.Marshal(about))(t)), string(must(json.Marshal(wanted))(t)); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	m := goldenModel(t, l, "gpt2.gguf", rlx.LanguageModelOptions{})
	if about := must(m.Describe())(t); about.Architecture != "gpt2" || about.Vocabulary != vocabulary {
		t.Errorf("got %+v", about)
	}
	var report struct{ Nodes []struct{ Verdict string } }
	if err := json.Unmarshal([]byte(must(m.Report())(t)), &report); err != nil || len(report.Nodes) == 0 || report.Nodes[0].Verdict == "" {
		t.Errorf("%+v: %v", report, err)
	}
}

// Adapters by the package PEFT: tests/golden/generate/packed_language_models.py.
func TestAdaptersAreThoseOfPEFT(t *testing.T) {
	l := library(t)
	packed := func(parts ...string) string {
		return golden.Path(t, append([]string{"golden", "packed_language_models"}, parts...)...)
	}
	for _, base := range []string{"llama3", "awq"} {
		path, ids := packed("awq"), golden.JSON[[]int32](t, "golden", "packed_language_models", "awq", "ids.json")
		plain := golden.Floats(t, "golden", "packed_language_models", "awq", "logits.npy")
		if base == "llama3" {
			path = golden.Path(t, "golden", "language_models", base)
		}
		logits := func(options rlx.LanguageModelOptions) []float32 {
			m := load(t, l, path, options)
			all, err := m.AllLogits(ids)
			return rows(t, all, err)
		}
		if base == "llama3" {
			plain = logits(rlx.LanguageModelOptions{})
		} else {
			isNear(t, base, logits(rlx.LanguageModelOptions{}), plain)
		}
		for _, kind := range []string{"lora", "rslora"} {
			adapter := packed(kind + "_" + base)
			wanted := golden.Floats(t, "golden", "packed_language_models", kind+"_"+base+".npy")
			if d := difference(t, wanted, plain); !(d > 0.1) {
				t.Errorf("the adapter changes logits by %g", d)
			}
			for _, options := range []rlx.LanguageModelOptions{
				{Adapters: []string{adapter}}, {Adapters: []string{adapter}, AdapterScales: []float64{1}},
				{Adapters: []string{adapter, adapter}, AdapterScales: []float64{0.25, 0.75}},
			} {
				isNear(t, kind+" of "+base, logits(options), wanted)
			}
			isNear(t, base+" without its adapter", logits(rlx.LanguageModelOptions{Adapters: []string{adapter}, AdapterScales: []float64{0}}), plain)
		}
	}
}

func TestCachesOf16BitsRoundAsInTransformers(t *testing.T) {
	l := library(t)
	usual := golden.JSON[map[string]map[rlx.DType]float64](t, "golden", "language_models", "rounded_caches.json")["llama3"]
	ids, wanted := goldenIDs(t, "llama3"), goldenLogits(t, "llama3")
	bytes := map[rlx.DType]int{}
	for _, dtype := range []rlx.DType{"", "f32", "f16", "bf16"} {
		m := goldenModel(t, l, "llama3", rlx.LanguageModelOptions{Cache: dtype})
		all, err := m.AllLogits(ids)
		got := difference(t, rows(t, all, err), wanted)
		if about := usual[dtype]; about == 0 && !(got < tolerance) || about != 0 && !(got > about/1.5 && got < about*1.5) {
			t.Errorf("a cache of %s differs by %g, in transformers by %g", dtype, got, about)
		}
		s := must(m.NewSequence())(t)
		must(s.Logits(ids...))(t)
		bytes[dtype] = s.MemoryBytes()
		s.Close()
	}
	if bytes[""] != bytes["f32"] || bytes["f32"] != 2*bytes["f16"] || bytes["f16"] != bytes["bf16"] {
		t.Errorf("bytes of caches: %v", bytes)
	}
}

func TestCachesOfBlocksTakeTheirShareOfTheMemory(t *testing.T) {
	l := library(t)
	bytes := map[rlx.DType]int{}
	for _, dtype := range []rlx.DType{"f32", "q8_0", "q4_0"} {
		m := load(t, l, golden.Path(t, "golden", "block_caches"), rlx.LanguageModelOptions{Cache: dtype})
		s := must(m.NewSequence())(t)
		must(s.Logits(1, 2, 3))(t)
		bytes[dtype] = s.MemoryBytes()
		s.Close()
	}
	if bytes["f32"]*34 != bytes["q8_0"]*128 || bytes["f32"]*18 != bytes["q4_0"]*128 {
		t.Errorf("bytes of caches: %v", bytes)
	}
}

func TestModelsThatAreNotThere(t *testing.T) {
	l := library(t)
	path, packed := golden.Path(t, "golden", "language_models", "gpt2"), golden.Path(t, "golden", "packed_language_models")
	cut := filepath.Join(t.TempDir(), "cut.gguf")
	whole := must(os.ReadFile(golden.Path(t, "golden", "language_models", "gpt2.gguf")))(t)
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct {
		path, device string
		options      rlx.LanguageModelOptions
		status       rlx.Status
		message      string
	}{
		{"/nowhere/at/all", "cpu", rlx.LanguageModelOptions{}, rlx.NotFound, "no such folder or file"},
		{path, "warp", rlx.LanguageModelOptions{}, rlx.NotFound, "warp"},
		{path, "cpu", rlx.LanguageModelOptions{Context: -1}, rlx.InvalidArgument, "a context of -1"},
		{path, "cpu", rlx.LanguageModelOptions{Context: 1e6}, rlx.InvalidArgument, "the model's table has 256 positions"},
		{path, "cpu", rlx.LanguageModelOptions{Chunk: -1}, rlx.InvalidArgument, "a chunk of -1"},
		{path, "cpu", rlx.LanguageModelOptions{Cache: "i8"}, rlx.Unsupported, "caches of i8"},
		{path, "cpu", rlx.LanguageModelOptions{Cache: "f17"}, rlx.ParseError, "there is no dtype 'f17'"},
		{path, "cpu", rlx.LanguageModelOptions{Compile: rlx.CompileOptions{Accuracy: 7}}, rlx.InvalidArgument, "accuracy"},
		{path, "cpu", rlx.LanguageModelOptions{Adapters: []string{"no/such"}}, rlx.NotFound, "no/such"},
		{path, "cpu", rlx.LanguageModelOptions{Adapters: []string{"a"}, AdapterScales: []float64{1, 2}}, rlx.InvalidArgument, "1 adapters and 2 scales"},
		{path, "cpu", rlx.LanguageModelOptions{AdapterScales: []float64{1}}, rlx.InvalidArgument, "0 adapters and 1 scales"},
		{golden.Path(t, "golden", "language_models", "llama3"), "cpu",
			rlx.LanguageModelOptions{Adapters: []string{filepath.Join(packed, "lora_awq")}}, rlx.ShapeMismatch, "has 32 inputs, the module 16"},
		{cut, "cpu", rlx.LanguageModelOptions{}, rlx.ParseError, "cut.gguf"},
	} {
		m, err := l.LoadLanguageModel(each.path, each.device, each.options)
		var e *rlx.Error
		if m != nil || !errors.As(err, &e) || e.Status != each.status || !strings.Contains(e.Message, each.message) {
			t.Errorf("%+v: %v", each, err)
		}
	}
	m := load(t, l, path, rlx.LanguageModelOptions{Context: 8})
	if _, err := m.Tokenizer(); !errors.Is(err, rlx.NotFound) || !strings.Contains(err.Error(), "tokenizer") {
		t.Errorf("got %v", err)
	}
	if _, err := m.Prompt("a", rlx.PromptText); !errors.Is(err, rlx.NotFound) {
		t.Errorf("got %v", err)
	}
	s := must(m.NewSequence())(t)
	for message, ids := range map[string][]int32{"token 1 is 41": {3, 41}, "token 0 is -1": {-1}, "no tokens": {},
		"do not fit a context of 8": make([]int32, 9)} {
		if _, err := s.Logits(ids...); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: %v", ids, err)
		}
		if _, err := s.AllLogits(ids...); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), message) {
			t.Errorf("%v: %v", ids, err)
		}
		if _, err := m.AllLogits(ids); !errors.Is(err, rlx.InvalidArgument) || s.Position() != 0 {
			t.Errorf("%v: %v", ids, err)
		}
	}
}

func TestFoldersBecomeFilesAndFilesFolders(t *testing.T) {
	l, folder := library(t), t.TempDir()
	file, back := filepath.Join(folder, "m.gguf"), filepath.Join(folder, "back")
	ids, wanted := goldenIDs(t, "llama3"), goldenLogits(t, "llama3")
	made := must(l.ConvertToGGUF(golden.Path(t, "golden", "language_models", "llama3"), file, rlx.ConvertOptions{}))(t)
	if made.Tensors != 22 || made.Bytes < 20000 || !slices.Contains(made.Notes, "the folder has no tokenizer, and so has the file none") {
		t.Errorf("the file is %+v", made)
	}
	must(l.ConvertToFolder(file, back, rlx.ConvertOptions{MostFileBytes: 15000}))(t)
	if _, err := os.Stat(filepath.Join(back, "model.safetensors.index.json")); err != nil {
		t.Error(err)
	}
	for _, path := range []string{file, back} {
		all, err := load(t, l, path, rlx.LanguageModelOptions{Context: 256}).AllLogits(ids)
		isNear(t, path, rows(t, all, err), wanted)
	}
	if _, err := l.ConvertToFolder(file, back, rlx.ConvertOptions{}); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("a folder that is there: %v", err)
	}
	if _, err := l.ConvertToGGUF(back, file, rlx.ConvertOptions{Quantize: "q9"}); err == nil {
		t.Error("q9 is a kind of block")
	}
}
