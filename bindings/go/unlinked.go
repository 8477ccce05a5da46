//go:build !rlx_cgo

package rlx

// linked says whether the program is linked against the library.
const linked = false
