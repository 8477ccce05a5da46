package main

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is where tests/golden/generate/embeddings.py has put sentences and what PyTorch makes of them.
const golden = "../../../../tests/golden/embeddings"

func TestEmbeddingsArePyTorchs(t *testing.T) {
	cache := os.Getenv("RLX_CACHE")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache", "rlx")
	}
	folder := filepath.Join(cache, "all-MiniLM-L6-v2")
	if _, err := os.Stat(folder); err != nil || os.Getenv("RLX_LIBRARY") == "" {
		t.Skipf("needs RLX_LIBRARY and %s, which scripts/fetch_minilm.py fetches", folder)
	}
	text, err := os.ReadFile(filepath.Join(golden, "sentences.txt"))
	if err != nil {
		t.Fatal(err)
	}
	array, err := os.ReadFile(filepath.Join(golden, "embeddings.npy"))
	if err != nil {
		t.Fatal(err)
	}
	const count, width = 40, 384
	sentences := strings.Split(string(text), "\n")[:count]
	rows, err := embed(folder, sentences...)
	if err != nil {
		t.Fatal(err)
	}
	// A .npy file of version 1: ten bytes, of which the last two say how long the header behind them is; then f32.
	expected := array[10+int(binary.LittleEndian.Uint16(array[8:])):]
	largest := 0.0
	for i, row := range rows {
		if len(row) != width {
			t.Fatalf("a row has %d elements, PyTorch's have %d", len(row), width)
		}
		for k, got := range row {
			want := math.Float32frombits(binary.LittleEndian.Uint32(expected[4*(i*width+k):]))
			largest = max(largest, math.Abs(float64(got-want)))
		}
	}
	t.Logf("%d sentences differ by %.1e from PyTorch's at most", count, largest)
	if !(largest <= 1e-5) {
		t.Errorf("a difference of %g", largest)
	}
}
