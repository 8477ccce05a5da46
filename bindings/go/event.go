package rlx

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Event is the end of work that goes on beside the caller. Any goroutine may wait for it, several at once.
type Event struct {
	handle
	lib *Library
}

func (l *Library) event(pointer unsafe.Pointer) *Event {
	v := &Event{lib: l}
	own(v, &v.handle, pointer, l.c.EventFree)
	return v
}

// IsDone says whether the work has ended.
func (v *Event) IsDone() bool {
	defer runtime.KeepAlive(v)
	return v.lib.c.EventIsDone(v.pointerOf()) != 0
}

// waiting are the channels that the ends of events are told to, by the number that the library calls back with.
var waiting struct {
	sync.Mutex
	channels map[uintptr]chan struct{}
	next     uintptr
	callback uintptr
}

func eventEnded(number uintptr, _ int32, _ uintptr) uintptr {
	waiting.Lock()
	defer waiting.Unlock()
	if channel := waiting.channels[number]; channel != nil {
		close(channel)
		delete(waiting.channels, number)
	}
	return 0
}

// Done is closed when the work has ended.
func (v *Event) Done() (<-chan struct{}, error) {
	defer runtime.KeepAlive(v)
	channel := make(chan struct{})
	waiting.Lock()
	if waiting.channels == nil {
		waiting.channels = map[uintptr]chan struct{}{}
		waiting.callback = purego.NewCallback(eventEnded)
	}
	waiting.next++
	number := waiting.next
	waiting.channels[number] = channel
	waiting.Unlock()
	var e unsafe.Pointer
	if err := v.lib.failure(v.lib.c.EventOnDone(v.pointerOf(), waiting.callback, number, &e), e); err != nil {
		eventEnded(number, 0, 0)
		return nil, err
	}
	return channel, nil
}

// Wait waits for the end of the work, or of the context: then the work goes on, and the error is the context's. It fails
// with what ended the work, if that failed.
func (v *Event) Wait(ctx context.Context) error {
	defer runtime.KeepAlive(v)
	if ctx.Done() != nil {
		done, err := v.Done()
		if err != nil {
			return err
		}
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var e unsafe.Pointer
	return v.lib.failure(v.lib.c.EventWait(v.pointerOf(), -int64(time.Nanosecond), nil, &e), e)
}

// Running is a run in the background. Closing it lets the run go on.
type Running struct {
	handle
	lib *Library
}

// Event is the end of the run.
func (r *Running) Event() (*Event, error) {
	defer runtime.KeepAlive(r)
	var made, e unsafe.Pointer
	if err := r.lib.failure(r.lib.c.RunEvent(r.pointerOf(), &made, &e), e); err != nil {
		return nil, err
	}
	return r.lib.event(made), nil
}

// Cancel asks the run to stop before its next step; it then fails with [Cancelled].
func (r *Running) Cancel() error {
	defer runtime.KeepAlive(r)
	var e unsafe.Pointer
	return r.lib.failure(r.lib.c.RunCancel(r.pointerOf(), &e), e)
}

// Wait waits for the end of the run. When the context ends first the run is asked to stop, its end is waited for, and the
// error is the context's.
func (r *Running) Wait(ctx context.Context) error {
	event, err := r.Event()
	if err != nil {
		return err
	}
	defer event.Close()
	err = event.Wait(ctx)
	if err == nil || ctx.Err() == nil || event.IsDone() {
		return err
	}
	if err := r.Cancel(); err != nil {
		return err
	}
	_ = event.Wait(context.Background()) // that it was cancelled is known
	return context.Cause(ctx)
}
