package gomlx

import (
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	rlx "rlx.invalid/go"
)

func sliceElement(flat any) (reflect.Type, bool) {
	t := reflect.TypeOf(flat)
	if t == nil || t.Kind() != reflect.Slice {
		return nil, false
	}
	return t.Elem(), true
}

// Builder records functions. Nothing of it is known to the library before Compile, which hands it all over at once.
type Builder struct {
	backend   *Backend
	name      string
	main      *Function
	functions map[string]*Function
	constants []rlx.NamedConstant
	symbols   symbols
	compiled  bool
}

var _ compute.Builder = (*Builder)(nil)

func newBuilder(backend *Backend, name string) *Builder {
	b := &Builder{backend: backend, name: name, functions: map[string]*Function{}, symbols: symbols{byName: map[string]polynomial{}}}
	b.main = newFunction(b, compute.MainName, nil)
	return b
}

// Name of the computation.
func (b *Builder) Name() string { return b.name }

// Main is the function that is compiled; always the same object.
func (b *Builder) Main() compute.Function { return b.main }

// NewFunction makes a function that others may call.
func (b *Builder) NewFunction(name string) (compute.Function, error) {
	if name == compute.MainName || name == "" || b.functions[name] != nil {
		return nil, errors.Errorf("a function of builder %q cannot be named %q: names are unique, and \"main\" and \"\" are taken", b.name, name)
	}
	f := newFunction(b, name, nil)
	b.functions[name] = f
	return f, nil
}

// OpShape is the shape of a value.
func (b *Builder) OpShape(op compute.Value) (shapes.Shape, error) {
	v, ok := op.(*value)
	if !ok || v == nil {
		return shapes.Invalid(), errors.Errorf("a %T is no value of backend rlx", op)
	}
	if v.fn.builder != b {
		return shapes.Invalid(), errors.Errorf("the value is of builder %q, not of %q", v.fn.builder.name, b.name)
	}
	return v.shape, nil
}

// DistributedSPMD takes one device alone.
func (b *Builder) DistributedSPMD(numDevices int) error {
	if numDevices == 1 {
		return nil
	}
	return errors.Wrapf(compute.ErrNotImplemented, "backend rlx computes on one device, not on %d", numDevices)
}

// DistributedAutoSharding is not supported.
func (b *Builder) DistributedAutoSharding(...compute.Mesh) error {
	return errors.Wrap(compute.ErrNotImplemented, "backend rlx computes on one device, and shards nothing")
}

// DeviceAssignment takes device 0 alone.
func (b *Builder) DeviceAssignment(devices ...compute.DeviceNum) error {
	if len(devices) != 1 || devices[0] != 0 {
		return errors.Errorf("backend rlx has device 0 alone, got %v", devices)
	}
	return nil
}

// Compile hands the computation to the library in one call.
func (b *Builder) Compile() (compute.Executable, error) {
	if b.compiled {
		return nil, errors.Errorf("builder %q was compiled before", b.name)
	}
	if !b.main.returned {
		return nil, errors.Errorf("the main function of builder %q has not returned anything", b.name)
	}
	if err := b.backend.usable(); err != nil {
		return nil, err
	}
	b.compiled = true
	if err := b.settleStates(); err != nil {
		return nil, err
	}
	text, err := graphText(b.main)
	if err != nil {
		return nil, err
	}
	if b.backend.options.save != "" {
		if err := b.savePackage(); err != nil {
			return nil, errors.WithMessagef(err, "writing %q as a package", b.name)
		}
	}
	b.backend.mutex.Lock()
	made, err := b.backend.session.CompileText(text, b.constants, rlx.CompileOptions{})
	b.backend.mutex.Unlock()
	if err != nil {
		return nil, errors.Wrapf(err, "compiling %q", b.name)
	}
	b.constants = nil
	return newExecutable(b, made), nil
}
