// After the first runs, running allocates nothing. This file replaces the global operator new, and posix_memalign, from
// which tensors come, for the whole executable, and counts. Not under a sanitizer, which replaces them itself.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "runtime/small_model.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RLX_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define RLX_COUNTS_ALLOCATIONS 0
#endif
#endif
#if !defined(RLX_COUNTS_ALLOCATIONS) && defined(__GLIBC__)
#define RLX_COUNTS_ALLOCATIONS 1
#endif

#if RLX_COUNTS_ALLOCATIONS

#include "support/malloc_deletes.h"

namespace {
std::atomic<size_t> allocations = 0;  // by any thread: a pool's worker must not allocate either
void* counted(size_t bytes, size_t alignment = 0) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                   : std::malloc(bytes ? bytes : 1);
}
void* checked(void* memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) { return checked(counted(bytes)); }
void* operator new[](size_t bytes) { return checked(counted(bytes)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new(size_t bytes, std::align_val_t a) { return checked(counted(bytes, static_cast<size_t>(a))); }
void* operator new[](size_t bytes, std::align_val_t a) { return checked(counted(bytes, static_cast<size_t>(a))); }
extern "C" int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  *memory = counted(bytes, alignment);
  return *memory ? 0 : 12;  // ENOMEM
}

using namespace rlx;

namespace {

/// Allocations of `runs` runs, after the first ones.
size_t allocations_of(CompiledGraph& compiled, Tensors inputs, std::vector<Tensor>& outputs, int runs) {
  for (int i = 0; i < 3; ++i) compiled.run_into(inputs, outputs);
  size_t before = allocations;
  for (int i = 0; i < runs; ++i) compiled.run_into(inputs, outputs);
  return allocations - before;
}

}  // namespace

TEST_CASE("the counter counts, so that a count of zero means something") {
  size_t before = allocations;
  auto* number = new int(3);
  Tensor t(f32, {5});
  CHECK(allocations >= before + 2);
  CHECK(*number + static_cast<int>(t.element_count()) == 8);
  delete number;
}

TEST_CASE("a run into outputs that fit allocates nothing, with one thread and with several") {
  Graph g = test::small_model();
  for (int threads : {1, 2, 4}) {
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g);
    compiled.set_params(test::small_params());
    for (int64_t length : {1, 8, 40}) {
      auto inputs = test::small_inputs(length);
      std::vector<Tensor> outputs(3);
      CHECK_MESSAGE(allocations_of(compiled, inputs, outputs, 20) == 0, threads, " threads, length ", length);
      CHECK(difference(outputs, test::by_reference(g, inputs, test::small_params()), test::kSmallModelTolerance) == "");
    }
  }
}

TEST_CASE("going back and forth between shapes that are kept allocates nothing") {
  Graph g = test::small_model();
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g);
  compiled.set_params(test::small_params());
  auto four = test::small_inputs(4), nine = test::small_inputs(9);
  std::vector<Tensor> to_four(3), to_nine(3);
  for (int i = 0; i < 3; ++i) compiled.run_into(four, to_four), compiled.run_into(nine, to_nine);
  size_t before = allocations;
  for (int i = 0; i < 10; ++i) compiled.run_into(four, to_four), compiled.run_into(nine, to_nine);
  CHECK(allocations == before);
}

TEST_CASE("a run with a state allocates nothing, and leaves the state where it is") {
  Graph g("append");
  Value cache = g.input("cache", f32, {64, 16}), x = g.input("x", f32, {1, 16}), at = g.input("at", i32, {});
  Value next = dynamic_update_axis(cache, tanh(x), 0, at);
  g.output(next, "cache");
  g.output(reduce_sum(next, Axes{0}), "sum");
  CompileOptions options;
  options.donate = {"cache"};
  const CompiledGraph append = Session(Device::cpu(), {1}).compile(g, options);
  GraphState state = append.new_state();
  std::vector<Tensor> outputs(1);
  const std::vector<Tensor> inputs = {random_tensor(f32, {1, 16}, 1), Tensor::scalar<int32_t>(3)};
  for (int i = 0; i < 3; ++i) append.run_into(inputs, outputs, state);
  const size_t before = allocations;
  for (int i = 0; i < 20; ++i) append.run_into(inputs, outputs, state);
  CHECK(allocations == before);
}

TEST_CASE("each op of the table runs without allocating") {
  // All samples of all ops, in the sample's own dtype, f64, and in f32.
  for (const OpDef* op : all_ops()) {
    if (op->operands.empty()) continue;
    for (const Sample& s : op->samples())
      for (DType real : {f64, f32}) {
        std::vector<Type> types;
        for (size_t i = 0; i < s.dims.size(); ++i)
          types.push_back({i < s.dtypes.size() ? s.dtypes[i] : real, s.dims[i]});
        try {
          infer_types(*op, types, s.attrs);
        } catch (const Error&) {
          continue;
        }
        Graph g = trace(types, [&](Graph& to, Values in) { return to.emit(*op, {in.begin(), in.end()}, s.attrs); });
        CompiledGraph compiled = Session(Device::cpu(), {2}).compile(g);
        // Kernels that were registered from outside the table may allocate (docs/decisions.md), and some do.
        const auto& lines = compiled.report().lines;
        if (std::any_of(lines.begin(), lines.end(),
                        [](const DispatchLine& l) { return l.reason.find("registered kernel") != std::string::npos; }))
          continue;
        std::vector<Tensor> inputs, outputs(g.outputs().size());
        for (const Type& t : types) inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 1, s.lo, s.hi));
        size_t count = allocations_of(compiled, inputs, outputs, 3);
        std::ostringstream what;
        print(what, types);
        CHECK_MESSAGE(count == 0, count, " allocations in 3 runs of ", op->name, " on ", what.str());
      }
  }
}

#else

TEST_CASE("allocations are not counted in this build: skipped") { MESSAGE("a sanitizer has replaced the allocator"); }

#endif
