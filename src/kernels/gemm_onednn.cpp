// Products by oneDNN's brgemm kernels, which run single-threaded inside our pool: rows are split over threads. The
// layout that brgemm asks for does not depend on the number of rows: weights are packed once for all shapes. oneDNN 3.2
// takes its slow reference implementation for a y whose rows are not adjacent (so columns cannot be split, either);
// such shapes are refused.
#include "base/rounded_up.h"
#include "kernels/gemm_backends.h"
#include "rlx/error.h"

#if RLX_HAS_ONEDNN

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/idle_objects.h"
#include "kernels/onednn.h"
#include "kernels/onednn_engine.h"
#include "kernels/thread_pool.h"

namespace rlx::kernels {
namespace {

using dnnl::memory;

memory::desc matrix(int64_t rows, int64_t cols, DType t, int64_t row_stride) {
  return memory::desc({rows, cols}, onednn_type(t), memory::dims{std::max(row_stride, cols), 1});
}
void* moved(void* data, DType t, int64_t elements) {
  return data ? static_cast<char*>(data) + elements * static_cast<int64_t>(byte_size(t)) : nullptr;
}

struct BlockedWeights {
  int64_t k = 0, n = 0;
  DType dtype = f32, x_dtype = f32;
  memory::desc desc;
  AlignedMemory data;
};

// The order in which arguments stand in Primitive and Call.
enum Argument { kX, kWeights, kY, kBias, kResidual, kScratch, kArguments };

// A primitive for blocks of one size.
struct Primitive {
  int64_t rows = 0;
  std::array<memory::desc, kArguments> descs;  // empty where there is none
  int residual_arg = 0;
  dnnl::matmul matmul;
};

// The memory objects of one call: they carry its pointers, so that calls at the same time need their own.
struct Call {
  std::array<memory, kArguments> memories;
  std::array<dnnl_exec_arg_t, kArguments> args{};
  std::array<int, kArguments> kinds{};
  int count = 0;

  explicit Call(const Primitive& p) {
    const int names[] = {DNNL_ARG_SRC,  DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                         DNNL_ARG_BIAS, p.residual_arg,   DNNL_ARG_SCRATCHPAD};
    for (int kind = 0; kind < kArguments; ++kind) {
      if (p.descs[kind].get_size() == 0) continue;
      memories[count] = memory(p.descs[kind], onednn_engine(), nullptr);
      args[count] = {names[kind], memories[count].get()};
      kinds[count++] = kind;
    }
  }
  void run(const Primitive& p, const std::array<void*, kArguments>& data) const {
    for (int i = 0; i < count; ++i) memories[i].set_data_handle(data[kinds[i]]);
    dnnl_primitive_execute(p.matmul.get(), onednn_stream().get(), count, args.data());
  }
};

// A primitive and its calls that are not in use.
class CallPool {
 public:
  CallPool(Primitive primitive, int threads)
      : primitive_(std::move(primitive)), calls_(threads, [&] { return Call(primitive_); }) {}
  const Primitive& primitive() const { return primitive_; }

  void run(const std::array<void*, kArguments>& data) const {
    calls_.with_one([&] { return Call(primitive_); }, [&](const Call& call) { call.run(primitive_, data); });
  }

 private:
  Primitive primitive_;
  IdleObjects<Call> calls_;
};

void append_activation(dnnl::post_ops& ops, Activation activation) {
  using dnnl::algorithm;
  switch (activation) {
    case Activation::none: return;
    case Activation::relu: return ops.append_eltwise(algorithm::eltwise_relu, 0, 0);
    case Activation::gelu_erf: return ops.append_eltwise(algorithm::eltwise_gelu_erf, 0, 0);
    case Activation::gelu_tanh: return ops.append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
    case Activation::silu: return ops.append_eltwise(algorithm::eltwise_swish, 1, 0);
    case Activation::sigmoid: return ops.append_eltwise(algorithm::eltwise_logistic, 0, 0);
    case Activation::tanh: return ops.append_eltwise(algorithm::eltwise_tanh, 0, 0);
    case Activation::relu6: return ops.append_eltwise(algorithm::eltwise_clip, 0, 6);
    case Activation::hard_swish: return ops.append_eltwise(algorithm::eltwise_hardswish, 1.0F / 6, 0.5F);
  }
}

void refuse_what_is_not_offered(const BlockedWeights& w, const GemmSpec& spec) {
  const Epilogue& e = spec.epilogue;
  auto refuse = [](auto&&... why) { fail(ErrorCode::unsupported, "oneDNN's product does not offer ", why...); };
  if (e.round_each_step) refuse("rounding at each step");
  if (e.alpha != 1 && e.bias) refuse("a scale before the bias");
  if (spec.m > 1 && spec.y_stride != w.n) refuse("rows of ", w.n, " that are ", spec.y_stride, " apart");
  if (spec.m > 1 && e.residual == Residual::separate && spec.residual_stride != w.n)
    refuse("a residual with rows of ", w.n, " that are ", spec.residual_stride, " apart");
  if (spec.y_dtype != f32 && spec.y_dtype != w.dtype) refuse(w.dtype, " weights for a result in ", spec.y_dtype);
  if (e.bias && e.bias_dtype != f32 && e.bias_dtype != w.dtype) refuse("a bias in ", e.bias_dtype);
}

Primitive make_primitive(const BlockedWeights& w, const GemmSpec& spec, int64_t rows) {
  Primitive p;
  p.rows = rows;
  const Epilogue& e = spec.epilogue;
  dnnl::post_ops ops;
  if (e.alpha != 1) ops.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(e.alpha), 0);
  if (!e.residual_first) append_activation(ops, e.activation);
  if (e.residual == Residual::in_place) ops.append_sum(1.0f);
  if (e.residual == Residual::separate) {
    p.residual_arg = DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1;
    p.descs[kResidual] = matrix(rows, w.n, spec.y_dtype, w.n);
    ops.append_binary(dnnl::algorithm::binary_add, p.descs[kResidual]);
  }
  if (e.residual_first) append_activation(ops, e.activation);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(ops);
  p.descs[kX] = matrix(rows, w.k, w.x_dtype, spec.x_stride);
  p.descs[kWeights] = w.desc;
  p.descs[kY] = matrix(rows, w.n, spec.y_dtype, w.n);
  if (e.bias) p.descs[kBias] = matrix(1, w.n, e.bias_dtype, w.n);
  const auto desc =
      e.bias ? dnnl::matmul::primitive_desc(onednn_engine(), p.descs[kX], w.desc, p.descs[kBias], p.descs[kY], attr)
             : dnnl::matmul::primitive_desc(onednn_engine(), p.descs[kX], w.desc, p.descs[kY], attr);
  const std::string implementation = desc.impl_info_str();
  if (implementation.rfind("ref", 0) == 0)
    fail(ErrorCode::unsupported, "oneDNN has only its reference implementation (", implementation,
         ") for this product");
  p.descs[kScratch] = desc.scratchpad_desc();
  p.matmul = dnnl::matmul(desc);
  return p;
}

class OnednnPlan : public GemmPlan {
 public:
  OnednnPlan(std::shared_ptr<const BlockedWeights> weights, const GemmSpec& spec)
      : weights_(std::move(weights)), spec_(spec) {
    refuse_what_is_not_offered(*weights_, spec);
    if (spec.m == 0) return;
    // brgemm's tiles have some eight rows; each part reads all the weights.
    const int threads = spec.threads;
    row_parts_ = std::clamp<int64_t>(spec.m / 8, 1, threads);
    for (int64_t i = 0; i < row_parts_; ++i)
      if (!find(row(i + 1) - row(i)))
        calls_.push_back(std::make_unique<CallPool>(make_primitive(*weights_, spec, row(i + 1) - row(i)), threads));
    for (const auto& calls : calls_)
      slot_bytes_ = std::max(slot_bytes_, aligned(calls->primitive().descs[kScratch].get_size()));
  }

  size_t scratch_bytes() const override { return slot_bytes_ * static_cast<size_t>(spec_.threads); }

  void run(const GemmOperands& o, void* scratch, ThreadPool& pool) const noexcept override {
    pool.parallel_for(spec_.threads, row_parts_, [&](int64_t part, int slot) {
      const SingleThreadedOpenMp guard;
      const int64_t first = row(part);
      std::array<void*, kArguments> data{};
      data[kX] = moved(const_cast<void*>(o.x), weights_->x_dtype, first * spec_.x_stride);
      data[kWeights] = weights_->data.get();
      data[kY] = moved(o.y, spec_.y_dtype, first * spec_.y_stride);
      data[kBias] = const_cast<void*>(o.bias);
      data[kResidual] = moved(const_cast<void*>(o.residual), spec_.y_dtype, first * spec_.residual_stride);
      data[kScratch] = static_cast<char*>(scratch) + slot_bytes_ * static_cast<size_t>(slot);
      find(row(part + 1) - first)->run(data);
    });
  }

 private:
  int64_t row(int64_t part) const { return spec_.m * part / row_parts_; }
  const CallPool* find(int64_t rows) const {
    for (const auto& calls : calls_)
      if (calls->primitive().rows == rows) return calls.get();
    return nullptr;
  }

  std::shared_ptr<const BlockedWeights> weights_;
  GemmSpec spec_;
  int64_t row_parts_ = 0;
  std::vector<std::unique_ptr<CallPool>> calls_;  // one for each height of a part: two at most
  size_t slot_bytes_ = 0;
};

void reorder(const memory::desc& from, const void* source, const memory::desc& to, void* target) {
  memory a(from, onednn_engine(), const_cast<void*>(source)), b(to, onednn_engine(), target);
  dnnl::reorder(a, b).execute(onednn_stream(), a, b);
}

// dnnl::error becomes ours.
template <class Body>
auto with_onednn(Body body) {
  const SingleThreadedOpenMp guard;
  try {
    return body();
  } catch (const dnnl::error& error) {
    fail(error.status == dnnl_out_of_memory ? ErrorCode::out_of_memory : ErrorCode::unsupported,
         "oneDNN does not take this product: ", error.what());
  }
}

class OnednnWeights : public PackedWeights {
 public:
  OnednnWeights(const WeightsSpec& spec, std::shared_ptr<const BlockedWeights> weights, size_t bytes)
      : PackedWeights(spec, GemmBackend::onednn, bytes), weights_(std::move(weights)) {}

  std::shared_ptr<const GemmPlan> plan(const GemmSpec& spec) const override {
    return with_onednn([&] { return std::make_shared<OnednnPlan>(weights_, spec); });
  }

 private:
  std::shared_ptr<const BlockedWeights> weights_;
};

}  // namespace

std::shared_ptr<const PackedWeights> pack_onednn(const WeightsSpec& spec, const void* data) {
  if (spec.dtype != spec.x_dtype || (spec.dtype != f32 && spec.dtype != bf16 && spec.dtype != f16))
    fail(ErrorCode::unsupported, "oneDNN's product does not offer ", spec.x_dtype, " with weights in ", spec.dtype);
  if (spec.k == 0 || spec.n == 0) fail(ErrorCode::unsupported, "oneDNN's product does not offer empty weights");
  return with_onednn([&]() -> std::shared_ptr<const PackedWeights> {
    auto w = std::make_shared<BlockedWeights>();
    w->k = spec.k, w->n = spec.n, w->dtype = spec.dtype, w->x_dtype = spec.x_dtype;
    constexpr int64_t kTypicalRows = 128;
    const memory::desc any({spec.k, spec.n}, onednn_type(spec.dtype), memory::format_tag::any);
    w->desc = dnnl::matmul::primitive_desc(onednn_engine(), matrix(kTypicalRows, spec.k, spec.x_dtype, spec.k), any,
                                           matrix(kTypicalRows, spec.n, spec.x_dtype, spec.n))
                  .weights_desc();
    w->data = aligned_memory(w->desc.get_size());
    const memory::desc source({spec.k, spec.n}, onednn_type(spec.dtype), memory::dims{spec.k_stride, spec.n_stride});
    reorder(source, data, w->desc, w->data.get());
    const size_t bytes = w->desc.get_size();
    return std::make_shared<OnednnWeights>(spec, std::move(w), bytes);
  });
}

}  // namespace rlx::kernels

#else

namespace rlx::kernels {

std::shared_ptr<const PackedWeights> pack_onednn(const WeightsSpec&, const void*) {
  fail(ErrorCode::unsupported, "this build has no oneDNN; take GemmBackend::automatic, or build with oneDNN 3");
}

}  // namespace rlx::kernels

#endif  // RLX_HAS_ONEDNN
