package gomlx

import (
	"sync"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// alignment of a buffer's memory in bytes: a cache line, which vector kernels like.
const alignment = 64

// pool keeps the memory of buffers that were given back, by size: the allocator would clear it, and a run overwrites
// it anyway. The garbage collector empties it.
type pool struct{ bySize sync.Map }

func (p *pool) take(size int) []byte {
	if size == 0 {
		return nil
	}
	if known, ok := p.bySize.Load(size); ok {
		if spare, ok := known.(*sync.Pool).Get().(*byte); ok {
			return unsafe.Slice(spare, size)
		}
	}
	memory := make([]byte, size+alignment-1)
	skip := int(-uintptr(unsafe.Pointer(&memory[0])) & (alignment - 1))
	return memory[skip : skip+size : skip+size]
}

func (p *pool) give(memory []byte) {
	if len(memory) == 0 {
		return
	}
	known, ok := p.bySize.Load(len(memory))
	if !ok {
		known, _ = p.bySize.LoadOrStore(len(memory), &sync.Pool{})
	}
	known.(*sync.Pool).Put(&memory[0])
}

// Buffer is a tensor in memory that Go and RLX share.
type Buffer struct {
	backend *Backend
	shape   shapes.Shape
	mutex   sync.Mutex
	memory  []byte
	valid   bool
}

var _ compute.Buffer = (*Buffer)(nil)

func (b *Backend) newBuffer(shape shapes.Shape) *Buffer {
	return &Buffer{backend: b, shape: shape, memory: b.memory.take(byteSize(shape)), valid: true}
}

func byteSize(shape shapes.Shape) int { return shape.DType.SizeForDimensions(shape.Dimensions...) }

func (b *Backend) checkShape(shape shapes.Shape) error {
	if _, ok := dtypeNames[shape.DType]; !ok {
		return errors.Errorf("backend rlx has no dtype %s", shape.DType)
	}
	if shape.IsDynamic() {
		return errors.Errorf("a buffer has no dynamic axes, got %s", shape)
	}
	return nil
}

// BufferFromFlatData copies a slice of the dtype's Go type into a new buffer.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if err := b.onlyDevice(device); err != nil {
		return nil, err
	}
	if err := b.checkShape(shape); err != nil {
		return nil, err
	}
	bytes, err := bytesOfFlat(flat, shape)
	if err != nil {
		return nil, err
	}
	made := b.newBuffer(shape)
	copy(made.memory, bytes)
	return made, nil
}

func bytesOfFlat(flat any, shape shapes.Shape) ([]byte, error) {
	given := dtypes.FromAny(flat)
	if elements, ok := sliceElement(flat); ok {
		given = dtypes.FromGoType(elements)
	}
	if given != shape.DType && !(shape.DType.IsPacked() && given == dtypes.Uint8) {
		return nil, errors.Errorf("the slice is a %T, which is not what holds a %s", flat, shape)
	}
	bytes := dtypes.UnsafeByteSliceFromAny(flat)
	if len(bytes) != byteSize(shape) {
		return nil, errors.Errorf("the slice has %d bytes, %s has %d", len(bytes), shape, byteSize(shape))
	}
	return bytes, nil
}

// HasSharedBuffers is true: every buffer is memory of Go.
func (b *Backend) HasSharedBuffers() bool { return true }

// NewSharedBuffer gives a buffer of zeros and the slice that it is.
func (b *Backend) NewSharedBuffer(device compute.DeviceNum, shape shapes.Shape) (compute.Buffer, any, error) {
	if err := b.onlyDevice(device); err != nil {
		return nil, nil, err
	}
	if err := b.checkShape(shape); err != nil {
		return nil, nil, err
	}
	made := b.newBuffer(shape)
	clear(made.memory)
	flat, err := made.Data()
	return made, flat, err
}

// Backend that the buffer is of.
func (u *Buffer) Backend() compute.Backend { return u.backend }

// Finalize gives the memory back. Slices that Data gave must not be used any more.
func (u *Buffer) Finalize() error {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.valid {
		u.valid = false
		u.backend.memory.give(u.memory)
		u.memory = nil
	}
	return nil
}

// read gives the memory, while it is there.
func (u *Buffer) read() ([]byte, error) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if !u.valid {
		return nil, errors.Errorf("the buffer %s was finalized or donated", u.shape)
	}
	return u.memory, nil
}

// Shape of the buffer.
func (u *Buffer) Shape() (shapes.Shape, error) {
	_, err := u.read()
	return u.shape, err
}

// DeviceNum is 0.
func (u *Buffer) DeviceNum() (compute.DeviceNum, error) { return 0, nil }

// ToFlatData copies the elements into a slice of the dtype's Go type.
func (u *Buffer) ToFlatData(flat any) error {
	memory, err := u.read()
	if err != nil {
		return err
	}
	bytes, err := bytesOfFlat(flat, u.shape)
	if err == nil {
		copy(bytes, memory)
	}
	return err
}

// Data gives the elements themselves: a slice of the dtype's Go type, to be read and written until Finalize.
func (u *Buffer) Data() (any, error) {
	memory, err := u.read()
	if err != nil {
		return nil, err
	}
	if len(memory) == 0 {
		return dtypes.MakeAnySlice(u.shape.DType, 0), nil
	}
	return dtypes.UnsafeAnySliceFromBytes(unsafe.Pointer(&memory[0]), u.shape.DType, u.shape.Size()), nil
}

// CopyToDevice copies the buffer; there is device 0 alone.
func (u *Buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	if err := u.backend.onlyDevice(device); err != nil {
		return nil, err
	}
	memory, err := u.read()
	if err != nil {
		return nil, err
	}
	made := u.backend.newBuffer(u.shape)
	copy(made.memory, memory)
	return made, nil
}
