// Package golden has for tests what others made of the models in tests/golden of the repository: logits and greedy texts of
// the Python package transformers. A test that lies outside of the repository is skipped, visibly.
package golden

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Letters are a token each of [LettersTokenizer]; the models have as many tokens.
const Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmno"

// StopID is the token that ends a text of these models.
const StopID = 2

// Path is that of a file below tests/ of the repository.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for folder := here; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		if tests := filepath.Join(folder, "tests", "golden"); isFolder(tests) {
			return filepath.Join(append([]string{folder, "tests"}, parts...)...)
		}
	}
	t.Skip("the package lies outside of its repository")
	return ""
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// JSON reads a file below tests/.
func JSON[T any](t testing.TB, parts ...string) T {
	t.Helper()
	var all T
	text, err := os.ReadFile(Path(t, parts...))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatalf("%s: %v", filepath.Join(parts...), err)
	}
	return all
}

// Floats are the elements of an .npy file of version 1 with f32: ten bytes, of which the last two say how long the header
// behind them is, then the elements.
func Floats(t testing.TB, parts ...string) []float32 {
	t.Helper()
	bytes, err := os.ReadFile(Path(t, parts...))
	if err != nil {
		t.Fatal(err)
	}
	bytes = bytes[10+int(binary.LittleEndian.Uint16(bytes[8:])):]
	all := make([]float32, len(bytes)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))
	}
	return all
}

// Text is a prompt and how transformers goes on with it, the likeliest token each time.
type Text struct {
	Prompt, Tokens []int32
}

// Written is the text of the tokens by [LettersTokenizer], without the token that ends it.
func (g Text) Written() string { return InLetters(g.Tokens) }

// Ended says whether the text ended by itself.
func (g Text) Ended() bool { return g.Tokens[len(g.Tokens)-1] == StopID }

// InLetters are tokens as text, up to the one that ends it.
func InLetters(tokens []int32) string {
	var text strings.Builder
	for i, id := range tokens {
		if id == StopID && i == len(tokens)-1 {
			break
		}
		text.WriteByte(Letters[id])
	}
	return text.String()
}

// Greedy are such texts of all models by their names.
func Greedy(t testing.TB) map[string]Text {
	t.Helper()
	return JSON[map[string]Text](t, "golden", "generation", "greedy.json")
}

// Model copies a model of tests/golden/language_models into a folder of the test, and adds files by their names.
func Model(t testing.TB, name string, files map[string]string) string {
	t.Helper()
	from, to := Path(t, "golden", "language_models", name), filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(to, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// LettersTokenizer is a tokenizer.json with a letter for each token.
func LettersTokenizer(t testing.TB) string { return Tokenizer(t, strings.Split(Letters, ""), 0, nil) }

// Tokenizer is a tokenizer.json that has these tokens, of which the last `special` are special ones; `more` replaces what
// else is in it.
func Tokenizer(t testing.TB, tokens []string, special int, more map[string]any) string {
	t.Helper()
	vocabulary, added := map[string]int{}, []any{}
	for id, token := range tokens {
		vocabulary[token] = id
		if id >= len(tokens)-special {
			added = append(added, map[string]any{"id": id, "content": token, "special": true, "single_word": false,
				"lstrip": false, "rstrip": false, "normalized": false})
		}
	}
	file := map[string]any{"version": "1.0", "added_tokens": added, "normalizer": nil, "pre_tokenizer": nil,
		"post_processor": nil, "decoder": map[string]any{"type": "Fuse"},
		"model": map[string]any{"type": "BPE", "vocab": vocabulary, "merges": []string{}}}
	for name, value := range more {
		if name == "model" {
			for name, value := range value.(map[string]any) {
				file["model"].(map[string]any)[name] = value
			}
			continue
		}
		file[name] = value
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
