package rlx

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// Message is one turn of a conversation.
type Message struct {
	// Role of who speaks: "system", "user", "assistant", or what else the template knows.
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ChatOptions are what a template sees beside the messages, and what it may take; the zero value is the default.
type ChatOptions struct {
	// AddGenerationPrompt ends the text with what begins the assistant's answer.
	AddGenerationPrompt bool
	// BOSToken and EOSToken are the texts of the tokens that begin and end a text; "" for those of the template's file.
	BOSToken, EOSToken string
	// Tools are function schemas, and Documents texts to answer from: anything that encoding/json writes as an object.
	Tools, Documents []any
	// Variables are what else the template knows: {"enable_thinking": false}.
	Variables map[string]any
	// Now is the time that a template tells, by the clock of its location; the zero value is the time of the call, by the
	// clock of the machine.
	Now time.Time
	// MostSteps of the template's program, and MostBytes of the values that it makes, above which it fails with
	// [OutOfMemory]; 0 for 20 million and for 256 MiB plus 100 for each byte of the conversation.
	MostSteps, MostBytes int64
}

func (o ChatOptions) json() ([]byte, error) {
	all := map[string]any{"add_generation_prompt": o.AddGenerationPrompt}
	put := func(name string, given bool, value any) {
		if given {
			all[name] = value
		}
	}
	put("bos_token", o.BOSToken != "", o.BOSToken)
	put("eos_token", o.EOSToken != "", o.EOSToken)
	put("tools", o.Tools != nil, o.Tools)
	put("documents", o.Documents != nil, o.Documents)
	put("variables", o.Variables != nil, o.Variables)
	put("most_steps", o.MostSteps != 0, o.MostSteps)
	put("most_bytes", o.MostBytes != 0, o.MostBytes)
	if !o.Now.IsZero() {
		_, offset := o.Now.Zone()
		all["now"] = o.Now.Unix() + int64(offset)
	}
	return json.Marshal(all)
}

// ChatTemplate makes of a conversation the text that a model goes on with: the Jinja text in the model's files, as the
// Python package transformers applies it.
type ChatTemplate struct {
	handle
	lib *Library
}

func (l *Library) chatTemplateFrom(call func(made, e *unsafe.Pointer) int32) (*ChatTemplate, error) {
	made, err := l.made(call)
	if err != nil {
		return nil, err
	}
	t := &ChatTemplate{lib: l}
	own(t, &t.handle, made, l.c.ChatTemplateFree)
	return t, nil
}

// ParseChatTemplate reads Jinja text. Fails with [ParseError], naming the line, for what is none, and with [Unsupported]
// if the library was built without templates.
func (l *Library) ParseChatTemplate(text string) (*ChatTemplate, error) {
	return l.chatTemplateFrom(func(made, e *unsafe.Pointer) int32 {
		return l.c.ChatTemplateParse(placeOf(bytesOfText(text)), uintptr(len(text)), made, e)
	})
}

// LoadChatTemplate reads that of a model folder, of its chat_template.jinja, chat_template.json or tokenizer_config.json,
// or of a .gguf file. Fails with [NotFound] if there is none.
func (l *Library) LoadChatTemplate(path string) (*ChatTemplate, error) {
	return l.chatTemplateFrom(func(made, e *unsafe.Pointer) int32 { return l.c.ChatTemplateLoad(path, made, e) })
}

// ChatTemplateDescription is what a template says of itself.
type ChatTemplateDescription struct {
	// Text is the Jinja text.
	Text string `json:"text"`
	// BOSToken and EOSToken are those that its file names, or "".
	BOSToken string `json:"bos_token"`
	EOSToken string `json:"eos_token"`
}

// Describe tells the text of the template and the tokens of its file.
func (t *ChatTemplate) Describe() (ChatTemplateDescription, error) {
	defer runtime.KeepAlive(t)
	return described[ChatTemplateDescription](t.lib, func(text, e *unsafe.Pointer) int32 {
		return t.lib.c.ChatTemplateDescribe(t.pointerOf(), text, e)
	})
}

// described reads JSON that the library makes.
func described[T any](l *Library, call func(text, e *unsafe.Pointer) int32) (T, error) {
	var all T
	text, err := l.madeText(call)
	if err == nil {
		err = json.Unmarshal([]byte(text), &all)
	}
	return all, err
}

// Apply gives the conversation as text, in which special tokens stand already: [LanguageModel.Prompt] takes it as
// [PromptTemplated]. `messages` is a []Message, or whatever else encoding/json writes as a list of objects, for contents of
// several parts and for tool calls; a json.RawMessage keeps the order of keys. Fails with [InvalidArgument] if the template
// refuses the conversation.
func (t *ChatTemplate) Apply(messages any, options ChatOptions) (string, error) {
	defer runtime.KeepAlive(t)
	conversation, err := json.Marshal(messages)
	if err != nil {
		return "", &Error{Status: InvalidArgument, Message: fmt.Sprintf("the messages cannot be written as JSON: %v", err)}
	}
	settings, err := options.json()
	if err != nil {
		return "", &Error{Status: InvalidArgument, Message: fmt.Sprintf("the chat options cannot be written as JSON: %v", err)}
	}
	return t.lib.madeSizedText(func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32 {
		return t.lib.c.ChatTemplateApply(t.pointerOf(), string(conversation), string(settings), text, size, e)
	})
}
