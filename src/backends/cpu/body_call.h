// How a step calls a sub-graph of scalars, such as the combiner or comparator that a user wrote for reduce, scatter or
// sort. The sub-graph's arena and pointers are in the scratch of the calling step.
#pragma once

#include <cstring>

#include "backends/cpu/lowering.h"
#include "base/rounded_up.h"

namespace rlx::cpu {

inline constexpr size_t kScalar = 16;  // bytes of the widest element

/// A sub-graph whose inputs and outputs are scalars.
class BodyCall {
 public:
  BodyCall(const LoweringContext& c, const Graph& body) : body_(c.body_plan({body})) {
    for (const Type& t : body.output_types()) sizes_.push_back(byte_size(t.dtype));
  }
  size_t scratch_bytes() const { return body_.arena_bytes() + body_.table_bytes() + aligned(sizes_.size() * kScalar); }
  /// The sub-graph with the memory and the control of one run; the BodyCall must outlive it. Set `inputs`, call it,
  /// then read `result(r)`.
  struct Ready : BodyPlan::Ready {
    const BodyCall& call;
    std::byte* results;
    RunControl& control;
    void operator()() const noexcept { run(1, control); }
    const std::byte* result(size_t r) const { return results + r * kScalar; }
  };
  Ready ready(std::byte* scratch, RunControl& control) const noexcept {
    std::byte* table = scratch + body_.arena_bytes();
    Ready r{body_.ready(scratch, table), *this, table + body_.table_bytes(), control};
    for (size_t o = 0; o < sizes_.size(); ++o) r.outputs[o] = r.results + o * kScalar;
    return r;
  }
  size_t size(size_t r) const { return sizes_[r]; }

 private:
  BodyPlan body_;
  std::vector<size_t> sizes_;
};

/// A sub-graph of 2n inputs and n outputs that accumulates elements into n cells: cells = body(cells, elements).
class Fold {
 public:
  Fold(const LoweringContext& c, const Graph& body, size_t operands) : call_(c, body), n_(operands) {}
  size_t scratch_bytes() const { return call_.scratch_bytes(); }
  struct Ready {
    BodyCall::Ready body;
    size_t n;
    /// `cell(i)` and `element(i)` return the addresses of the scalars of operand i.
    template <class Cell, class Element>
    void operator()(Cell cell, Element element) const noexcept {
      for (size_t i = 0; i < n; ++i) body.inputs[i] = cell(i), body.inputs[n + i] = const_cast<std::byte*>(element(i));
      body();
      for (size_t i = 0; i < n; ++i) std::memcpy(cell(i), body.result(i), body.call.size(i));
    }
  };
  Ready ready(std::byte* scratch, RunControl& control) const noexcept { return {call_.ready(scratch, control), n_}; }
  size_t size(size_t i) const { return call_.size(i); }

 private:
  BodyCall call_;
  size_t n_;
};

}  // namespace rlx::cpu
