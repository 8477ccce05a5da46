package rlx

import (
	"context"
	"runtime"
	"unsafe"
)

// DeviceTensor has its elements in a device's memory. A run may take them away, as an input that was donated.
type DeviceTensor struct {
	handle
	lib *Library
}

func (l *Library) deviceTensor(pointer unsafe.Pointer) *DeviceTensor {
	t := &DeviceTensor{lib: l}
	own(t, &t.handle, pointer, l.c.DeviceTensorFree)
	return t
}

func (l *Library) deviceTensors(pointers []unsafe.Pointer) []*DeviceTensor {
	all := make([]*DeviceTensor, len(pointers))
	for i, each := range pointers {
		all[i] = l.deviceTensor(each)
	}
	return all
}

// ToDevice begins to copy the tensor to a device, and returns; shared where the device's memory is the host's.
func (t *Tensor) ToDevice(device string) (*DeviceTensor, error) {
	defer runtime.KeepAlive(t)
	var made, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.DevicePut(t.pointerOf(), device, &made, &e), e); err != nil {
		return nil, err
	}
	return t.lib.deviceTensor(made), nil
}

// DType of the elements.
func (t *DeviceTensor) DType() DType {
	defer runtime.KeepAlive(t)
	return DType(t.lib.c.DeviceTensorDtype(t.pointerOf()))
}

// Dims are the sizes of the axes.
func (t *DeviceTensor) Dims() []int {
	defer runtime.KeepAlive(t)
	dims := make([]int, t.lib.c.DeviceTensorRank(t.pointerOf()))
	if len(dims) > 0 {
		for i, each := range unsafe.Slice((*int64)(t.lib.c.DeviceTensorDims(t.pointerOf())), len(dims)) {
			dims[i] = int(each)
		}
	}
	return dims
}

// Device is the device's name.
func (t *DeviceTensor) Device() string {
	defer runtime.KeepAlive(t)
	return t.lib.c.DeviceTensorDevice(t.pointerOf())
}

// WhyGone says why the tensor cannot be used; "" if it can.
func (t *DeviceTensor) WhyGone() string {
	defer runtime.KeepAlive(t)
	return t.lib.c.DeviceTensorWhyGone(t.pointerOf())
}

// Ready ends when the elements may be read.
func (t *DeviceTensor) Ready() (*Event, error) {
	defer runtime.KeepAlive(t)
	var made, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.DeviceTensorReady(t.pointerOf(), &made, &e), e); err != nil {
		return nil, err
	}
	return t.lib.event(made), nil
}

// ToHost gives the elements as a tensor of the host, when they are there.
func (t *DeviceTensor) ToHost(ctx context.Context) (*Tensor, error) {
	defer runtime.KeepAlive(t)
	if ctx.Done() != nil {
		ready, err := t.Ready()
		if err != nil {
			return nil, err
		}
		defer ready.Close()
		if err := ready.Wait(ctx); err != nil {
			return nil, err
		}
	}
	var made, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.DeviceTensorToHost(t.pointerOf(), &made, &e), e); err != nil {
		return nil, err
	}
	return t.lib.tensor(made), nil
}

// ToDevice gives the same elements on another device.
func (t *DeviceTensor) ToDevice(device string) (*DeviceTensor, error) {
	defer runtime.KeepAlive(t)
	var made, e unsafe.Pointer
	if err := t.lib.failure(t.lib.c.DeviceTensorTo(t.pointerOf(), device, &made, &e), e); err != nil {
		return nil, err
	}
	return t.lib.deviceTensor(made), nil
}

// Write writes the elements anew, behind all work that still reads them.
func (t *DeviceTensor) Write(value *Tensor) error {
	defer runtime.KeepAlive(t)
	defer runtime.KeepAlive(value)
	var e unsafe.Pointer
	return t.lib.failure(t.lib.c.DeviceTensorWrite(t.pointerOf(), value.pointerOf(), &e), e)
}

// Submit begins a run on tensors of the graph's device and returns: its outputs can be handed to the next run at once.
func (c *Compiled) Submit(inputs ...*DeviceTensor) ([]*DeviceTensor, *Running, error) {
	given := make([]unsafe.Pointer, len(inputs))
	for i, each := range inputs {
		if each != nil {
			given[i] = each.pointer
		}
	}
	defer runtime.KeepAlive(inputs)
	return c.begin(c.lib.c.CompiledSubmit, given)
}

// Start is [Compiled.Submit] for tensors of the host.
func (c *Compiled) Start(inputs ...*Tensor) ([]*DeviceTensor, *Running, error) {
	defer runtime.KeepAlive(inputs)
	return c.begin(c.lib.c.CompiledAsync, pointersOf(inputs))
}

func (c *Compiled) begin(call func(compiled, inputs p, count uintptr, outputs p, outputCount uintptr, run, e *p) int32,
	inputs []unsafe.Pointer) ([]*DeviceTensor, *Running, error) {
	defer runtime.KeepAlive(c)
	outputs := make([]unsafe.Pointer, c.outputs)
	var run, e unsafe.Pointer
	status := call(c.pointerOf(), firstOf(inputs), uintptr(len(inputs)), firstOf(outputs), uintptr(len(outputs)), &run, &e)
	if err := c.lib.failure(status, e); err != nil {
		return nil, nil, err
	}
	running := &Running{lib: c.lib}
	own(running, &running.handle, run, c.lib.c.RunFree)
	return c.lib.deviceTensors(outputs), running, nil
}

// Run runs the graph: inputs in its order, one new tensor for each output. When the context ends the run is cancelled.
func (c *Compiled) Run(ctx context.Context, inputs ...*Tensor) ([]*Tensor, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if ctx.Done() != nil {
		return c.runUntil(ctx, inputs)
	}
	defer runtime.KeepAlive(c)
	defer runtime.KeepAlive(inputs)
	given, outputs := pointersOf(inputs), make([]unsafe.Pointer, c.outputs)
	var e unsafe.Pointer
	status := c.lib.c.CompiledRun(c.pointerOf(), firstOf(given), uintptr(len(given)), firstOf(outputs), uintptr(len(outputs)), &e)
	if err := c.lib.failure(status, e); err != nil {
		return nil, err
	}
	return c.lib.tensors(outputs), nil
}

func (c *Compiled) runUntil(ctx context.Context, inputs []*Tensor) ([]*Tensor, error) {
	there, running, err := c.Start(inputs...)
	if err != nil {
		return nil, err
	}
	defer running.Close()
	defer func() {
		for _, each := range there {
			each.Close()
		}
	}()
	if err := running.Wait(ctx); err != nil {
		return nil, err
	}
	outputs := make([]*Tensor, len(there))
	for i, each := range there {
		if outputs[i], err = each.ToHost(context.Background()); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}
