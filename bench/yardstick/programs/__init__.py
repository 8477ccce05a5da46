"""A program for each peer and suite, run by the yardstick: `python -m yardstick.programs.kernels_torch --threads 1`."""
