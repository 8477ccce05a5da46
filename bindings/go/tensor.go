package rlx

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// DType is the name of an element type, as the library writes it: "f32", "i64", "bool".
type DType string

// Float16 is an IEEE half by its bits, Bfloat16 a bfloat16: dtypes "f16" and "bf16".
type (
	Float16  uint16
	Bfloat16 uint16
)

// Element is a Go type of which tensors can be made.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128 | Float16 | Bfloat16
}

// DTypeOf is the dtype of a Go type: "f32" of float32.
func DTypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case bool:
		return "bool"
	case Float16:
		return "f16"
	case Bfloat16:
		return "bf16"
	}
	kind := reflect.TypeFor[T]()
	letter := map[reflect.Kind]string{reflect.Int8: "i", reflect.Int16: "i", reflect.Int32: "i", reflect.Int64: "i",
		reflect.Uint8: "u", reflect.Uint16: "u", reflect.Uint32: "u", reflect.Uint64: "u", reflect.Float32: "f",
		reflect.Float64: "f", reflect.Complex64: "c", reflect.Complex128: "c"}[kind.Kind()]
	return DType(fmt.Sprintf("%s%d", letter, kind.Bits()))
}

// Tensor is dense and row-major, in the memory of the host.
type Tensor struct {
	handle
	lib *Library
}

func (l *Library) tensor(pointer unsafe.Pointer) *Tensor {
	t := &Tensor{lib: l}
	own(t, &t.handle, pointer, l.c.TensorFree)
	return t
}

func (l *Library) tensors(pointers []unsafe.Pointer) []*Tensor {
	all := make([]*Tensor, len(pointers))
	for i, each := range pointers {
		all[i] = l.tensor(each)
	}
	return all
}

func pointersOf(tensors []*Tensor) []unsafe.Pointer {
	all := make([]unsafe.Pointer, len(tensors))
	for i, each := range tensors {
		if each != nil {
			all[i] = each.pointer
		}
	}
	return all
}

func dims64(dims []int) []int64 {
	all := make([]int64, len(dims))
	for i, each := range dims {
		all[i] = int64(each)
	}
	return all
}

// NewTensor copies elements into a tensor: as many as the dims have places, or none for zeros.
func NewTensor[T Element](l *Library, dims []int, elements []T) (*Tensor, error) {
	return l.NewTensorFromBytes(DTypeOf[T](), dims, bytesOf(elements))
}

// NewTensorFromBytes copies bytes into a tensor of any dtype; nil gives zeros.
func (l *Library) NewTensorFromBytes(dtype DType, dims []int, bytes []byte) (*Tensor, error) {
	shape := dims64(dims)
	var made, e unsafe.Pointer
	status := l.c.TensorCreate(string(dtype), firstOf(shape), uintptr(len(shape)), firstOf(bytes), uintptr(len(bytes)), &made, &e)
	if err := l.failure(status, e); err != nil {
		return nil, err
	}
	return l.tensor(made), nil
}

// borrowed are the pins of Go memory that the library refers to, by the number that its release is called with.
var borrowed struct {
	sync.Mutex
	pins     map[uintptr]*runtime.Pinner
	next     uintptr
	callback uintptr
}

func releaseBorrowed(number uintptr) uintptr {
	borrowed.Lock()
	defer borrowed.Unlock()
	if pin := borrowed.pins[number]; pin != nil {
		pin.Unpin()
		delete(borrowed.pins, number)
	}
	return 0
}

// BorrowTensor shares the elements, without a copy: they must not change as long as anything in the library refers to
// them, a param that was bound for one. They are kept for that long.
func BorrowTensor[T Element](l *Library, dims []int, elements []T) (*Tensor, error) {
	bytes := bytesOf(elements)
	if len(bytes) == 0 {
		return NewTensor(l, dims, elements)
	}
	shape := dims64(dims)
	pin := &runtime.Pinner{}
	pin.Pin(&elements[0])
	borrowed.Lock()
	if borrowed.pins == nil {
		borrowed.pins = map[uintptr]*runtime.Pinner{}
		borrowed.callback = purego.NewCallback(releaseBorrowed)
	}
	borrowed.next++
	number := borrowed.next
	borrowed.pins[number] = pin
	borrowed.Unlock()
	var made, e unsafe.Pointer
	status := l.c.TensorBorrow(string(DTypeOf[T]()), firstOf(shape), uintptr(len(shape)), firstOf(bytes), uintptr(len(bytes)),
		borrowed.callback, number, &made, &e)
	if err := l.failure(status, e); err != nil {
		releaseBorrowed(number)
		return nil, err
	}
	return l.tensor(made), nil
}

func bytesOf[T any](elements []T) []byte {
	if len(elements) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&elements[0])), uintptr(len(elements))*unsafe.Sizeof(elements[0]))
}

// DType of the elements.
func (t *Tensor) DType() DType {
	defer runtime.KeepAlive(t)
	return DType(t.lib.c.TensorDtype(t.pointerOf()))
}

// Dims are the sizes of the axes; empty of a scalar.
func (t *Tensor) Dims() []int {
	defer runtime.KeepAlive(t)
	rank := t.lib.c.TensorRank(t.pointerOf())
	dims := make([]int, rank)
	if rank > 0 {
		for i, each := range unsafe.Slice((*int64)(t.lib.c.TensorDims(t.pointerOf())), rank) {
			dims[i] = int(each)
		}
	}
	return dims
}

// Bytes are the elements' memory, not a copy: to be read alone, and only while the tensor is kept.
func (t *Tensor) Bytes() []byte {
	defer runtime.KeepAlive(t)
	size := t.lib.c.TensorSize(t.pointerOf())
	if size == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(t.lib.c.TensorData(t.pointerOf())), size)
}

// Data are the elements, not a copy: to be read alone, and only while the tensor is kept. Fails where T is not their
// type.
func Data[T Element](t *Tensor) ([]T, error) {
	if want, got := DTypeOf[T](), t.DType(); want != got {
		return nil, &Error{Status: InvalidArgument, Message: fmt.Sprintf("the tensor's elements are %s, not %s", got, want)}
	}
	bytes := t.Bytes()
	if len(bytes) == 0 {
		return nil, nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&bytes[0])), uintptr(len(bytes))/unsafe.Sizeof(*new(T))), nil
}
