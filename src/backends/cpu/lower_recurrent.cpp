// lstm, gru, rnn. A layer is one product for the inputs of all steps, followed by its recurrence, whose sequences (and
// directions) are split over threads. Constant weights are packed once, when lowering. In f16 and bf16 the product's
// results are f32.
#include <cstring>

#include "backends/cpu/lowerings.h"
#include "kernels/recurrent/recurrent.h"
#include "rlx/ops/recurrent.h"

namespace rlx::cpu {
namespace {

/// The product of a layer's input with its weights, in one direction. The weights are packed if they are constant.
struct InputProduct {
  kernels::PreparedGemm packed;
  kernels::PreparedBatchedGemm batched;
  int64_t w_ih_at = 0;  // offset of the weights in w_ih, in elements

  size_t scratch_bytes() const { return packed ? packed.scratch_bytes() : batched.scratch_bytes(); }
  std::string strategy() const { return packed ? packed.strategy() : batched.strategy(); }
  void run(const std::byte* x, const std::byte* w, std::byte* y, const std::byte* bias, std::byte* scratch) const {
    if (packed) packed.run({x, y, bias, nullptr}, scratch, thread_pool());
    else batched.run({x, w, y, bias, nullptr}, scratch, thread_pool());
  }
};

class RecurrentStep final : public Step {
 public:
  RecurrentStep(const LoweringContext& c, kernels::RecurrentCell cell, int64_t hidden, int64_t layers, bool both)
      : cell_(cell), dtype_(c.operands[0].dtype), layers_(layers), directions_(both ? 2 : 1),
        batch_(c.operands[0].shape[0]), steps_(c.operands[0].shape[1]), hidden_(hidden),
        rows_(kernels::recurrent_gates(cell) * hidden), first_state_(cell == kernels::RecurrentCell::gru ? 5 : 4),
        stateful_(c.operands.size() > first_state_), element_(c.operands[0].element_bytes()),
        sums_dtype_(dtype_ == f16 || dtype_ == bf16 ? f32 : dtype_), threads_(c.threads) {
    int64_t at = 0, inputs = c.operands[0].shape[2];
    const Tensor* w_ih = inputs > 0 ? c.bound(1) : nullptr;
    for (int64_t layer = 0; layer < layers_; ++layer) {
      int64_t columns = layer == 0 ? inputs : directions_ * hidden_;
      for (int64_t direction = 0; direction < directions_; ++direction, at += rows_ * columns)
        products_.push_back(product(c, w_ih, at, columns));
    }
    reads_w_ih_ = !w_ih;
    if (!products_.empty()) set_strategy([first = products_.front()] { return first.strategy(); });
    pack_w_hh(c);

    for (const InputProduct& p : products_) product_scratch_ = std::max(product_scratch_, aligned(p.scratch_bytes()));
    size_t tokens = static_cast<size_t>(batch_ * steps_);
    products_bytes_ =
        aligned(tokens * static_cast<size_t>(rows_) * byte_size(sums_dtype_) + kernels::kRecurrentSlack_bytes);
    layer_bytes_ = aligned(tokens * static_cast<size_t>(directions_ * hidden_) * element_);
    const size_t one = kernels::recurrent_scratch_bytes(args(), 1);
    task_bytes_ = aligned(one), sequence_bytes_ = aligned(kernels::recurrent_scratch_bytes(args(), 2) - one);
  }

  size_t scratch_bytes() const override {
    auto blocks = static_cast<size_t>(directions_);
    return product_scratch_ + blocks * products_bytes_ + (layers_ > 1 ? 2 : 0) * layer_bytes_ +
           (packed_ ? 0 : blocks * weight_bytes()) + static_cast<size_t>(threads_) * task_bytes_ +
           blocks * static_cast<size_t>(batch_) * sequence_bytes_;
  }
  bool reads_operand(size_t i) const override { return i == 1 ? reads_w_ih_ : i == 2 ? !packed_ : true; }
  std::string kernel() const override { return text_of("recurrent ", dtype_, " ", batch_, "x", steps_, "x", hidden_); }

  void run(const StepArgs& step) const noexcept override {
    std::byte* free = step.scratch;
    auto reserve = [&](size_t bytes) { return std::exchange(free, free + bytes); };
    std::byte* product_scratch = reserve(product_scratch_);
    std::byte* products = reserve(static_cast<size_t>(directions_) * products_bytes_);
    std::byte* layer_outputs[2] = {};
    if (layers_ > 1) layer_outputs[0] = reserve(layer_bytes_), layer_outputs[1] = reserve(layer_bytes_);
    std::byte* w_hh = packed_ ? nullptr : reserve(static_cast<size_t>(directions_) * weight_bytes());

    const std::byte* x = step.in<std::byte>(0);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      std::byte* y = layer + 1 == layers_ ? step.out<std::byte>() : layer_outputs[layer % 2];
      for (int64_t direction = 0; direction < directions_; ++direction) {
        int64_t block = layer * directions_ + direction;
        const InputProduct& p = products_[size_t(block)];
        if (batch_ * steps_ > 0)
          p.run(x, operand(step, 1, p.w_ih_at), products + size_t(direction) * products_bytes_,
                operand(step, 3, block * rows_), product_scratch);
        if (!packed_)
          kernels::pack_recurrent(cell_, dtype_, hidden_, operand(step, 2, block * rows_ * hidden_),
                                  w_hh + size_t(direction) * weight_bytes());
      }
      run_recurrence(step, layer, products,
                     packed_ ? packed_.get() + size_t(layer * directions_) * weight_bytes() : w_hh, y, free);
      x = y;
    }
  }

 private:
  size_t weight_bytes() const { return aligned(kernels::recurrent_weight_bytes(cell_, dtype_, hidden_)); }
  const std::byte* operand(const StepArgs& step, size_t i, int64_t element) const {
    return step.in<std::byte>(i) + static_cast<size_t>(element) * element_;
  }
  kernels::RecurrentArgs args() const {
    kernels::RecurrentArgs a;
    a.cell = cell_, a.dtype = dtype_, a.hidden = hidden_, a.steps = steps_;
    a.y_step_stride = directions_ * hidden_, a.y_batch_stride = steps_ * a.y_step_stride;
    return a;
  }

  InputProduct product(const LoweringContext& c, const Tensor* w_ih, int64_t at, int64_t columns) const {
    InputProduct p;
    p.w_ih_at = at;
    kernels::Epilogue epilogue;
    epilogue.bias = true, epilogue.bias_dtype = dtype_;
    if (w_ih) {
      auto bytes =
          w_ih->bytes().subspan(static_cast<size_t>(at) * element_, static_cast<size_t>(rows_ * columns) * element_);
      kernels::WeightsSpec weights{columns, rows_, 1, columns, dtype_, dtype_, c.threads};
      weights.policy = c.policy;
      weights.rows = kernels::rows_for_packing(weights, batch_ * steps_);
      kernels::GemmSpec spec;
      spec.m = batch_ * steps_, spec.x_stride = columns, spec.y_stride = rows_, spec.y_dtype = sums_dtype_;
      spec.epilogue = epilogue, spec.threads = c.threads;
      p.packed = c.packed.pack(weights, Tensor::borrow(dtype_, {rows_, columns}, bytes, w_ih->owner()))->prepare(spec);
      return p;
    }
    kernels::BatchedGemmSpec spec;
    spec.m = batch_ * steps_, spec.n = rows_, spec.k = columns;
    spec.lhs_m_stride = columns, spec.rhs_k_stride = 1, spec.rhs_n_stride = columns, spec.y_m_stride = rows_;
    spec.lhs_dtype = spec.rhs_dtype = dtype_, spec.y_dtype = sums_dtype_;
    spec.epilogue = epilogue, spec.threads = c.threads, spec.policy = c.policy;
    p.batched = kernels::prepare_batched_gemm(spec);
    return p;
  }

  void pack_w_hh(const LoweringContext& c) {
    const Tensor* w_hh = c.bound(2);
    if (!w_hh) return;
    auto blocks = static_cast<size_t>(layers_ * directions_);
    packed_.reset(static_cast<std::byte*>(::operator new(blocks* weight_bytes() + 1, std::align_val_t(64))),
                  [](std::byte* p) { ::operator delete(p, std::align_val_t(64)); });
    for (size_t block = 0; block < blocks; ++block)
      kernels::pack_recurrent(cell_, dtype_, hidden_,
                              w_hh->bytes().data() + block * static_cast<size_t>(rows_ * hidden_) * element_,
                              packed_.get() + block * weight_bytes());
  }

  /// Runs the recurrence of a layer. The two directions are treated as twice as many sequences, which are split over
  /// threads.
  void run_recurrence(const StepArgs& step, int64_t layer, const std::byte* products, const std::byte* w_hh,
                      std::byte* y, std::byte* scratch) const {
    double work =
        static_cast<double>(directions_ * batch_ * steps_ * rows_) * (static_cast<double>(hidden_) * 0.03 + 1);
    for_ranges(step, directions_ * batch_, 1, work, [&](int64_t begin, int64_t end, int64_t task) {
      std::byte* own = scratch + static_cast<size_t>(task) * task_bytes_ + static_cast<size_t>(begin) * sequence_bytes_;
      while (begin < end) {
        int64_t direction = begin / batch_, first = begin % batch_, last = std::min(batch_, first + end - begin);
        int64_t block = layer * directions_ + direction;
        kernels::RecurrentArgs a = args();
        a.reverse = direction == 1;
        a.w_hh = w_hh + size_t(direction) * weight_bytes();
        a.products = products + size_t(direction) * products_bytes_;
        a.y = y + static_cast<size_t>(direction * hidden_) * element_;
        bool lstm = cell_ == kernels::RecurrentCell::lstm;
        if (cell_ == kernels::RecurrentCell::gru) a.b_hh = operand(step, 4, block * rows_);
        auto state = static_cast<size_t>(block * batch_ * hidden_) * element_;
        if (stateful_) a.h0 = step.in<std::byte>(first_state_) + state;
        if (stateful_ && lstm) a.c0 = step.in<std::byte>(first_state_ + 1) + state;
        a.h_n = step.out<std::byte>(1) + state;
        if (lstm) a.c_n = step.out<std::byte>(2) + state;
        kernels::recurrent(a, first, last, own);
        begin += last - first;
      }
    });
  }

  kernels::RecurrentCell cell_;
  DType dtype_;
  int64_t layers_, directions_, batch_, steps_, hidden_, rows_;
  size_t first_state_;
  bool stateful_, reads_w_ih_ = true;
  size_t element_, product_scratch_ = 0, products_bytes_ = 0, layer_bytes_ = 0;
  DType sums_dtype_;  // of the products and of what gates are computed in
  int threads_;
  size_t task_bytes_ = 0, sequence_bytes_ = 0;  // scratch of a task, and for each of its sequences
  std::vector<InputProduct> products_;          // for each layer and direction
  std::shared_ptr<std::byte> packed_;           // the packed w_hh of each, one behind the other, if it is constant
};

}  // namespace

std::string when_recurrent(const Question& q) {
  DType t = q.operands[0].dtype;
  return t == f32 || t == f64 ? "" : text_of("no kernel for steps of ", t);
}
std::string when_recurrent_layers(const Question& q) {
  DType t = q.operands[0].dtype;
  return t == f16 || t == bf16 ? "" : when_recurrent(q);
}

Prepared lower_recurrent(const LoweringContext& c) {
  if (c.node.op == &op::rnn) {
    const auto& a = c.attrs<RnnAttrs>();
    auto cell = a.relu ? kernels::RecurrentCell::rnn_relu : kernels::RecurrentCell::rnn_tanh;
    return std::make_unique<RecurrentStep>(c, cell, a.hidden_size, a.num_layers, a.bidirectional);
  }
  const auto& a = c.attrs<RecurrentAttrs>();
  auto cell = c.node.op == &op::lstm ? kernels::RecurrentCell::lstm : kernels::RecurrentCell::gru;
  return std::make_unique<RecurrentStep>(c, cell, a.hidden_size, a.num_layers, a.bidirectional);
}

}  // namespace rlx::cpu
