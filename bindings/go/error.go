package rlx

import "unsafe"

// Status is the kind of an error, the numbers being those of rlx_status. It is an error itself, so that
// errors.Is(err, rlx.Unsupported) tells what an [*Error] is.
type Status int32

// The kinds of errors.
const (
	InvalidArgument Status = iota + 1
	ShapeMismatch
	Unsupported
	ParseError
	NotFound
	IOError
	OutOfMemory
	Internal
	Cancelled
	DeviceLost
	TooLarge
)

var statusNames = [...]string{"ok", "invalid argument", "shape mismatch", "unsupported", "parse error", "not found",
	"i/o error", "out of memory", "internal error", "cancelled", "device lost", "too large"}

// Error gives the name of the kind.
func (s Status) Error() string {
	if s < 0 || int(s) >= len(statusNames) {
		return "unknown status"
	}
	return statusNames[s]
}

// Error is what a call of the library failed with.
type Error struct {
	Status Status
	// Message says what is wrong, then, a line each, what was being done.
	Message string
	// Report is the dispatch report as JSON, of a compile that failed because the device does not run all of the
	// graph; else "".
	Report string
	// Bytes and Limit are, of a file that would be larger than what reads it can take, the bytes that it would have
	// and the most that it may have; else 0.
	Bytes, Limit uint64
}

func (e *Error) Error() string { return "rlx: " + e.Message }

// Is says whether target is the error's Status.
func (e *Error) Is(target error) bool {
	status, ok := target.(Status)
	return ok && status == e.Status
}

// failure turns what a call returned into an error, and frees the library's own.
func (l *Library) failure(status int32, e unsafe.Pointer) error {
	if status == 0 {
		return nil
	}
	err := &Error{Status: Status(status), Message: Status(status).Error()}
	if e != nil {
		err.Message, err.Report = l.c.ErrorMessage(e), l.c.ErrorReport(e)
		l.c.ErrorTooLarge(e, &err.Bytes, &err.Limit)
		l.c.ErrorFree(e)
	}
	return err
}
