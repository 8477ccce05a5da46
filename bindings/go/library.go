package rlx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Options say which library [New] loads.
type Options struct {
	// Library is the path of the shared library; "" to look for it.
	Library string
}

// Library is the loaded shared library. All of its methods may be called from several goroutines at once.
type Library struct {
	c    functions
	path string
}

var loaded struct {
	sync.Mutex
	byPath map[string]*Library
}

// New loads the library, or gives the one that was loaded before. It is looked for at options.Library; else at the path
// that the environment variable RLX_LIBRARY holds; else beside the executable; else where the operating system looks.
// It stays loaded to the end of the process. A program that is built with -tags rlx_cgo is linked against the library by cgo,
// and takes that one where neither names another.
func New(options Options) (*Library, error) {
	places := candidates(options.Library)
	loaded.Lock()
	defer loaded.Unlock()
	var all []error
	for _, path := range places {
		if known := loaded.byPath[path]; known != nil {
			return known, nil
		}
		made, err := open(path)
		if err == nil {
			if loaded.byPath == nil {
				loaded.byPath = map[string]*Library{}
			}
			loaded.byPath[path] = made
			return made, nil
		}
		all = append(all, err)
	}
	return nil, fmt.Errorf("rlx: the library could not be loaded; say where it is by Options.Library or RLX_LIBRARY: %w", errors.Join(all...))
}

// candidates are the paths to try, in their order. A path that was given is the only one.
func candidates(given string) []string {
	if given != "" {
		return []string{given}
	}
	if path := os.Getenv("RLX_LIBRARY"); path != "" {
		return []string{path}
	}
	if linked {
		return []string{""}
	}
	names := []string{"librlx_c.so", "librlx.so"}
	if runtime.GOOS == "darwin" {
		names = []string{"librlx_c.dylib", "librlx.dylib"}
	}
	var places []string
	if program, err := os.Executable(); err == nil {
		for _, name := range names {
			if beside := filepath.Join(filepath.Dir(program), name); fileExists(beside) {
				places = append(places, beside)
			}
		}
	}
	return append(places, names...)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func open(path string) (*Library, error) {
	handle := uintptr(purego.RTLD_DEFAULT) // where what is linked is found
	if path != "" {
		var err error
		if handle, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL); err != nil {
			return nil, err
		}
	}
	l := &Library{path: path}
	table := reflect.ValueOf(&l.c).Elem()
	for i := range table.NumField() {
		name := table.Type().Field(i).Tag.Get("c")
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("'%s' is no library of RLX that this package can use: it has no %s", path, name)
		}
		if address, ok := table.Field(i).Addr().Interface().(*uintptr); ok {
			*address = symbol
			continue
		}
		purego.RegisterFunc(table.Field(i).Addr().Interface(), symbol)
	}
	return l, nil
}

// Path is where the library was loaded from; "" of one that the program is linked against.
func (l *Library) Path() string { return l.path }

// Version is the library's, such as "0.1.0".
func (l *Library) Version() string { return l.c.VersionString() }

// handle is an object of the library that is freed once: by Close, or after its owner is gone.
type handle struct {
	pointer unsafe.Pointer
	free    func(unsafe.Pointer)
	cleanup runtime.Cleanup
}

// own ties an object of the library to its Go owner, in which handle is embedded.
func own[T any](owner *T, h *handle, pointer unsafe.Pointer, free func(unsafe.Pointer)) {
	h.pointer, h.free = pointer, free
	h.cleanup = runtime.AddCleanup(owner, free, pointer)
}

// Close frees what the object holds in the library. It may be called again.
func (h *handle) Close() {
	if h == nil || h.pointer == nil {
		return
	}
	h.cleanup.Stop()
	h.free(h.pointer)
	h.pointer = nil
}

// pointerOf is the object of the library; of none NULL, which the library refuses by name.
func (h *handle) pointerOf() unsafe.Pointer {
	if h == nil {
		return nil
	}
	return h.pointer
}

func cString(s string) *byte {
	text := append([]byte(s), 0)
	return &text[0]
}

// cStrings are texts as an array of the library; the strings live as long as the array.
func cStrings(texts []string) []*byte {
	all := make([]*byte, len(texts))
	for i, text := range texts {
		all[i] = cString(text)
	}
	return all
}

// ownText copies a text that the library made, and frees it.
func (l *Library) ownText(text unsafe.Pointer) string {
	if text == nil {
		return ""
	}
	defer l.c.TextFree(text)
	size := 0
	for *(*byte)(unsafe.Add(text, size)) != 0 {
		size++
	}
	return string(unsafe.Slice((*byte)(text), size))
}

func firstOf[T any](all []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(all)) }

// placeOf is where a slice stands that may be empty: never NULL, which the library takes for a mistake.
func placeOf[T any](all []T) unsafe.Pointer {
	if len(all) == 0 {
		return unsafe.Pointer(new(T))
	}
	return firstOf(all)
}

// bytesOfText are those of a string, not a copy.
func bytesOfText(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// made calls what makes an object, or a text, of the library.
func (l *Library) made(call func(result, e *unsafe.Pointer) int32) (unsafe.Pointer, error) {
	var result, e unsafe.Pointer
	if err := l.failure(call(&result, &e), e); err != nil {
		return nil, err
	}
	return result, nil
}

// madeSizedText calls what makes a text that is to be freed, and tells its bytes, among which may be NULs.
func (l *Library) madeSizedText(call func(text *unsafe.Pointer, size *uintptr, e *unsafe.Pointer) int32) (string, error) {
	var text, e unsafe.Pointer
	var size uintptr
	if err := l.failure(call(&text, &size, &e), e); err != nil || text == nil {
		return "", err
	}
	defer l.c.TextFree(text)
	return string(unsafe.Slice((*byte)(text), size)), nil
}

// madeText calls what makes a text that is to be freed.
func (l *Library) madeText(call func(text, e *unsafe.Pointer) int32) (string, error) {
	text, err := l.made(call)
	return l.ownText(text), err
}
