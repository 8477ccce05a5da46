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

// onCoreML says of each op whether its sample compiles for Core ML, or why not.
func onCoreML(t *testing.T) func(op compute.OpType) string {
	refused := refusedOn(t, backend(t, "coreml"))
	return func(op compute.OpType) string {
		why, no := refused[op]
		if !no {
			return "yes"
		}
		if found := missing.FindStringSubmatch(why); found != nil {
			why = found[2]
		}
		return "no: " + strings.ReplaceAll(strings.Join(strings.Fields(why), " "), "|", "\\|")
	}
}

// TestTheDocumentHasTheTableOfOps compares docs/gomlx.md with the capabilities, and with what Core ML takes; RLX_UPDATE=1
// writes it.
func TestTheDocumentHasTheTableOfOps(t *testing.T) {
	const path, mark = "../../../docs/gomlx.md", "| op of GoMLX | how |"
	coreml := onCoreML(t)
	given, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the package lies outside of its repository: %v", err)
	}
	before, _, found := strings.Cut(string(given), mark)
	if !found {
		t.Fatalf("%s has no line %q", path, mark)
	}
	var table strings.Builder
	table.WriteString(before + mark + " by the ops of RLX | Core ML |\n| --- | --- | --- | --- |\n")
	for _, ops := range []map[compute.OpType]how{standardOps, fusedOps} {
		byName := map[string]compute.OpType{}
		for op := range ops {
			byName[op.String()] = op
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			kind, op := "one op", byName[name]
			if ops[op].Composed {
				kind = "composed"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", name, kind, ops[op].By, coreml(op))
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
