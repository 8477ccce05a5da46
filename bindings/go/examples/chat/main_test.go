package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

// last is a template that gives the last message alone: what the model goes on with is then what transformers went on with.
const last = "{{ messages[-1].content }}"

// all is one that gives each message behind a letter for who speaks.
const all = "{% for m in messages %}{{ m.role[0] | upper }}{{ m.content }}{% endfor %}"

func modelFolder(t *testing.T, template string) string {
	t.Helper()
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	l, err := rlx.New(rlx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.ParseChatTemplate("x"); errors.Is(err, rlx.Unsupported) {
		t.Skip("the library was built without chat templates")
	}
	return golden.Model(t, "llama3", map[string]string{"tokenizer.json": golden.LettersTokenizer(t), "chat_template.jinja": template})
}

// chat gives what the program prints.
func chat(t *testing.T, lines string, arguments ...string) string {
	t.Helper()
	var to strings.Builder
	if err := run(arguments, strings.NewReader(lines), &to); err != nil {
		t.Fatal(err)
	}
	return to.String()
}

func TestAnswersAreThoseOfTransformers(t *testing.T) {
	folder, wanted := modelFolder(t, last), golden.Greedy(t)["llama3"]
	question := golden.InLetters(wanted.Prompt)
	got := chat(t, question+"\n\n"+question+"\n/reset\n"+question, "-temperature", "0", "-max-tokens", "40", "-system", "AB", folder)
	if answer := wanted.Written() + "\n"; got != answer+answer+answer {
		t.Errorf("%q, not three times %q", got, answer)
	}
	if got := chat(t, "", folder); got != "" {
		t.Errorf("without lines %q", got)
	}
}

func TestTheConversationIsKept(t *testing.T) {
	folder := modelFolder(t, all)
	l, err := rlx.New(rlx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model, err := l.LoadLanguageModel(folder, "", rlx.LanguageModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	writer, err := model.NewGenerator(rlx.GenerateOptions{Temperature: new(3.0), Seed: 7, MaxTokens: 9})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	wanted, conversation := "", "SB"
	for range 3 {
		conversation += "UDE"
		prompt, err := model.Prompt(conversation, rlx.PromptTemplated)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := rlx.Text(writer.Stream(t.Context(), prompt))
		if err != nil {
			t.Fatal(err)
		}
		wanted, conversation = wanted+answer+"\n", conversation+"A"+answer
	}
	got := chat(t, "DE\nDE\nDE\n/reset\nDE\nDE\nDE\n", "-temperature", "3", "-seed", "7", "-max-tokens", "9", "-system", "B", folder)
	if got != wanted+wanted {
		t.Errorf("%q, not twice %q", got, wanted)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	folder := modelFolder(t, "{{ raise_exception('never') }}")
	for message, arguments := range map[string][]string{
		"usage: chat": {}, "-max-tokens": {"-none", folder}, "no such folder": {"/nowhere/at/all"}, "warp": {"-device", "warp", folder},
		"max_tokens is -1": {"-max-tokens", "-1", folder}, "never": {folder}, "no/such": {"-lora", "no/such", folder},
	} {
		err := run(arguments, strings.NewReader("ABC\n"), &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%q: %v", arguments, err)
		}
	}
}
