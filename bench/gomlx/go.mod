module rlx.invalid/bench/gomlx

go 1.26.5

require (
	github.com/gomlx/compute v0.1.3
	github.com/gomlx/go-xla v0.4.1
	github.com/gomlx/gomlx v0.28.2
	rlx.invalid/go/gomlx v0.1.0
)

require (
	github.com/ebitengine/purego v0.10.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/gofrs/flock v0.13.0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/term v0.40.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	k8s.io/klog/v2 v2.140.0 // indirect
	rlx.invalid/go v0.1.0 // indirect
)

replace (
	rlx.invalid/go => ../../bindings/go
	rlx.invalid/go/gomlx => ../../bindings/go/gomlx
)
