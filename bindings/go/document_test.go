package rlx_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

func answer(ctx context.Context, library *rlx.Library, path, question string, to io.Writer) error {
	model, err := library.LoadLanguageModel(path, "", rlx.LanguageModelOptions{})
	if err != nil {
		return err
	}
	defer model.Close()
	messages := []rlx.Message{{Role: "user", Content: question}}
	prompt, err := model.ChatPrompt(messages, rlx.ChatOptions{})
	if err != nil {
		return err
	}
	options := rlx.GenerateOptions{MaxTokens: 40, Temperature: new(0.0)}
	for piece, err := range model.Stream(ctx, prompt, options) {
		if err != nil {
			return err
		}
		fmt.Fprint(to, piece)
	}
	return nil
}

// The function above stands in docs/go.md, where it is told of.
func TestTheDocumentsCodeIsThatOfThisFile(t *testing.T) {
	document, err := os.ReadFile(golden.Path(t, "..", "docs", "go.md"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("document_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for i, part := range strings.Split(string(document), "```go\n") {
		code, _, _ := strings.Cut(part, "```")
		if i == 0 || strings.HasPrefix(code, "package main\n") { // which scripts/go_module.py builds and runs
			continue
		}
		blocks++
		if !strings.Contains(string(here), code) {
			t.Errorf("docs/go.md has other code:\n%s", code)
		}
	}
	if blocks == 0 {
		t.Error("docs/go.md has none of it")
	}
}

func TestTheDocumentsCodeAnswersAsTransformersDoes(t *testing.T) {
	l := withTemplates(t)
	wanted := golden.Greedy(t)["llama3"]
	folder := golden.Model(t, "llama3", map[string]string{"tokenizer.json": golden.LettersTokenizer(t),
		"chat_template.jinja": "{{ messages[0].content }}"})
	var to strings.Builder
	if err := answer(t.Context(), l, folder, golden.InLetters(wanted.Prompt), &to); err != nil || to.String() != wanted.Written() {
		t.Errorf("%q, not %q: %v", to.String(), wanted.Written(), err)
	}
}
