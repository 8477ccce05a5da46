// Minilm orders lines of standard input by how near their meaning is to a question:
//
//	go run ./examples/minilm FOLDER "a question" <lines.txt
//
// FOLDER is that of all-MiniLM-L6-v2 or of another model that LoadEncoder takes.
package main

import (
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	rlx "rlx.invalid/go"
)

// embed gives a row of unit length for each text.
func embed(folder string, texts []string) ([][]float32, error) {
	library, err := rlx.New(rlx.Options{})
	if err != nil {
		return nil, err
	}
	encoder, err := library.LoadEncoder(folder, "")
	if err != nil {
		return nil, err
	}
	defer encoder.Close()
	made, err := encoder.Embed(texts...)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	shared, err := rlx.Data[float32](made)
	if err != nil {
		return nil, err
	}
	rows, width := make([][]float32, len(texts)), made.Dims()[1]
	for i := range rows {
		rows[i] = append(rows[i], shared[i*width:][:width]...)
	}
	return rows, nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: minilm FOLDER QUESTION <LINES")
		os.Exit(2)
	}
	given, err := io.ReadAll(os.Stdin)
	lines := strings.Split(strings.TrimSpace(string(given)), "\n")
	if err == nil && lines[0] == "" {
		return // no lines, nothing to order
	}
	var rows [][]float32
	if err == nil {
		rows, err = embed(os.Args[1], append([]string{os.Args[2]}, lines...))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	type scored struct {
		line     string
		likeness float32
	}
	all := make([]scored, len(lines))
	for i, line := range lines {
		all[i].line = line
		for k, x := range rows[0] {
			all[i].likeness += x * rows[i+1][k]
		}
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].likeness > all[k].likeness })
	for _, each := range all {
		fmt.Printf("%.3f  %s\n", each.likeness, each.line)
	}
}
