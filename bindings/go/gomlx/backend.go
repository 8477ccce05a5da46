// Package gomlx makes RLX a backend of GoMLX: importing it for effect registers the name "rlx".
//
//	import _ "rlx.invalid/go/gomlx"
//
// With GOMLX_BACKEND=rlx, or rlx:OPTIONS, GoMLX then runs on it. OPTIONS are separated by commas:
//
//	cpu, coreml, coreml:ane, ...   the device, as RLX names it; the processor if there is none
//	threads=4                      as many threads as a run may use
//	library=/usr/lib/librlx_c.so   the shared library, which else is looked for as rlx.New says
//	nofuse                         GoMLX's own decompositions instead of fused ops
//	narrow                         permits coreml to compute in 32 bits what has 64
//	save=packages                  writes each computation as an .mlpackage into that folder when it is compiled
//
// A library that cannot be loaded is an error of [New], not of the import.
package gomlx

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/pkg/errors"
	rlx "rlx.invalid/go"
)

// BackendName is the name that the backend is registered by.
const BackendName = "rlx"

func init() {
	compute.Register(BackendName, func(config string) (compute.Backend, error) { return newBackend(config) })
}

// options are what a configuration says.
type options struct {
	device, library string
	save            string // a folder for packages, or ""
	threads         int
	nofuse, narrow  bool
}

func parseOptions(config string) (options, error) {
	o := options{device: "cpu"}
	for _, each := range strings.Split(config, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(each), "=")
		switch {
		case name == "" && !hasValue:
		case name == "threads" && hasValue:
			threads, err := strconv.Atoi(value)
			if err != nil || threads < 0 {
				return o, errors.Errorf("backend rlx: threads=%q is no number of threads", value)
			}
			o.threads = threads
		case name == "library" && hasValue:
			o.library = value
		case name == "save" && value != "":
			o.save = value
		case name == "nofuse" && !hasValue:
			o.nofuse = true
		case name == "narrow" && !hasValue:
			o.narrow = true
		case hasValue:
			return o, errors.Errorf("backend rlx: unknown option %q; there are threads=N, library=PATH, save=FOLDER, nofuse, narrow and the name of a device", each)
		default:
			o.device = name // New asks the library whether there is such a device
		}
	}
	return o, nil
}

// Backend is a device of RLX.
type Backend struct {
	lib       *rlx.Library
	options   options
	mutex     sync.Mutex // of the session: it compiles for one at a time
	session   *rlx.Session
	memory    pool
	saved     map[string]bool // the names of packages that were written
	finalized atomic.Bool
}

var _ compute.Backend = (*Backend)(nil)

// New makes a backend; config is what stands behind "rlx:" in GOMLX_BACKEND.
func New(config string) (*Backend, error) { return newBackend(config) }

func newBackend(config string) (*Backend, error) {
	o, err := parseOptions(config)
	if err != nil {
		return nil, err
	}
	lib, err := rlx.New(rlx.Options{Library: o.library})
	if err != nil {
		return nil, errors.WithStack(err)
	}
	session, err := lib.NewSession(o.device, rlx.SessionOptions{Threads: o.threads, Narrow: o.narrow})
	if err != nil {
		return nil, errors.Wrapf(err, "backend rlx: neither a device that can run here nor an option: %q; options are threads=N, library=PATH, save=FOLDER, nofuse and narrow", o.device)
	}
	return &Backend{lib: lib, options: o, session: session, saved: map[string]bool{}}, nil
}

// Name is "rlx".
func (b *Backend) Name() string { return BackendName }

// String is the name with the device, "rlx:cpu".
func (b *Backend) String() string { return BackendName + ":" + b.options.device }

// Description says what the backend is.
func (b *Backend) Description() string {
	return "RLX " + b.lib.Version() + ", a compiler and runtime for machine learning, on device " + b.options.device
}

// NumDevices is 1.
func (b *Backend) NumDevices() int { return 1 }

// DeviceDescription is the name of the device.
func (b *Backend) DeviceDescription(compute.DeviceNum) string { return b.options.device }

// Capabilities of the backend: a copy, which the caller may change.
func (b *Backend) Capabilities() compute.Capabilities {
	c := capabilities()
	if b.options.nofuse {
		for op := range fusedOps {
			delete(c.Operations, op)
		}
	}
	c.PreferConstantsForVariables = strings.HasPrefix(b.options.device, "coreml")
	return c
}

// Builder begins a computation.
func (b *Backend) Builder(name string) compute.Builder { return newBuilder(b, name) }

// Finalize gives everything back; the backend is of no use afterwards.
func (b *Backend) Finalize() {
	if b.finalized.Swap(true) {
		return
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.session.Close()
}

// IsFinalized says whether Finalize was called.
func (b *Backend) IsFinalized() bool { return b.finalized.Load() }

func (b *Backend) usable() error {
	if b.finalized.Load() {
		return errors.Errorf("backend %s was finalized", b)
	}
	return nil
}

func (b *Backend) onlyDevice(device compute.DeviceNum) error {
	if device != 0 {
		return errors.Errorf("backend %s has device 0 alone, not %d", b, device)
	}
	return b.usable()
}

// unsupported is the error of an op that GoMLX is to do by others.
func unsupported(op compute.OpType, why string) error {
	return errors.Wrapf(compute.ErrNotImplemented, "%s on backend rlx: %s", op, why)
}

var noOp = notimplemented.Function{ErrFn: func(op compute.OpType) error { return unsupported(op, "there is no such op") }}
