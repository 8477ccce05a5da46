# The commands of this project. Each target is a few calls of scripts/ and CMake's presets, which work alone too:
#   cmake --preset release && cmake --build --preset release && ctest --preset release
.DEFAULT_GOAL := help
.PHONY: help program demo demo-mlx model test check check-all wheel-check bench attack arm64-check deps deps-check build asan asan-kernels tsan format format-check tidy install clean
# The steps of a target one after the other, also under `make -j`: each of them uses all cores by itself.
.NOTPARALLEL:

help:
	@echo "make demo       build, fetch the model, embed and search a thousand sentences, print the report"
	@echo "make demo-mlx   the same on the device mlx (Apple's MLX)"
	@echo "make test       build and run every test"
	@echo "make check      make test, address and undefined behaviour sanitizers, format, the wheel, the demo: what CI runs"
	@echo "make check-all  make check, all tests with both sanitizers, every op's every sample and gradient on every device (hours)"
	@echo "make format     format all sources"
	@echo "make tidy       clang-tidy over src/, extras/ and tools/ (slow; not part of check)"
	@echo "make bench      RLX and its peers in turn, one table (scripts/bench-deps installs the peers)"
	@echo "make attack     an hour of damaged files and caches, odd graphs and drawn C calls (SECONDS=3600)"
	@echo "make arm64-check  a cross build for Arm (aarch64), its laws, golden cases and kernels under qemu (40 minutes)"
	@echo "make install    install below PREFIX (default /usr/local)"
	@echo "make clean      remove the build"
	@echo "Parts of check: asan  tsan  wheel-check  format-check"

deps:
	@scripts/deps

deps-check:
	@scripts/deps --check

build: deps
	cmake --preset release
	cmake --build --preset release

# The library and the program alone, without tests, benchmarks, examples and the module of the device mlx.
program: deps
	cmake --preset release
	cmake --build --preset release --target rlx_program

demo: program
	scripts/demo

demo-mlx: build
	RLX_DEVICE=mlx scripts/demo

# Some tests compare with PyTorch on a real model; it is fetched once and verified.
model: deps
	@scripts/fetch_minilm.py >/dev/null

test: build model
	ctest --preset release

check: deps-check test format-check asan wheel-check demo
	@scripts/check_summary

# What `make check` samples, whole: all tests with the sanitizers, the laws on every device, and every device's own
# judgement with gradients.
check-all: check tsan asan-kernels
	cmake --preset asan -D RLX_TEST_AREAS= -D RLX_PROGRAM=ON
	cmake --build --preset asan
	ctest --preset asan
	scripts/check_small_library build/release
	scripts/check_go build/release/lib/librlx_c.so examples
	scripts/check_go build/release/lib/librlx_c.so lint
	RLX_CHECK_ALL=1 build/release/tests/laws
	RLX_CHECK_ALL=1 ctest --preset release -R '^(models|growth|mlx)$$|\.on_loopback$$|\.on_mlx|apple_loader'
	build/release/tests/attack_graphs --seconds 600 --seed 20240229 --end 600 --keep build/attack
	status=0; for device in $$(build/release/bin/rlx devices --json | python3 -c \
	  'import json, sys; print(*(d["device"] for d in json.load(sys.stdin) if d["available"]))' | \
	  python3 -c 'import sys; print(*("mlx:lazy mlx:eager mlx:compiled" if d == "mlx" else d for d in sys.stdin.read().split()))'); do \
	  echo "== rlx test-device $$device --grad"; report=build/test-device-$$device.txt; \
	  build/release/bin/rlx test-device $$device --grad > $$report || status=1; tail -n 1 $$report; \
	done; exit $$status

# The wheel as `pip install .` makes it, in an environment of its own, beside coremltools and onnxruntime, under mypy.
wheel-check: deps-check
	.deps/venv/bin/python scripts/check_wheel

# One clang build with address and undefined behaviour sanitizers: the tests of what takes strange input and of the kernels
# (CMakePresets.json lists their areas), and each fuzz target for some seconds. The others exercise the same code.
asan: deps-check
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan

# The kernels' tests with g++ and the address sanitizer, for every instruction set: the clang build above compiles kernels
# for one, so that those of AVX-512 and of matrix tiles are not in it.
asan-kernels: deps-check
	cmake --preset asan-kernels
	cmake --build --preset asan-kernels
	ctest --preset asan-kernels

# The tests of the run time with the thread sanitizer. The one of clang 14 knows the addresses of a process only if the
# kernel scatters them little (vm.mmap_rnd_bits up to 28), or not at all: where that may be asked for, it is.
tsan: deps-check
	cmake --preset tsan
	cmake --build --preset tsan
	$$(setarch -R true 2>/dev/null && echo setarch -R) ctest --preset tsan

format:
	scripts/format

format-check:
	scripts/format --check

# One thread; BENCH="minilm --threads 2" and the like give the yardstick other arguments.
bench: build model
	python3 bench/yardstick $(BENCH)

# A minute of the first two each is a test of its own (attack.files_test, attack.graphs). What fails is kept in build/attack.
SECONDS ?= 3600
attack: build
	@status=0; seed=$$(od -An -N3 -tu4 /dev/urandom | tr -d ' '); \
	  python3 tests/attack/files_test.py --seconds $$(( $(SECONDS) * 2 / 5 )) --seed $$seed || status=1; \
	  build/release/tests/attack_graphs --seconds $$(( $(SECONDS) * 2 / 5 )) --seed $$seed || status=1; \
	  build/release/tests/api_c_odd_arguments $$(( $(SECONDS) / 5 )) $$seed || status=1; exit $$status

# Another processor than this one's: scripts/arm64_check says what is sampled of the tests, as emulation is slow.
arm64-check:
	@scripts/deps --arm64
	cmake --preset arm64
	cmake --build --preset arm64
	scripts/arm64_check

# With the clang build's compile commands, as the release build's are g++'s.
tidy:
	command -v clang-tidy-14 || { echo "make tidy: clang-tidy-14 is needed (apt install clang-tidy-14)" >&2; exit 1; }
	cmake --preset asan
	git ls-files 'src/*.cpp' 'extras/*.cpp' 'tools/*.cpp' | xargs -P2 -n4 clang-tidy-14 -p build/asan --quiet --warnings-as-errors='*'

PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix "$(PREFIX)"

clean:
	rm -rf build
