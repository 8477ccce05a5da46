// Chat keeps a conversation with a language model: each line of standard input is a turn, the answer comes as it is
// written, an interrupt (Ctrl-C) ends the answer, /reset begins anew, and the end of the input ends:
//
//	go run ./examples/chat -system "Be brief." MODEL
//
// MODEL is a folder with config.json, safetensors, a tokenizer and a chat template, or a .gguf file.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	rlx "rlx.invalid/go"
)

// turns are the lines of a conversation, and what it is held with.
type turns struct {
	model  *rlx.LanguageModel
	writer *rlx.Generator // keeps what it read: of the conversation only what is new is read with each turn
	system string
}

// answer writes what the model answers to a conversation, and gives it; an interrupt ends it.
func (t turns) answer(messages []rlx.Message, to io.Writer) (string, error) {
	prompt, err := t.model.ChatPrompt(messages, rlx.ChatOptions{})
	if err != nil {
		return "", err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var said strings.Builder
	for piece, err := range t.writer.Stream(ctx, prompt) {
		if err != nil {
			if errors.Is(ctx.Err(), context.Canceled) {
				break // what was said until then stands in the conversation
			}
			return "", err
		}
		said.WriteString(piece)
		fmt.Fprint(to, piece)
	}
	fmt.Fprintln(to)
	return said.String(), nil
}

// hold answers each line of `from`.
func (t turns) hold(from io.Reader, to io.Writer) error {
	begin := func() []rlx.Message {
		if t.system == "" {
			return nil
		}
		return []rlx.Message{{Role: "system", Content: t.system}}
	}
	messages, lines := begin(), bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		switch line := lines.Text(); line {
		case "":
		case "/reset":
			messages = begin()
			if err := t.writer.Reset(); err != nil {
				return err
			}
		default:
			messages = append(messages, rlx.Message{Role: "user", Content: line})
			said, err := t.answer(messages, to)
			if err != nil {
				return err
			}
			messages = append(messages, rlx.Message{Role: "assistant", Content: said})
		}
	}
	return lines.Err()
}

func run(arguments []string, from io.Reader, to io.Writer) error {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // what is wrong comes as an error
	device := flags.String("device", "", "as rlx devices names it")
	lora := flags.String("lora", "", "a low-rank adapter beside the model")
	system := flags.String("system", "", "what the model is told first")
	length := flags.Int("context", 0, "the most tokens of the conversation; 0: what the model promises")
	var options rlx.GenerateOptions
	flags.IntVar(&options.MaxTokens, "max-tokens", 512, "the most tokens of an answer")
	flags.Int64Var(&options.Seed, "seed", 0, "of the random numbers")
	temperature := flags.Float64("temperature", -1, "0: the likeliest token; less than 0: as the model advises")
	if err := flags.Parse(arguments); err != nil || flags.NArg() != 1 {
		var usage strings.Builder
		flags.SetOutput(&usage)
		flags.PrintDefaults()
		return fmt.Errorf("usage: chat [OPTIONS] MODEL\n%s", usage.String())
	}
	if *temperature >= 0 {
		options.Temperature = temperature
	}
	library, err := rlx.New(rlx.Options{})
	if err != nil {
		return err
	}
	loading := rlx.LanguageModelOptions{Context: *length}
	if *lora != "" {
		loading.Adapters = []string{*lora}
	}
	model, err := library.LoadLanguageModel(flags.Arg(0), *device, loading)
	if err != nil {
		return err
	}
	defer model.Close()
	writer, err := model.NewGenerator(options)
	if err != nil {
		return err
	}
	defer writer.Close()
	return turns{model: model, writer: writer, system: *system}.hold(from, to)
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
