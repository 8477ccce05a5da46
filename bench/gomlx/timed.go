package bench

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gomlx/compute"
)

// timed prints how long a run of each executable takes when it is first run: the processor time of all threads, which other
// programs on a machine do not lengthen as they do the time that passes.
type timed struct{ compute.Backend }

type timedBuilder struct{ compute.Builder }

type timedExecutable struct {
	compute.Executable
	done bool
}

func (b timed) Builder(name string) compute.Builder { return timedBuilder{b.Backend.Builder(name)} }

func (b timedBuilder) Compile() (compute.Executable, error) {
	made, err := b.Builder.Compile()
	return &timedExecutable{Executable: made}, err
}

func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// warmUp and enough are processor time.
const warmUp, enough = 5 * time.Millisecond, 25 * time.Millisecond

func (e *timedExecutable) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer, error) {
	if !e.done {
		e.done = true
		repeated := func(least time.Duration) (time.Duration, int, error) {
			count, start := 0, processorTime()
			for batch := 1; ; batch *= 2 {
				for range batch {
					outputs, err := e.Executable.Execute(inputs, nil, device)
					if err != nil {
						return 0, 0, err
					}
					for _, each := range outputs {
						if err := each.Finalize(); err != nil {
							return 0, 0, err
						}
					}
				}
				count += batch
				if spent := processorTime() - start; spent >= least {
					return spent, count, nil
				}
			}
		}
		if _, _, err := repeated(warmUp); err != nil {
			return nil, err
		}
		spent, count, err := repeated(enough)
		if err != nil {
			return nil, err
		}
		fmt.Printf("\nprocessor ns: %.1f\n", float64(spent.Nanoseconds())/float64(count))
	}
	return e.Executable.Execute(inputs, donate, device)
}
