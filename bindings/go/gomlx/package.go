package gomlx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
	rlx "rlx.invalid/go"
)

// identifier is a name in letters, digits and _, none of which is a digit at its beginning.
func identifier(name string) string {
	made := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
	if made == "" || made[0] >= '0' && made[0] <= '9' {
		made = "_" + made
	}
	return made
}

// identifiers are different from each other: behind one that was taken stands its place.
func identifiers(names []string) []string {
	made, taken := make([]string, len(names)), map[string]bool{}
	for i, each := range names {
		made[i] = identifier(each)
		for taken[made[i]] {
			made[i] = fmt.Sprintf("%s_%d", made[i], i)
		}
		taken[made[i]] = true
	}
	return made
}

// savePackage writes the computation into the folder of the option save, by the builder's name; a number stands behind one
// that the backend has written before. Inputs have the parameters' names, outputs are o0, o1, ...
func (b *Builder) savePackage() error {
	text, err := namedGraphText(b.main, identifiers(b.main.names), identifier(b.name))
	if err != nil {
		return err
	}
	graph, err := b.backend.lib.ParseGraphWith(text, b.constants)
	if err != nil {
		return errors.WithStack(err)
	}
	defer graph.Close()
	if err := os.MkdirAll(b.backend.options.save, 0o777); err != nil {
		return errors.WithStack(err)
	}
	base := identifier(b.name)
	name := base
	b.backend.mutex.Lock()
	for count := 1; b.backend.saved[name]; count++ {
		name = fmt.Sprintf("%s_%d", base, count)
	}
	b.backend.saved[name] = true
	b.backend.mutex.Unlock()
	_, err = graph.WriteCoreML(filepath.Join(b.backend.options.save, name+".mlpackage"), nil, rlx.PackageOptions{Narrow: b.backend.options.narrow})
	return errors.WithStack(err)
}
