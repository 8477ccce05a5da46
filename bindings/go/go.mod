module rlx.invalid/go

go 1.26

require github.com/ebitengine/purego v0.10.0
