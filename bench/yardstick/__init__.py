"""The yardstick: RLX and its peers in turn on the same workloads. `bench/yardstick --help` says how to run it."""
