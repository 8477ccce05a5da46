// Calling a sub-graph of scalars from a kernel: combiners and comparators. The body is a schedule of its own; its
// memory is part of the calling step's scratch.
#pragma once

#include <cstring>

#include "backends/cpu/schedule.h"

namespace rlx::cpu {

inline constexpr size_t kScalar = 16;  // bytes: the widest element

inline size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// A body of scalars, ready to be called: 2n in, m out.
class BodyCall {
 public:
  BodyCall(const LoweringContext& c, const Graph& body)
      : body_(c.nested(body)), inputs_(body.inputs().size()), outputs_(body.outputs().size()) {
    for (const Type& t : body.output_types()) sizes_.push_back(byte_size(t.dtype));
  }
  size_t scratch_bytes() const {
    return rounded(body_->arena_bytes()) + rounded((body_->pointer_count() + inputs_ + outputs_) * sizeof(void*)) +
           rounded(outputs_ * kScalar);
  }
  /// In one run's scratch.
  struct Ready {
    const BodyCall& call;
    std::byte* arena;
    void **pointers, **inputs, **outputs;
    std::byte* results;
    void operator()() const noexcept {
      call.body_->run(pointers, arena, {inputs, call.inputs_}, {outputs, call.outputs_}, 1);
    }
    const std::byte* result(size_t r) const { return results + r * kScalar; }
  };
  Ready ready(std::byte* scratch) const noexcept {
    Ready r{*this, scratch, nullptr, nullptr, nullptr, nullptr};
    r.pointers = reinterpret_cast<void**>(scratch + rounded(body_->arena_bytes()));
    r.inputs = r.pointers + body_->pointer_count();
    r.outputs = r.inputs + inputs_;
    r.results = scratch + rounded(body_->arena_bytes()) +
                rounded((body_->pointer_count() + inputs_ + outputs_) * sizeof(void*));
    body_->resolve(r.pointers, scratch);
    for (size_t o = 0; o < outputs_; ++o) r.outputs[o] = r.results + o * kScalar;
    return r;
  }
  size_t size(size_t r) const { return sizes_[r]; }

 private:
  std::shared_ptr<const Schedule> body_;
  size_t inputs_, outputs_;
  std::vector<size_t> sizes_;
};

/// Running scalars in place: cell i = body(cell i, element i).
class Fold {
 public:
  Fold(const LoweringContext& c, const Graph& body, size_t operands) : call_(c, body), n_(operands) {}
  size_t scratch_bytes() const { return call_.scratch_bytes(); }
  struct Ready {
    BodyCall::Ready body;
    size_t n;
    /// `cells[i]`, `elements[i]`: the scalars of operand i.
    template <class Cell, class Element>
    void operator()(Cell cell, Element element) const noexcept {
      for (size_t i = 0; i < n; ++i) body.inputs[i] = cell(i), body.inputs[n + i] = const_cast<std::byte*>(element(i));
      body();
      for (size_t i = 0; i < n; ++i) std::memcpy(cell(i), body.result(i), body.call.size(i));
    }
  };
  Ready ready(std::byte* scratch) const noexcept { return {call_.ready(scratch), n_}; }
  size_t size(size_t i) const { return call_.size(i); }

 private:
  BodyCall call_;
  size_t n_;
};

}  // namespace rlx::cpu
