package rlx_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

// withLetters is a golden model that has a letter for each token.
func withLetters(t testing.TB, l *rlx.Library, name string, options rlx.LanguageModelOptions) *rlx.LanguageModel {
	t.Helper()
	return load(t, l, golden.Model(t, name, map[string]string{"tokenizer.json": golden.LettersTokenizer(t)}), options)
}

func generator(t testing.TB, m *rlx.LanguageModel, options rlx.GenerateOptions) *rlx.Generator {
	t.Helper()
	g := must(m.NewGenerator(options))(t)
	t.Cleanup(g.Close)
	return g
}

func greedily(most int) rlx.GenerateOptions {
	return rlx.GenerateOptions{Temperature: new(0.0), MaxTokens: most}
}

func text(t testing.TB, pieces iter.Seq2[string, error]) string {
	t.Helper()
	return must(rlx.Text(pieces))(t)
}

func TestGreedyTextsAreThoseOfTransformers(t *testing.T) {
	l := library(t)
	for name, wanted := range golden.Greedy(t) {
		m := withLetters(t, l, name, rlx.LanguageModelOptions{Context: 256})
		g := generator(t, m, greedily(40))
		ended := rlx.FinishLength
		if wanted.Ended() {
			ended = rlx.FinishEnd
		}
		for _, read := range []int{len(wanted.Prompt), 1} { // the second time only the last token, for its logits
			var pieces []string
			for piece, err := range g.Stream(t.Context(), wanted.Prompt) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				pieces = append(pieces, piece)
			}
			about := must(g.Describe())(t)
			if strings.Join(pieces, "") != wanted.Written() || len(pieces) != len(wanted.Written()) {
				t.Errorf("%s: %q, not %q", name, pieces, wanted.Written())
			}
			if !slices.Equal(about.Tokens, wanted.Tokens) || about.Finish != ended {
				t.Errorf("%s: %+v, not %v", name, about, wanted.Tokens)
			}
			// Recurrences cannot go back: their models read all again.
			if recurrent := strings.HasPrefix(name, "mamba") || name == "qwen3_next"; about.ReadTokens != read && !recurrent {
				t.Errorf("%s: %d tokens were read, not %d", name, about.ReadTokens, read)
			}
		}
		m.Close()
		if got := text(t, g.Stream(t.Context(), wanted.Prompt)); got != wanted.Written() {
			t.Errorf("%s: after the model was closed %q", name, got)
		}
	}
}

func TestAStreamOfAModelIsATextOfItsOwn(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	prompt := must(m.Prompt(golden.InLetters(wanted.Prompt), rlx.PromptText))(t)
	if !slices.Equal(prompt, wanted.Prompt) {
		t.Errorf("the prompt is %v, not %v", prompt, wanted.Prompt)
	}
	pieces := m.Stream(t.Context(), prompt, greedily(7))
	for range 2 { // each loop begins anew
		if got := text(t, pieces); got != golden.InLetters(wanted.Tokens[:7]) {
			t.Errorf("%q", got)
		}
	}
	seen := 0
	for range pieces {
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("%d pieces before the loop was left", seen)
	}
}

func TestStopTextsEndATextBeforeThem(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	all := wanted.Written()
	stop := all[2:4] // of two tokens
	for _, stops := range [][]string{{stop}, {"no such text", stop}, {"\"", "\\", "\r\n", "\x00", "é😀", stop}} {
		options := greedily(40)
		options.Stop = stops
		g := generator(t, m, options)
		got := text(t, g.Stream(t.Context(), wanted.Prompt))
		about := must(g.Describe())(t)
		if got != all[:strings.Index(all, stop)] || about.Finish != rlx.FinishStop || !slices.Equal(about.Tokens, wanted.Tokens[:len(about.Tokens)]) {
			t.Errorf("%q: %q and not %q, %+v", stops, got, all[:strings.Index(all, stop)], about)
		}
	}
	options := greedily(40)
	options.Stop = []string{"no such text", "\x00"}
	if got := text(t, m.Stream(t.Context(), wanted.Prompt, options)); got != all {
		t.Errorf("%q, not %q", got, all)
	}
}

// Of what transformers gave for the prompt, which is the beginning of the text of the logits.
func TestABiasTakesATokenAway(t *testing.T) {
	l := library(t)
	row := goldenLogits(t, "llama3")[11*vocabulary : 12*vocabulary]
	order := make([]int32, vocabulary)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { // the likeliest first
		if row[a] > row[b] {
			return -1
		}
		return 1
	})
	m, greedy := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	if order[0] != greedy.Tokens[0] {
		t.Fatalf("the prompts differ: %d and %d", order[0], greedy.Tokens[0])
	}
	for count := range 4 {
		options := greedily(1)
		options.LogitBias = map[int32]float64{}
		for _, id := range order[:count] {
			options.LogitBias[id] = math.Inf(-1)
		}
		g := generator(t, m, options)
		must(rlx.Text(g.Stream(t.Context(), greedy.Prompt)))(t)
		if got := must(g.Describe())(t).Tokens; !slices.Equal(got, order[count:count+1]) {
			t.Errorf("without %v: %v", order[:count], got)
		}
	}
	// The likeliest three alone, whatever the temperature.
	for seed := range int64(30) {
		g := generator(t, m, rlx.GenerateOptions{Temperature: new(5.0), TopK: new(3), Seed: seed, MaxTokens: 1})
		must(rlx.Text(g.Stream(t.Context(), greedy.Prompt)))(t)
		if got := must(g.Describe())(t).Tokens; !slices.Contains(order[:3], got[0]) {
			t.Errorf("seed %d gives %v, which is not among %v", seed, got, order[:3])
		}
	}
}

func TestSeeds(t *testing.T) {
	l := library(t)
	m, prompt := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"].Prompt
	options := func(seed int64) rlx.GenerateOptions {
		return rlx.GenerateOptions{Temperature: new(3.0), MaxTokens: 30, Seed: seed}
	}
	first := text(t, m.Stream(t.Context(), prompt, options(1)))
	if again := text(t, m.Stream(t.Context(), prompt, options(1))); again != first {
		t.Errorf("%q and %q", first, again)
	}
	if other := text(t, m.Stream(t.Context(), prompt, options(2))); other == first {
		t.Errorf("two seeds give %q", first)
	}
	g := generator(t, m, options(1))
	one, two := text(t, g.Stream(t.Context(), prompt)), text(t, g.Stream(t.Context(), prompt))
	if one != first || two == first {
		t.Errorf("%q, %q and %q", first, one, two)
	}
	if err := g.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := text(t, g.Stream(t.Context(), prompt)); got != first {
		t.Errorf("%q and %q", first, got)
	}
}

func TestAdviceCountsUntilSomethingElseIsGiven(t *testing.T) {
	l := library(t)
	wanted := golden.Greedy(t)["gpt2"]
	advice := `{"do_sample": true, "temperature": 2.0, "top_k": 1, "eos_token_id": [15, 2]}`
	folder := golden.Model(t, "gpt2", map[string]string{"tokenizer.json": golden.LettersTokenizer(t), "generation_config.json": advice})
	m := load(t, l, folder, rlx.LanguageModelOptions{})
	about := must(m.Describe())(t)
	if *about.Advice.Temperature != 2 || *about.Advice.TopK != 1 || about.Advice.TopP != nil || !slices.Equal(about.StopIDs, []int32{15, 2}) {
		t.Errorf("got %s", must(json.Marshal(about))(t))
	}
	g := generator(t, m, rlx.GenerateOptions{}) // top_k = 1: the likeliest
	must(rlx.Text(g.Stream(t.Context(), wanted.Prompt)))(t)
	if got := must(g.Describe())(t); !slices.Equal(got.Tokens, wanted.Tokens[:slices.Index(wanted.Tokens, 15)+1]) || got.Finish != rlx.FinishEnd {
		t.Errorf("got %+v", got)
	}
	free := generator(t, m, rlx.GenerateOptions{TopK: new(0), Seed: 1, MaxTokens: 10})
	must(rlx.Text(free.Stream(t.Context(), wanted.Prompt)))(t)
	if slices.Equal(must(free.Describe())(t).Tokens, must(g.Describe())(t).Tokens) {
		t.Error("TopK 0 draws as 1 does")
	}
}

func TestTheContextOfAModelEndsAText(t *testing.T) {
	l := library(t)
	wanted := golden.Greedy(t)["llama3"]
	m := withLetters(t, l, "llama3", rlx.LanguageModelOptions{Context: len(wanted.Prompt) + 3, Copied: true})
	g := generator(t, m, greedily(40))
	if got := text(t, g.Stream(t.Context(), wanted.Prompt)); got != golden.InLetters(wanted.Tokens[:4]) {
		t.Errorf("got %q", got)
	}
	if about := must(g.Describe())(t); about.Finish != rlx.FinishContext {
		t.Errorf("got %+v", about)
	}
	_, err := rlx.Text(g.Stream(t.Context(), make([]int32, len(wanted.Prompt)+3)))
	if !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "leave no room in a context of 15") {
		t.Errorf("got %v", err)
	}
	if about := must(g.Describe())(t); about.Finish != rlx.FinishContext { // of the last text: no other was begun
		t.Errorf("got %+v", about)
	}
}

// A tokenizer of bytes; biases and a penalty for each time make the tokens come in turn.
func TestPiecesAreWholeCharactersAndMayHaveNUL(t *testing.T) {
	l := library(t)
	tokens := []string{"<0x00>", "t1", "t2", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x22>"}
	for i := len(tokens); i < vocabulary; i++ {
		tokens = append(tokens, "t"+strconv.Itoa(i))
	}
	file := golden.Tokenizer(t, tokens, 0, map[string]any{
		"decoder": map[string]any{"type": "Sequence", "decoders": []any{map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"}}},
		"model":   map[string]any{"byte_fallback": true}})
	m := load(t, l, golden.Model(t, "gpt2", map[string]string{"tokenizer.json": file}), rlx.LanguageModelOptions{})
	inTurn := func(most int, stop []string, ids ...int32) rlx.GenerateOptions {
		bias := map[int32]float64{}
		for i, id := range ids {
			bias[id] = float64(9000 - 100*i)
		}
		return rlx.GenerateOptions{Temperature: new(0.0), FrequencyPenalty: float64(100 * len(ids)), LogitBias: bias, MaxTokens: most, Stop: stop}
	}
	var pieces []string
	for piece, err := range m.Stream(t.Context(), []int32{9}, inTurn(12, nil, 3, 4, 5, 6)) {
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, piece)
	}
	if !slices.Equal(pieces, []string{"😀", "😀", "😀"}) {
		t.Errorf("got %q", pieces)
	}
	if got := text(t, m.Stream(t.Context(), []int32{9}, inTurn(3, nil, 0))); got != "\x00\x00\x00" {
		t.Errorf("got %q", got)
	}
	if got := text(t, m.Stream(t.Context(), []int32{9}, inTurn(9, []string{"\x00"}, 9, 0))); got != "t9" {
		t.Errorf("got %q", got)
	}
	if got := text(t, m.Stream(t.Context(), []int32{9}, inTurn(9, []string{"9\""}, 10, 9, 7))); got != "t10t" {
		t.Errorf("got %q", got)
	}
}

func TestAContextEndsAText(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	g := generator(t, m, greedily(40))
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("enough"))
	if got, err := rlx.Text(g.Stream(ended, wanted.Prompt)); got != "" || err == nil || err.Error() != "enough" {
		t.Errorf("%q: %v", got, err)
	}
	if about := must(g.Describe())(t); about.ReadTokens != 0 {
		t.Errorf("%+v: the prompt was read", about)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var pieces []string
	var errs []error
	for piece, err := range g.Stream(ctx, wanted.Prompt) {
		if err != nil {
			errs = append(errs, err)
			continue // nothing comes behind an error
		}
		if pieces = append(pieces, piece); len(pieces) == 3 {
			cancel()
		}
	}
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) || strings.Join(pieces, "") != wanted.Written()[:3] {
		t.Errorf("%q: %v", pieces, errs)
	}
	if about := must(g.Describe())(t); about.Finish != "" || !slices.Equal(about.Tokens, wanted.Tokens[:3]) {
		t.Errorf("got %+v", about)
	}
	if got := text(t, g.Stream(t.Context(), wanted.Prompt)); got != wanted.Written() {
		t.Errorf("after it: %q", got)
	}
	// By the clock, while texts are written one after another: each goes on to the end of the model's context.
	late, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	endless := generator(t, m, rlx.GenerateOptions{Temperature: new(0.0), MaxTokens: 1 << 30, LogitBias: map[int32]float64{golden.StopID: math.Inf(-1)}})
	var err error
	for err == nil {
		_, err = rlx.Text(endless.Stream(late, wanted.Prompt))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherTextEndsTheFirst(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	g := generator(t, m, greedily(40))
	inner, pieces := "", 0
	for piece, err := range g.Stream(t.Context(), wanted.Prompt) {
		if pieces++; pieces == 1 {
			inner = text(t, g.Stream(t.Context(), wanted.Prompt))
			continue
		}
		if piece != "" || !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "another text was begun") {
			t.Errorf("%q: %v", piece, err)
		}
	}
	if pieces != 2 || inner != wanted.Written() {
		t.Errorf("%d pieces, and within %q", pieces, inner)
	}
	// What is refused begins no text.
	pieces = 0
	for _, err := range g.Stream(t.Context(), wanted.Prompt) {
		if err != nil {
			t.Fatal(err)
		}
		if pieces++; pieces == 1 {
			if _, err := rlx.Text(g.Stream(t.Context(), nil)); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "no tokens") {
				t.Errorf("got %v", err)
			}
		}
	}
	if pieces != len(wanted.Written()) {
		t.Errorf("%d pieces, not %d", pieces, len(wanted.Written()))
	}
}

func TestAGeneratorReadsWhatIsNew(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{}), golden.Greedy(t)["llama3"]
	g := generator(t, m, greedily(10))
	first := text(t, g.Stream(t.Context(), wanted.Prompt))
	// The next turn: the prompt, the answer, and what follows.
	longer := append(append(slices.Clone(wanted.Prompt), wanted.Tokens[:10]...), wanted.Tokens[10])
	second := text(t, g.Stream(t.Context(), longer))
	if first+string(golden.Letters[wanted.Tokens[10]])+second != golden.InLetters(wanted.Tokens[:21]) {
		t.Errorf("%q and %q are not %q", first, second, wanted.Written())
	}
	if about := must(g.Describe())(t); about.ReadTokens > 2 { // the last one written was not read
		t.Errorf("got %+v", about)
	}
}

func TestOptionsThatMeanNothing(t *testing.T) {
	l := library(t)
	m := withLetters(t, l, "gpt2", rlx.LanguageModelOptions{})
	for message, options := range map[string]rlx.GenerateOptions{
		"temperature is -1": {Temperature: new(-1.0)}, "temperature is nan": {Temperature: new(math.NaN())}, "top_p is 0": {TopP: new(0.0)},
		"top_k is -1": {TopK: new(-1)}, "min_p is 2": {MinP: new(2.0)}, "typical_p is 0": {TypicalP: new(0.0)}, "repetition_penalty is 0": {RepetitionPenalty: new(0.0)},
		"seed is -1": {Seed: -1}, "max_tokens is -1": {MaxTokens: -1}, "a stop string is empty": {Stop: []string{""}},
	} {
		g, err := m.NewGenerator(options)
		if g != nil || !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", message, err)
		}
		if _, err := rlx.Text(m.Stream(t.Context(), []int32{1}, options)); !errors.Is(err, rlx.InvalidArgument) {
			t.Errorf("%q: %v", message, err)
		}
	}
	for _, options := range []rlx.GenerateOptions{{MaxTokens: 3}, {Stop: []string{"a"}}} {
		if _, err := l.NewSampler(options); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "of a generator") {
			t.Errorf("%+v: %v", options, err)
		}
	}
	bare := goldenModel(t, l, "gpt2", rlx.LanguageModelOptions{})
	if _, err := rlx.Text(bare.Stream(t.Context(), []int32{1}, rlx.GenerateOptions{})); !errors.Is(err, rlx.NotFound) || !strings.Contains(err.Error(), "tokenizer") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsClosedFails(t *testing.T) {
	l := library(t)
	m := withLetters(t, l, "gpt2", rlx.LanguageModelOptions{})
	s, g, k := must(m.NewSequence())(t), must(m.NewGenerator(greedily(4)))(t), must(m.Tokenizer())(t)
	sampler, stream := must(l.NewSampler(rlx.GenerateOptions{}))(t), must(k.NewDecodeStream(true))(t)
	template, err := l.ParseChatTemplate("x")
	if errors.Is(err, rlx.Unsupported) {
		template = &rlx.ChatTemplate{}
	} else if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, each := range []interface{ Close() }{m, s, g, k, sampler, stream, template} {
			each.Close()
		}
	}
	calls := map[string]func() error{
		"Describe":           func() error { _, err := m.Describe(); return err },
		"Tokenizer":          func() error { _, err := m.Tokenizer(); return err },
		"ChatTemplate":       func() error { _, err := m.ChatTemplate(); return err },
		"ChatPrompt":         func() error { _, err := m.ChatPrompt([]rlx.Message{}, rlx.ChatOptions{}); return err },
		"Prompt":             func() error { _, err := m.Prompt("a", rlx.PromptText); return err },
		"AllLogits":          func() error { _, err := m.AllLogits([]int32{1}); return err },
		"Report":             func() error { _, err := m.Report(); return err },
		"NewSequence":        func() error { _, err := m.NewSequence(); return err },
		"NewGenerator":       func() error { _, err := m.NewGenerator(rlx.GenerateOptions{}); return err },
		"model.Stream":       func() error { _, err := rlx.Text(m.Stream(t.Context(), []int32{1}, rlx.GenerateOptions{})); return err },
		"Copy":               func() error { _, err := s.Copy(); return err },
		"Logits":             func() error { _, err := s.Logits(1); return err },
		"sequence.AllLogits": func() error { _, err := s.AllLogits(1); return err },
		"Rewind":             func() error { return s.Rewind(0) },
		"Stream":             func() error { _, err := rlx.Text(g.Stream(t.Context(), []int32{1})); return err },
		"generator.Describe": func() error { _, err := g.Describe(); return err },
		"generator.Reset":    g.Reset,
		"See":                func() error { return sampler.See(1) },
		"Sample":             func() error { _, err := sampler.Sample([]float32{1}); return err },
		"Chances":            func() error { _, err := sampler.Chances([]float32{1}); return err },
		"sampler.Reset":      sampler.Reset,
		"Encode":             func() error { _, err := k.Encode("a", true); return err },
		"EncodeAll":          func() error { _, err := k.EncodeAll([]string{"a"}, true); return err },
		"EncodePairs":        func() error { _, err := k.EncodePairs([][2]string{{"a", "b"}}, true); return err },
		"Decode":             func() error { _, err := k.Decode([]int32{1}, true); return err },
		"TokenToID":          func() error { _, _, err := k.TokenToID("a"); return err },
		"IDToToken":          func() error { _, err := k.IDToToken(1); return err },
		"SetTruncation":      func() error { return k.SetTruncation(nil) },
		"SetPadding":         func() error { return k.SetPadding(nil) },
		"SpecialTokens":      func() error { return k.SetEncodeSpecialTokens(true) },
		"tokenizer.Describe": func() error { _, err := k.Describe(); return err },
		"NewDecodeStream":    func() error { _, err := k.NewDecodeStream(true); return err },
		"Put":                func() error { _, err := stream.Put(1); return err },
		"stream.Finish":      func() error { _, err := stream.Finish(); return err },
	}
	if err == nil {
		calls["template.Describe"] = func() error { _, err := template.Describe(); return err }
		calls["Apply"] = func() error { _, err := template.Apply([]rlx.Message{}, rlx.ChatOptions{}); return err }
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "NULL") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.Position() != 0 || s.MemoryBytes() != 0 {
		t.Errorf("%d tokens in %d bytes", s.Position(), s.MemoryBytes())
	}
	// Within a loop too.
	open := withLetters(t, l, "gpt2", rlx.LanguageModelOptions{})
	closing, pieces := generator(t, open, greedily(4)), 0
	for _, err := range closing.Stream(t.Context(), []int32{1, 4}) {
		if pieces++; pieces == 1 {
			closing.Close()
		} else if !errors.Is(err, rlx.InvalidArgument) {
			t.Errorf("got %v", err)
		}
	}
	if pieces != 2 {
		t.Errorf("%d pieces", pieces)
	}
}

func TestGoroutinesShareAModel(t *testing.T) {
	l := library(t)
	m, wanted := withLetters(t, l, "llama3", rlx.LanguageModelOptions{Threads: 1, Chunk: 16}), golden.Greedy(t)["llama3"]
	ids, logits := goldenIDs(t, "llama3"), goldenLogits(t, "llama3")
	options := func(seed int64) rlx.GenerateOptions {
		return rlx.GenerateOptions{Temperature: new(2.0), MaxTokens: 20, Seed: seed}
	}
	const goroutines = 8
	var alone [goroutines]string
	for i := range alone {
		alone[i] = text(t, m.Stream(t.Context(), wanted.Prompt, options(int64(i))))
	}
	var all sync.WaitGroup
	for i := range alone {
		all.Go(func() {
			for range 4 {
				if got, err := rlx.Text(m.Stream(t.Context(), wanted.Prompt, greedily(40))); err != nil || got != wanted.Written() {
					t.Errorf("%q: %v", got, err)
				}
				if got, err := rlx.Text(m.Stream(t.Context(), wanted.Prompt, options(int64(i)))); err != nil || got != alone[i] {
					t.Errorf("%q, alone %q: %v", got, alone[i], err)
				}
				tensor, err := m.AllLogits(ids)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := rlx.Data[float32](tensor)
				if err != nil || !(difference(t, got, logits) < tolerance) {
					t.Errorf("logits differ: %v", err)
				}
				tensor.Close()
				if prompt, err := m.Prompt("AbC", rlx.PromptText); err != nil || len(prompt) != 3 {
					t.Errorf("%v: %v", prompt, err)
				}
			}
		})
	}
	all.Wait()
}

// residentBytes are the process's, by Linux.
func residentBytes(t testing.TB) int {
	t.Helper()
	debug.FreeOSMemory() // what Go itself has no use for
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("the memory of the process is not told here")
	}
	return must(strconv.Atoi(strings.Fields(string(text))[1]))(t) * os.Getpagesize()
}

// grown is by how many bytes the process grew over rounds, after as many as allocators need until they have what they keep.
func grown(t testing.TB, rounds int, round func()) int {
	t.Helper()
	for range rounds / 4 {
		round()
	}
	before := residentBytes(t)
	for range rounds {
		round()
	}
	return residentBytes(t) - before
}

func TestModelsLeaveNoMemory(t *testing.T) {
	l := library(t)
	folder := golden.Model(t, "llama3", map[string]string{"tokenizer.json": golden.LettersTokenizer(t)})
	prompt := golden.Greedy(t)["llama3"].Prompt
	for closes, rounds := range map[bool]int{true: 200, false: 120} { // what is forgotten is freed by the collector
		bytes := grown(t, rounds, func() {
			m := must(l.LoadLanguageModel(folder, "cpu", rlx.LanguageModelOptions{Threads: 1, Copied: true}))(t)
			s, g, k := must(m.NewSequence())(t), must(m.NewGenerator(greedily(4)))(t), must(m.Tokenizer())(t)
			must(s.Logits(prompt...))(t)
			copied := must(s.Copy())(t)
			must(rlx.Text(g.Stream(t.Context(), prompt)))(t)
			if closes {
				for _, each := range []interface{ Close() }{m, s, g, k, copied} {
					each.Close()
				}
			} else {
				runtime.GC()
			}
		})
		t.Logf("%d rounds, closed: %v, grow by %d bytes", rounds, closes, bytes)
		if most := rounds * 16 << 10; bytes > most { // a model, a sequence and a generator take a megabyte each, a tokenizer 26 KiB
			t.Errorf("closed: %v, %d rounds grow by %d bytes, which is more than %d", closes, rounds, bytes, most)
		}
	}
}

func TestSmallObjectsLeaveNoMemory(t *testing.T) {
	l := library(t)
	m := withLetters(t, l, "gpt2", rlx.LanguageModelOptions{Threads: 1})
	k := must(m.Tokenizer())(t)
	template, templateErr := l.ParseChatTemplate("{{ messages[0].content }}")
	// Each round that left something would leave more than 200 bytes, most of them kilobytes.
	letters, ids := strings.Repeat("AbC", 700), make([]int32, 2000)
	long := []rlx.Message{{Content: letters}}
	for name, each := range map[string]struct {
		rounds int
		round  func()
	}{
		"an encoding": {500, func() { must(k.EncodeAll([]string{letters}, true))(t) }},
		"a text":      {5000, func() { must(k.Decode(ids, true))(t) }},
		"a prompt":    {1000, func() { must(m.Prompt(letters, rlx.PromptText))(t) }},
		"a stream":    {30_000, func() { s := must(k.NewDecodeStream(true))(t); must(s.Put(1))(t); s.Close() }},
		"a sampler": {30_000, func() {
			s := must(l.NewSampler(rlx.GenerateOptions{Seed: 1}))(t)
			must(s.Sample([]float32{1}))(t)
			s.Close()
		}},
		"an error":     {30_000, func() { _, _ = k.IDToToken(-1) }},
		"a template":   {1000, func() { must(l.ParseChatTemplate(letters + letters))(t).Close() }},
		"applying one": {2000, func() { must(template.Apply(long, rlx.ChatOptions{}))(t) }},
	} {
		if templateErr != nil && (name == "a template" || name == "applying one") {
			continue // built without them
		}
		bytes := grown(t, each.rounds, each.round)
		t.Logf("%s: %d rounds grow by %d bytes", name, each.rounds, bytes)
		if bytes > 2<<20 { // up to half of which comes and goes
			t.Errorf("%s: %d rounds grow by %d bytes", name, each.rounds, bytes)
		}
	}
}
