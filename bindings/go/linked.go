//go:build rlx_cgo

package rlx

// #cgo LDFLAGS: -lrlx_c
// #include <rlx/c.h>
import "C"

// linked: a symbol of the library is used, so that the linker keeps the library.
var linked = C.rlx_version_string() != nil
