package gomlx

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
)

// TestTheDocumentHasTheTableOfOps compares docs/gomlx.md with the capabilities; RLX_UPDATE=1 writes it.
func TestTheDocumentHasTheTableOfOps(t *testing.T) {
	const path, mark = "../../../docs/gomlx.md", "| op of GoMLX | how |"
	given, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the package lies outside of its repository: %v", err)
	}
	before, _, found := strings.Cut(string(given), mark)
	if !found {
		t.Fatalf("%s has no line %q", path, mark)
	}
	var table strings.Builder
	table.WriteString(before + mark + " by the ops of RLX |\n| --- | --- | --- |\n")
	for _, ops := range []map[compute.OpType]how{standardOps, fusedOps} {
		byName := map[string]how{}
		for op, by := range ops {
			byName[op.String()] = by
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			kind := "one op"
			if byName[name].Composed {
				kind = "composed"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", name, kind, byName[name].By)
		}
	}
	if table.String() == string(given) {
		return
	}
	if os.Getenv("RLX_UPDATE") == "" {
		t.Fatalf("the table of %s is not that of the capabilities; RLX_UPDATE=1 go test -run Document writes it", path)
	}
	if err := os.WriteFile(path, []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
