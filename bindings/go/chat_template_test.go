package rlx_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	rlx "rlx.invalid/go"
	"rlx.invalid/go/internal/golden"
)

// withTemplates skips a test where the library was built without chat templates.
func withTemplates(t testing.TB) *rlx.Library {
	t.Helper()
	l := library(t)
	template, err := l.ParseChatTemplate("x")
	if errors.Is(err, rlx.Unsupported) {
		t.Skip("the library was built without chat templates")
	}
	if err != nil {
		t.Fatal(err)
	}
	template.Close()
	return l
}

// keys are those of a JSON object in the order of its text.
func keys(t testing.TB, object json.RawMessage) []string {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(object))
	must(decoder.Token())(t)
	var all []string
	for decoder.More() {
		all = append(all, must(decoder.Token())(t).(string))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// Conversations by the Python package transformers: scripts/judge_chat_templates.py.
func TestConversationsAreThoseOfTransformers(t *testing.T) {
	l := withTemplates(t)
	recorded := golden.JSON[struct {
		Now           [6]int
		BOSToken      string `json:"bos_token"`
		EOSToken      string `json:"eos_token"`
		Conversations json.RawMessage
		Expected      map[string][]*string
	}](t, "io", "chat_templates", "expected.json")
	now := recorded.Now
	titles := keys(t, recorded.Conversations)
	var conversations map[string]map[string]json.RawMessage
	if err := json.Unmarshal(recorded.Conversations, &conversations); err != nil {
		t.Fatal(err)
	}
	texts, refusals := 0, 0
	for name, wanted := range recorded.Expected {
		template := must(l.ParseChatTemplate(string(must(os.ReadFile(golden.Path(t, "io", "chat_templates", name)))(t))))(t)
		for i, title := range titles {
			for k, prompt := range []bool{false, true} {
				options := rlx.ChatOptions{AddGenerationPrompt: prompt, BOSToken: recorded.BOSToken, EOSToken: recorded.EOSToken,
					Variables: map[string]any{},
					// By the clock of a place that is five hours behind.
					Now: time.Date(now[0], time.Month(now[1]), now[2], now[3], now[4], now[5], 0, time.FixedZone("", -5*3600))}
				for key, value := range conversations[title] {
					switch key {
					case "messages":
					case "tools":
						options.Tools = listOf(t, value)
					case "documents":
						options.Documents = listOf(t, value)
					default:
						options.Variables[key] = value
					}
				}
				got, err := template.Apply(conversations[title]["messages"], options)
				switch text := wanted[2*i+k]; {
				case text == nil:
					refusals++
					if !errors.Is(err, rlx.InvalidArgument) {
						t.Errorf("%s, %s: %q, %v", name, title, got, err)
					}
				case err != nil || got != *text:
					t.Errorf("%s, %s: %q and not %q: %v", name, title, got, *text, err)
				default:
					texts++
				}
			}
		}
	}
	if texts < 150 || refusals < 10 {
		t.Errorf("%d texts and %d refusals are too few", texts, refusals)
	}
}

// listOf are the items of a JSON list as they stand there; nil of null.
func listOf(t testing.TB, list json.RawMessage) []any {
	t.Helper()
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		t.Fatal(err)
	}
	if items == nil {
		return nil
	}
	all := []any{}
	for _, each := range items {
		all = append(all, each)
	}
	return all
}

func TestMessagesAreStructsOrMaps(t *testing.T) {
	l := withTemplates(t)
	template := must(l.ParseChatTemplate("{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}{{ more }}{{ tools or '' }}"))(t)
	if about := must(template.Describe())(t); !strings.HasPrefix(about.Text, "{% for m") || about.BOSToken != "" {
		t.Errorf("got %+v", about)
	}
	wanted := "user:<a> & \"b\" é\u2028|"
	for _, messages := range []any{
		[]rlx.Message{{Role: "user", Content: "<a> & \"b\" é\u2028"}},
		[]map[string]any{{"role": "user", "content": "<a> & \"b\" é\u2028"}},
	} {
		if got := must(template.Apply(messages, rlx.ChatOptions{}))(t); got != wanted {
			t.Errorf("got %q", got)
		}
	}
	options := rlx.ChatOptions{Variables: map[string]any{"more": 7}, Tools: []any{struct{ Name string }{"add"}}}
	if got := must(template.Apply([]rlx.Message{}, options))(t); got != "7[{'Name': 'add'}]" {
		t.Errorf("got %q", got)
	}
	if _, err := template.Apply([]any{func() {}}, rlx.ChatOptions{}); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "messages") {
		t.Errorf("got %v", err)
	}
	if _, err := template.Apply("no list", rlx.ChatOptions{}); err == nil {
		t.Error("a text was taken for messages")
	}
	if _, err := template.Apply([]rlx.Message{}, rlx.ChatOptions{Variables: map[string]any{"a": func() {}}}); !errors.Is(err, rlx.InvalidArgument) {
		t.Errorf("got %v", err)
	}
	if _, err := template.Apply(make([]rlx.Message, 1000), rlx.ChatOptions{MostSteps: 100}); !errors.Is(err, rlx.OutOfMemory) {
		t.Errorf("got %v", err)
	}
	if _, err := l.ParseChatTemplate("one\n{% if %}"); !errors.Is(err, rlx.ParseError) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v", err)
	}
	if _, err := l.LoadChatTemplate("/nowhere"); !errors.Is(err, rlx.NotFound) {
		t.Errorf("got %v", err)
	}
	refusing := must(l.ParseChatTemplate("{{ raise_exception('never') }}"))(t)
	if _, err := refusing.Apply([]rlx.Message{}, rlx.ChatOptions{}); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "never") {
		t.Errorf("got %v", err)
	}
	empty := must(l.ParseChatTemplate(""))(t)
	if got := must(empty.Apply([]rlx.Message{}, rlx.ChatOptions{}))(t); got != "" {
		t.Errorf("got %q", got)
	}
}

const turns = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}{{ 'F' if loud else '' }}{% if add_generation_prompt %}a:{% endif %}"

func TestAModelHasAChatTemplate(t *testing.T) {
	l := withTemplates(t)
	letters := strings.Split("abcdefghijklmnopqrstuvwxyzéABCDEF .\n:|", "")
	tokens := append(slices.Clone(letters), "<s>", "<unk>", "</s>")
	folder := golden.Model(t, "gpt2", map[string]string{"tokenizer.json": golden.Tokenizer(t, tokens, 3, nil), "chat_template.jinja": turns})
	m := must(l.LoadLanguageModel(folder, "cpu", rlx.LanguageModelOptions{}))(t)
	defer m.Close()
	ids := func(text string) []int32 {
		var all []int32
		for _, r := range text {
			all = append(all, int32(slices.Index(letters, string(r))))
		}
		return all
	}
	messages := []rlx.Message{{Role: "user", Content: "abc"}}
	if got := must(m.ChatPrompt(messages, rlx.ChatOptions{}))(t); !slices.Equal(got, ids("u:abc|a:")) {
		t.Errorf("got %v", got)
	}
	if got := must(m.ChatPrompt(messages, rlx.ChatOptions{Variables: map[string]any{"loud": true}}))(t); !slices.Equal(got, ids("u:abc|Fa:")) {
		t.Errorf("got %v", got)
	}
	template := must(m.ChatTemplate())(t)
	if got := must(template.Apply(messages, rlx.ChatOptions{}))(t); got != "u:abc|" {
		t.Errorf("got %q", got)
	}
	// Special tokens of a prompt: as they come, as text, or as a template wrote them.
	for kind, wanted := range map[rlx.PromptKind]bool{rlx.PromptText: true, rlx.PromptPlain: false, rlx.PromptTemplated: true} {
		if got := must(m.Prompt("ab</s>", kind))(t); slices.Contains(got, 40) != wanted || got[1] != 1 {
			t.Errorf("kind %d: %v", kind, got)
		}
	}
	if _, err := m.Prompt("a", 3); !errors.Is(err, rlx.InvalidArgument) || !strings.Contains(err.Error(), "kind is 3") {
		t.Errorf("got %v", err)
	}
	if got := must(m.Prompt("", rlx.PromptText))(t); !slices.Equal(got, []int32{1}) { // bos_token_id of its config.json
		t.Errorf("got %v", got)
	}
	bare := must(l.LoadLanguageModel(golden.Path(t, "golden", "language_models", "gpt2"), "cpu", rlx.LanguageModelOptions{}))(t)
	if _, err := bare.ChatPrompt(messages, rlx.ChatOptions{}); !errors.Is(err, rlx.NotFound) || !strings.Contains(err.Error(), "no chat template") {
		t.Errorf("got %v", err)
	}
}
