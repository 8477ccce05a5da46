package main

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"rlx.invalid/go/gomlx"
)

// idx writes an idx file of bytes.
func idx(t *testing.T, path string, content []byte, dims ...int) string {
	t.Helper()
	all := []byte{0, 0, 8, byte(len(dims))}
	for _, each := range dims {
		all = binary.BigEndian.AppendUint32(all, uint32(each))
	}
	if err := os.WriteFile(path, append(all, content...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDigitsThatWereNotSeenAreTold(t *testing.T) {
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	backend, err := gomlx.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Finalize()
	// Not MNIST's: digit k is a bright bar in row k, moved by chance, in noise.
	draw := rand.New(rand.NewPCG(1, 2))
	folder, paths := t.TempDir(), []string{}
	for _, count := range []int{2000, 300} {
		images, labels := make([]byte, count*10*12), make([]byte, count)
		for i := range count {
			labels[i] = byte(draw.IntN(10))
			for k := range 120 {
				images[120*i+k] = byte(draw.IntN(100))
			}
			for k := range 6 {
				images[120*i+12*int(labels[i])+draw.IntN(6)+k] = 220
			}
		}
		name := filepath.Join(folder, string(rune('a'+len(paths))))
		paths = append(paths, idx(t, name, images, count, 10, 12), idx(t, name+"l", labels, count))
	}
	told, err := accuracy(backend, paths, 300)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.3f of them", told)
	if told < 0.97 {
		t.Errorf("%.3f of the digits are told", told)
	}
	if _, err := accuracy(backend, []string{paths[1], paths[1], paths[2], paths[3]}, 1); err == nil {
		t.Error("labels were taken for images")
	}
}
