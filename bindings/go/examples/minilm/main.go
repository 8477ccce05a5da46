// Minilm says how near texts are to the first of them: go run ./examples/minilm FOLDER "a question" "a text" ...
package main

import (
	"fmt"
	"log"
	"os"
	"slices"

	rlx "rlx.invalid/go"
)

// embed gives a row of unit length for each text, by all-MiniLM-L6-v2 or another model that LoadEncoder takes.
func embed(folder string, texts ...string) ([][]float32, error) {
	library, err := rlx.New(rlx.Options{})
	if err != nil {
		return nil, err
	}
	encoder, err := library.LoadEncoder(folder, "")
	if err != nil {
		return nil, err
	}
	made, err := encoder.Embed(texts...)
	if err != nil {
		return nil, err
	}
	all, err := rlx.Data[float32](made)
	return slices.Collect(slices.Chunk(slices.Clone(all), made.Dims()[1])), err
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: minilm FOLDER QUESTION TEXT...")
	}
	rows, err := embed(os.Args[1], os.Args[2:]...)
	if err != nil {
		log.Fatal(err)
	}
	for i, row := range rows {
		likeness := float32(0)
		for k, x := range row {
			likeness += x * rows[0][k]
		}
		fmt.Printf("%.3f  %s\n", likeness, os.Args[2+i])
	}
}
