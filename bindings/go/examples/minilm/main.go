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
	var rows [][]float32
	if err == nil {
		rows, err = embed(os.Args[1], append([]string{os.Args[2]}, lines...))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	likeness := map[string]float32{}
	for i, line := range lines {
		for k, x := range rows[0] {
			likeness[line] += x * rows[i+1][k]
		}
	}
	sort.SliceStable(lines, func(i, k int) bool { return likeness[lines[i]] > likeness[lines[k]] })
	for _, line := range lines {
		fmt.Printf("%.3f  %s\n", likeness[line], line)
	}
}
