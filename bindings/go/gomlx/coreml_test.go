package gomlx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/support/backendtest"
)

// coremlConfigs are the configurations in which compute's conformance suite runs as ML Programs.
var coremlConfigs = []string{"coreml", "coreml,narrow"}

const (
	coremlCases    = "testdata/coreml.json" // by configuration: the cases that cannot be, and why
	casesVariable  = "RLX_GOMLX_CASES"
	coremlDocument = "../../../docs/gomlx.md"
)

// TestCasesOfAConfiguration is what TestComplianceOnCoreml runs in a process of its own: a case that fails is no failure of
// this package, as long as it is one that is known to.
func TestCasesOfAConfiguration(t *testing.T) {
	if config := os.Getenv(casesVariable); config != "" {
		backendtest.RunAll(t, backend(t, config), nil)
	}
}

// event is a line of `go test -json`.
type event struct{ Action, Test, Output string }

// outcomes are those of the cases that hold no others, by name, and why those failed that did.
func outcomes(t *testing.T, config string) (passed, skipped []string, failed map[string]string) {
	t.Helper()
	// What prints JSON is the go command's; here the binary runs that the go command has built.
	command := exec.Command(os.Args[0], "-test.run=^TestCasesOfAConfiguration$", "-test.v=test2json")
	// The report of each compile is printed: some cases drop the error of one that is refused, and compare nothing with a result.
	command.Env = append(os.Environ(), casesVariable+"="+config, "RLX_DISPATCH_REPORT=1")
	printed, err := command.CombinedOutput()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	convert := exec.Command("go", "tool", "test2json")
	convert.Stdin = bytes.NewReader(printed)
	lines, err := convert.Output()
	if err != nil {
		t.Fatalf("go tool test2json: %v", err)
	}
	ended, output := map[string]string{}, map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(lines)); decoder.More(); {
		var e event
		if err := decoder.Decode(&e); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(e.Test, "TestCasesOfAConfiguration/")
		if name == "" {
			continue // of the package
		}
		switch e.Action {
		case "output":
			output[name] += e.Output
		case "pass", "fail", "skip":
			ended[name] = e.Action
		}
	}
	if len(ended) < 100 || strings.Contains(string(printed), "\npanic:") {
		t.Fatalf("the suite did not run to its end on %q:\n%s", config, printed[max(0, len(printed)-4000):])
	}
	failed = map[string]string{}
	for name, how := range ended {
		holdsOthers := false
		for other := range ended {
			holdsOthers = holdsOthers || strings.HasPrefix(other, name+"/")
		}
		if holdsOthers || name == "TestCasesOfAConfiguration" {
			continue
		}
		switch how {
		case "pass":
			passed = append(passed, name)
		case "skip":
			skipped = append(skipped, name)
		default:
			failed[name] = reasonIn(output[name])
		}
	}
	return passed, skipped, failed
}

var (
	missing = regexp.MustCompile(`(?m)^(?:\d+ x )?\s*(\w+)(?: '[^']*')?(?:: missing,| missing:) ([^;\n]*)`)
	ofTest  = regexp.MustCompile(`(?m)^\s*\w+\.go:\d+: (.*)`)
	ofRun   = regexp.MustCompile(`(the input '[^']*' has \S+ at \[[^\]]*\], which 32 bits do not hold)`)
)

// reasonIn is why a case failed: what the library said, else what the test said first.
func reasonIn(output string) string {
	if found := missing.FindStringSubmatch(output); found != nil {
		return found[1] + ": " + found[2]
	}
	if found := ofRun.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	if found := ofTest.FindStringSubmatch(output); found != nil {
		return found[1]
	}
	return "it says nothing"
}

// TestComplianceOnCoreml runs compute's conformance suite as ML Programs, which are written, read back and run. Each case
// passes or is listed in testdata/coreml.json, with its reason; none that is listed passes. RLX_UPDATE=1 writes that file and
// the table in docs/gomlx.md.
func TestComplianceOnCoreml(t *testing.T) {
	backend(t, "coreml")
	var listed map[string]map[string]string
	text, err := os.ReadFile(coremlCases)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		t.Fatal(err)
	}
	found, counts := map[string]map[string]string{}, map[string]string{}
	for _, config := range coremlConfigs {
		passed, skipped, failed := outcomes(t, config)
		found[config] = failed
		counts[config] = fmt.Sprintf("%d of %d pass, %d are skipped", len(passed), len(passed)+len(skipped)+len(failed), len(skipped))
		t.Logf("rlx:%s: %s", config, counts[config])
		if os.Getenv("RLX_UPDATE") != "" {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(failed)) {
			if why, known := listed[config][name]; !known || why != failed[name] {
				t.Errorf("rlx:%s: %s: %s (listed: %q)", config, name, failed[name], why)
			}
		}
		for name := range listed[config] {
			if _, still := failed[name]; !still {
				t.Errorf("rlx:%s: %s passes, and is listed as one that cannot", config, name)
			}
		}
	}
	if os.Getenv("RLX_UPDATE") != "" {
		text, _ := json.MarshalIndent(found, "", " ")
		if err := os.WriteFile(coremlCases, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		listed = found
	}
	document(t, coremlTable(listed, counts))
}

// coremlTable has a line for each reason, with the cases that it stands for.
func coremlTable(listed map[string]map[string]string, counts map[string]string) string {
	var table strings.Builder
	for _, config := range coremlConfigs {
		byReason := map[string][]string{}
		for name, why := range listed[config] {
			byReason[why] = append(byReason[why], name)
		}
		fmt.Fprintf(&table, "`rlx:%s`: %s.", config, counts[config])
		if len(byReason) == 0 {
			table.WriteString("\n\n")
			continue
		}
		table.WriteString(" The others:\n\n| why | cases |\n| --- | --- |\n")
		for _, why := range slices.Sorted(maps.Keys(byReason)) {
			slices.Sort(byReason[why])
			fmt.Fprintf(&table, "| %s | `%s` |\n", strings.ReplaceAll(why, "|", "\\|"), strings.Join(byReason[why], "`, `"))
		}
		table.WriteString("\n")
	}
	return table.String()
}

// document compares what stands between two marks in docs/gomlx.md with the table, or puts it there.
func document(t *testing.T, table string) {
	t.Helper()
	const begin, end = "<!-- coreml: begin -->\n", "<!-- coreml: end -->"
	given, err := os.ReadFile(coremlDocument)
	if err != nil {
		t.Skipf("the package lies outside of its repository: %v", err)
	}
	before, rest, found := strings.Cut(string(given), begin)
	_, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s has no %q and %q", coremlDocument, begin, end)
	}
	wanted := before + begin + table + end + after
	if wanted == string(given) {
		return
	}
	if os.Getenv("RLX_UPDATE") == "" {
		t.Fatalf("what %s says of coreml is not so; RLX_UPDATE=1 go test -run Coreml writes it:\n%s", coremlDocument, table)
	}
	if err := os.WriteFile(coremlDocument, []byte(wanted), 0o644); err != nil {
		t.Fatal(err)
	}
}
