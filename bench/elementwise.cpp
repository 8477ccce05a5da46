// What small element-wise programs cost: programs of two to ten f32 ops over arrays that lie in a cache. One JSON line
// a case and size: nanoseconds of a run, the fastest of many. By these the planner of threaded code was fitted
// (kernels/elementwise/make_threaded_code.cpp).
//
//   build/release/bench/elementwise [ELEMENTS...]      (default: 50 100 256 500 1000 4096)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "kernels/memory/aligned_memory.h"

using namespace rlx;
using namespace rlx::kernels;
using Op = ElementwiseOp;
using Program = ElementwiseProgram;

namespace {

struct Case {
  const char* name;
  int results;
  std::function<void(Program&, Program::Value x, Program::Value y)> build;
};

Program::Value f32_op(Program& p, Op op, Program::Value a, Program::Value b = Program::kNone) {
  return p.apply(op, f32, a, b);
}

const Case kCases[] = {
    {"x + y, relu", 1, [](Program& p, auto x, auto y) { p.store(f32_op(p, Op::relu, f32_op(p, Op::add, x, y)), 0); }},
    {"x y + x", 1, [](Program& p, auto x, auto y) { p.store(f32_op(p, Op::add, f32_op(p, Op::mul, x, y), x), 0); }},
    {"x y and x y + x", 2,
     [](Program& p, auto x, auto y) {
       const auto product = f32_op(p, Op::mul, x, y);
       p.store(product, 0);
       p.store(f32_op(p, Op::add, product, x), 1);
     }},
    {"tanh(x y + x)", 1,
     [](Program& p, auto x, auto y) {
       p.store(f32_op(p, Op::tanh, f32_op(p, Op::add, f32_op(p, Op::mul, x, y), x)), 0);
     }},
    {"gelu(x + y)", 1,
     [](Program& p, auto x, auto y) { p.store(f32_op(p, Op::gelu_erf, f32_op(p, Op::add, x, y)), 0); }},
    {"eight ops", 1,
     [](Program& p, auto x, auto y) {
       auto v = f32_op(p, Op::mul, x, y);
       for (int i = 0; i < 3; ++i) v = f32_op(p, Op::mul, f32_op(p, Op::add, v, x), y);
       p.store(f32_op(p, Op::relu, v), 0);
     }},
};

double run_ns(const Case& c, int64_t elements) {
  Program program;
  const auto x = program.load(f32, 0), y = program.load(f32, 1);
  c.build(program, x, y);
  program.compile();
  std::vector<std::vector<float>> arrays(4, std::vector<float>(static_cast<size_t>(elements), 0.5f));
  std::vector<ElementwiseBuffer> buffers(4);
  for (size_t i = 0; i < 4; ++i) buffers[i].data = arrays[i].data(), buffers[i].strides[0] = 1;
  ElementwiseCall call;
  call.rank = 1, call.dims[0] = elements, call.operands = buffers.data(), call.results = buffers.data() + 2;
  const AlignedMemory scratch = aligned_memory(program.scratch_bytes());
  double fastest = 1e30;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < end) {
    constexpr int kRuns = 50;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRuns; ++i) program.run(call, 0, elements, scratch.get());
    const auto time = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, std::chrono::duration<double, std::nano>(time).count() / kRuns);
  }
  return fastest;
}

}  // namespace

int main(int count, char** words) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < count; ++i) sizes.push_back(std::max(1LL, std::atoll(words[i])));
  if (sizes.empty()) sizes = {50, 100, 256, 500, 1000, 4096};
  for (const Case& c : kCases)
    for (int64_t elements : sizes)
      std::printf("{\"case\": \"%s\", \"elements\": %lld, \"ns\": %.0f}\n", c.name, static_cast<long long>(elements),
                  run_ns(c, elements));
}
