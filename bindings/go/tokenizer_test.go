package rlx_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

// tokenizerOf loads the text of a tokenizer.json.
func tokenizerOf(t testing.TB, l *rlx.Library, text []byte) *rlx.Tokenizer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	k := must(l.LoadTokenizer(path))(t)
	t.Cleanup(k.Close)
	return k
}

// streamed decodes ids one by one.
func streamed(t testing.TB, k *rlx.Tokenizer, ids []int32) string {
	t.Helper()
	stream := must(k.NewDecodeStream(true))(t)
	defer stream.Close()
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(must(stream.Put(id))(t))
	}
	return text.String() + must(stream.Finish())(t)
}

// What the Python package tokenizers does with tokenizers of language models: tests/io/language_tokenizers.py.
func TestTokensAreThoseOfTheTokenizersPackage(t *testing.T) {
	l := library(t)
	recorded := golden.JSON[struct {
		Lines  []string
		Groups []struct {
			Name      string
			Tokenizer json.RawMessage
			Cases     []struct {
				IDs     []int32
				Offsets [][2]int
				Text    string
			}
		}
	}](t, "io", "language_tokenizers.json")
	texts := 0
	for _, group := range recorded.Groups {
		k := tokenizerOf(t, l, group.Tokenizer)
		all := must(k.EncodeAll(recorded.Lines, true))(t)
		for i, line := range recorded.Lines {
			wanted := group.Cases[i]
			if ids := must(k.Encode(line, true))(t); !slices.Equal(ids, wanted.IDs) || !slices.Equal(all[i].IDs, wanted.IDs) {
				t.Errorf("%s: %q has the tokens %v, and among others %v, not %v", group.Name, line, ids, all[i].IDs, wanted.IDs)
			}
			if !slices.Equal(all[i].Offsets, wanted.Offsets) {
				t.Errorf("%s: the tokens of %q stand at %v, not at %v", group.Name, line, all[i].Offsets, wanted.Offsets)
			}
			if got := must(k.Decode(wanted.IDs, true))(t); got != wanted.Text {
				t.Errorf("%s: %v reads %q, not %q", group.Name, wanted.IDs, got, wanted.Text)
			}
			if got := streamed(t, k, wanted.IDs); got != wanted.Text {
				t.Errorf("%s: %v reads one by one %q, not %q", group.Name, wanted.IDs, got, wanted.Text)
			}
			texts++
		}
	}
	if texts < 200 {
		t.Errorf("%d texts are too few", texts)
	}
}

// encodingCase is one of tests/io/tokenizer_cases.json; columns of digits are strings there.
type encodingCase struct {
	Texts             []string
	Special           bool
	Fails             *json.RawMessage
	IDs               []int32
	TypeIDs           string `json:"type_ids"`
	AttentionMask     string `json:"attention_mask"`
	SpecialTokensMask string `json:"special_tokens_mask"`
	Tokens            []string
	Words             []int32
	Offsets           []int // null where tokenizers counts otherwise
	Overflowing       []encodingCase
}

func digits(column []int32) string {
	var text strings.Builder
	for _, each := range column {
		fmt.Fprint(&text, each)
	}
	return text.String()
}

// caseOf is an encoding in the form of a case.
func caseOf(e rlx.Encoding, like encodingCase) encodingCase {
	made := encodingCase{Texts: like.Texts, Special: like.Special, IDs: e.IDs, TypeIDs: digits(e.TypeIDs),
		AttentionMask: digits(e.AttentionMask), SpecialTokensMask: digits(e.SpecialTokensMask), Tokens: e.Tokens, Words: e.Words}
	if like.Offsets != nil {
		made.Offsets = []int{}
		for _, each := range e.Offsets {
			made.Offsets = append(made.Offsets, each[0], each[1])
		}
	}
	for i, piece := range e.Overflow {
		if i == len(like.Overflowing) {
			return made // there is one too many, which the comparison finds
		}
		made.Overflowing = append(made.Overflowing, caseOf(piece, like.Overflowing[i]))
	}
	return made
}

// Pairs, truncation, padding: tests/io/tokenizer_cases.py has what the package tokenizers makes of them.
func TestEveryPartOfAnEncodingIsThatOfTheTokenizersPackage(t *testing.T) {
	l := library(t)
	type tokenizerFile = map[string]json.RawMessage
	recorded := golden.JSON[struct {
		Groups []struct {
			Name      string
			Tokenizer tokenizerFile
			Cases     []encodingCase
			VocabSize int `json:"vocab_size"`
			Decoded   []struct {
				IDs  []int32
				Skip bool
				Text string
			}
		}
		Bytes struct {
			Tokenizer tokenizerFile
			Cases     []struct {
				Hex    string
				Tokens []string
			}
		}
	}](t, "io", "tokenizer_cases.json")
	// What a file leaves out is that of the first one.
	whole := recorded.Groups[0].Tokenizer
	fileOf := func(file tokenizerFile) []byte {
		filled := tokenizerFile{}
		for _, each := range []tokenizerFile{whole, file} {
			for key, value := range each {
				filled[key] = value
			}
		}
		var model, wholeModel tokenizerFile
		if err := errors.Join(json.Unmarshal(filled["model"], &model), json.Unmarshal(whole["model"], &wholeModel)); err != nil {
			t.Fatal(err)
		}
		if model["vocab"] == nil {
			model["vocab"] = wholeModel["vocab"]
		}
		filled["model"] = must(json.Marshal(model))(t)
		return must(json.Marshal(filled))(t)
	}
	checked, refused, overflows := 0, 0, 0
	for _, group := range recorded.Groups {
		k := tokenizerOf(t, l, fileOf(group.Tokenizer))
		about := must(k.Describe())(t)
		if about.Vocabulary != group.VocabSize {
			t.Errorf("%s: %d tokens, not %d", group.Name, about.Vocabulary, group.VocabSize)
		}
		if about.Truncation != nil { // set again with the overflow kept, and padding as it was: what is set is what was read
			about.Truncation.KeepOverflow = true
			if err := k.SetTruncation(about.Truncation); err != nil {
				t.Fatal(err)
			}
		}
		if about.Padding != nil {
			if err := errors.Join(k.SetPadding(nil), k.SetPadding(about.Padding)); err != nil {
				t.Fatal(err)
			}
		}
		for _, wanted := range group.Cases {
			var made []rlx.Encoding
			var err error
			if len(wanted.Texts) == 2 {
				made, err = k.EncodePairs([][2]string{{wanted.Texts[0], wanted.Texts[1]}}, wanted.Special)
			} else {
				made, err = k.EncodeAll(wanted.Texts, wanted.Special)
			}
			if wanted.Fails != nil {
				refused++
				if err == nil {
					t.Errorf("%s: %q was taken", group.Name, wanted.Texts)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %q: %v", group.Name, wanted.Texts, err)
			}
			checked, overflows = checked+1, overflows+len(wanted.Overflowing)
			if got := caseOf(made[0], wanted); !reflect.DeepEqual(got, wanted) || len(made[0].Overflow) != len(wanted.Overflowing) {
				t.Errorf("%s: got %+v, not %+v", group.Name, got, wanted)
			}
		}
		for _, wanted := range group.Decoded {
			if got := must(k.Decode(wanted.IDs, wanted.Skip))(t); got != wanted.Text {
				t.Errorf("%s: %v reads %q, not %q", group.Name, wanted.IDs, got, wanted.Text)
			}
		}
	}
	if checked < 500 || refused == 0 || overflows == 0 {
		t.Errorf("%d encodings, %d refusals and %d pieces of overflow are too few", checked, refused, overflows)
	}
	k := tokenizerOf(t, l, fileOf(recorded.Bytes.Tokenizer))
	for _, wanted := range recorded.Bytes.Cases {
		text := must(hex.DecodeString(wanted.Hex))(t)
		if got := must(k.EncodeAll([]string{string(text)}, true))(t)[0].Tokens; !slices.Equal(got, wanted.Tokens) {
			t.Errorf("the bytes %s have the tokens %q, not %q", wanted.Hex, got, wanted.Tokens)
		}
	}
}

func TestTokenizersHaveSettings(t *testing.T) {
	l := library(t)
	k := tokenizerOf(t, l, []byte(golden.Tokenizer(t, []string{"a", "b", "c", "<s>"}, 1, nil)))
	if id, found, err := k.TokenToID("<s>"); id != 3 || !found || err != nil {
		t.Errorf("%d %v: %v", id, found, err)
	}
	if id, found, err := k.TokenToID("none"); found || err != nil {
		t.Errorf("%d %v: %v", id, found, err)
	}
	if _, _, err := k.TokenToID("a\x00b"); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
	if token := must(k.IDToToken(1))(t); token != "b" {
		t.Errorf("got %q", token)
	}
	if _, err := k.IDToToken(4); !errors.Is(err, rlx.NotFound) || !strings.Contains(err.Error(), "no token has the id 4") {
		t.Errorf("got %v", err)
	}
	if text := must(k.Decode([]int32{0, 3, 1}, false))(t); text != "a<s>b" {
		t.Errorf("got %q", text)
	}
	if text := must(k.Decode(nil, true))(t); text != "" {
		t.Errorf("got %q", text)
	}
	if ids := must(k.Encode("", true))(t); len(ids) != 0 {
		t.Errorf("got %v", ids)
	}
	if ids := must(k.Encode("a<s>", true))(t); !slices.Equal(ids, []int32{0, 3}) {
		t.Errorf("got %v", ids)
	}
	if err := k.SetEncodeSpecialTokens(true); err != nil {
		t.Fatal(err)
	}
	if ids := must(k.Encode("a<s>", true))(t); slices.Contains(ids, 3) {
		t.Errorf("got %v", ids)
	}
	if about := must(k.Describe())(t); about.Vocabulary != 4 || about.Truncation != nil || about.Padding != nil {
		t.Errorf("got %+v", about)
	}
	cut := rlx.Truncation{MaxLength: 2, Strategy: "only_first", Side: "left", KeepOverflow: true, Stride: 1}
	filled := rlx.Padding{Length: 5, MultipleOf: 3, Side: "left", ID: 2, TypeID: 1, Token: "c"}
	if err := errors.Join(k.SetTruncation(&cut), k.SetPadding(&filled)); err != nil {
		t.Fatal(err)
	}
	about := must(k.Describe())(t)
	if *about.Truncation != cut || *about.Padding != filled {
		t.Errorf("got %+v %+v", about.Truncation, about.Padding)
	}
	if ids := must(k.Encode("aab", true))(t); !slices.Equal(ids, []int32{2, 2, 2, 2, 0, 1}) {
		t.Errorf("got %v", ids)
	}
	if err := errors.Join(k.SetTruncation(nil), k.SetPadding(&rlx.Padding{Token: "\"\\"})); err != nil {
		t.Fatal(err)
	}
	if about := must(k.Describe())(t); about.Truncation != nil || about.Padding.Token != "\"\\" || about.Padding.Length != 0 {
		t.Errorf("got %+v", about)
	}
	for _, wrong := range []rlx.Truncation{{MaxLength: -1}, {MaxLength: 2, Strategy: "none such"}, {MaxLength: 2, Side: "up"}} {
		if err := k.SetTruncation(&wrong); err == nil {
			t.Errorf("%+v was taken", wrong)
		}
	}
	if err := k.SetPadding(&rlx.Padding{ID: -1}); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
}

func TestTokenizersThatAreNotThere(t *testing.T) {
	l := library(t)
	if _, err := l.LoadTokenizer("/nowhere/at/all"); !errors.Is(err, rlx.NotFound) || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, []byte(`{"model": `), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.LoadTokenizer(path); !errors.Is(err, rlx.ParseError) {
		t.Errorf("got %v", err)
	}
}

// Of all-MiniLM-L6-v2 the lines of tests/golden/tokenizer, and the encoder's own tokenizer.
func TestAnEncoderHasATokenizer(t *testing.T) {
	l := library(t)
	cache := os.Getenv("RLX_CACHE")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache", "rlx")
	}
	folder := filepath.Join(cache, "all-MiniLM-L6-v2")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("needs %s, which scripts/fetch_minilm.py fetches", folder)
	}
	encoder := must(l.LoadEncoder(folder, ""))(t)
	k := must(encoder.Tokenizer())(t)
	encoder.Close()
	if err := errors.Join(k.SetTruncation(nil), k.SetPadding(nil)); err != nil {
		t.Fatal(err)
	}
	text, recorded := must(os.ReadFile(golden.Path(t, "golden", "tokenizer", "lines.txt")))(t), must(os.ReadFile(golden.Path(t, "golden", "tokenizer", "ids.jsonl")))(t)
	lines, rows := strings.Split(string(text), "\n"), strings.Split(string(recorded), "\n")
	for i, line := range lines[:1000] {
		var wanted []int32
		if err := json.Unmarshal([]byte(rows[i]), &wanted); err != nil {
			t.Fatal(err)
		}
		if got := must(k.Encode(line, true))(t); !slices.Equal(got, wanted) {
			t.Errorf("line %d: %v, not %v", i, got, wanted)
		}
	}
}
