// Lowers attention and rotary positions. Attention is a kernel call for each batch, head and range of queries, which
// reads q, k and v in their own layout. The gradient has a task for each batch and head of k; if these are few it has
// several, whose sums are then added. The kernel, its blocks and the tasks are planned by
// kernels/attention/attention_plan.h.
#include <algorithm>
#include <cstring>

#include "backends/cpu/lowerings.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/attention/rope.h"
#include "plan/byte_offset.h"
#include "rlx/ops/attention.h"

namespace rlx::cpu {
namespace {

/// The extents of an operand, and the strides from one batch, head and position to the next, in elements.
struct Heads {
  int64_t batch = 1, positions = 1, width = 1;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  Heads(const View& v, AttentionLayout layout, int64_t heads) {
    size_t rank = v.shape.size();
    if (layout == AttentionLayout::packed) {
      bool batched = rank == 3;
      batch = batched ? v.shape[0] : 1;
      batch_stride = batched ? v.strides[0] : 0;
      positions = v.shape[rank - 2], row_stride = v.strides[rank - 2];
      width = v.shape[rank - 1] / heads;
      head_stride = width;
      return;
    }
    bool heads_first = layout == AttentionLayout::bhsd;
    batch = v.shape[0], batch_stride = v.strides[0];
    head_stride = v.strides[heads_first ? 1 : 2];
    positions = v.shape[heads_first ? 2 : 1], row_stride = v.strides[heads_first ? 2 : 1];
    width = v.shape[3];
  }
  int64_t offset(int64_t b, int64_t h) const { return b * batch_stride + h * head_stride; }
};

/// The arguments of attention and of its gradient, from the operands.
struct Attending {
  Heads q, k, v;
  DType k_dtype, v_dtype;
  AttentionMask mask;
  int64_t heads, group;  ///< heads of q, and how many of them share a head of k
  /// With one query a head, the heads that share keys are the queries of one call, so that keys and values are read
  /// once. All of them see the same keys: those from `first_key` on.
  bool heads_are_queries = false;
  int64_t first_key = 0;
  kernels::AttentionArgs args;
  kernels::AttentionProblem problem;
  int64_t mask_batch_stride = 0, bias_batch_stride = 0, bias_head_stride = 0;
  size_t mask_operand, mask_bytes = 0;

  Attending(const LoweringContext& c, const AttentionAttrs& a, size_t mask_at, bool joins_heads)
      : q(c.operands[0], a.layout, a.heads), k(c.operands[1], a.layout, a.kv_heads.value_or(a.heads)),
        v(c.operands[2], a.layout, a.kv_heads.value_or(a.heads)), k_dtype(c.operands[1].dtype),
        v_dtype(c.operands[2].dtype), mask(a.mask), heads(a.heads),
        group(a.heads / std::max<int64_t>(a.kv_heads.value_or(a.heads), 1)), mask_operand(mask_at) {
    args.dtype = c.operands[0].dtype;
    if (is_block(k_dtype)) args.k_format = k_dtype;
    if (is_block(v_dtype)) args.v_format = v_dtype;
    args.q_stride = q.row_stride, args.k_stride = k.row_stride, args.v_stride = v.row_stride;
    args.q_rows = q.positions, args.k_rows = k.positions;
    args.head_dim = q.width, args.value_dim = v.width;
    args.scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(q.width)));
    args.soft_cap = a.softcap.value_or(0);
    if (a.window) args.left = *a.window, args.right = *a.window;
    if (a.causal) args.right = 0;
    problem = kernels::problem_of(args);
    problem.batch = q.batch, problem.heads = heads, problem.kv_heads = a.kv_heads.value_or(heads);
    problem.has_bias = mask == AttentionMask::bias, problem.threads = c.threads;
    heads_are_queries = joins_heads && group > 1 && q.positions == 1;
    if (heads_are_queries) {
      problem.heads = problem.kv_heads, problem.q_rows = group;
      if (args.left >= 0) first_key = std::max<int64_t>(0, k.positions - 1 - args.left);
      args.q_rows = group, args.q_stride = q.head_stride;
      args.k_rows -= first_key, problem.k_rows = args.k_rows;
      args.left = args.right = -1;
    }
    args.strategy = kernels::plan_attention(problem, kernels::attention_target());
    if (mask == AttentionMask::none) return;
    const View& m = c.operands[mask_operand];
    mask_bytes = m.element_bytes();
    if (mask == AttentionMask::key_padding) {  // [B or 1, ..., Sk], dense
      args.key_mask_dtype = m.dtype;
      mask_batch_stride = m.count() == k.positions ? 0 : k.positions;
      return;
    }
    args.bias_dtype = m.dtype;  // broadcasts to [B, H, Sq, Sk], right-aligned
    auto stride = [&](size_t from_end) {
      return m.shape.size() < from_end || m.shape[m.shape.size() - from_end] == 1
                 ? 0
                 : m.strides[m.strides.size() - from_end];
    };
    args.bias_col_stride = stride(1), args.bias_row_stride = stride(2);
    bias_head_stride = stride(3), bias_batch_stride = stride(4);
    if (heads_are_queries) args.bias_row_stride = bias_head_stride;
  }
  /// The arguments for a batch and a head of q; `out` stays null.
  kernels::AttentionArgs of(const StepArgs& step, int64_t b, int64_t h) const {
    kernels::AttentionArgs call = args;
    auto at = [&](size_t i, DType dtype, const Heads& layout, int64_t head, int64_t row) {
      return step.in<std::byte>(i) + byte_offset(dtype, layout.offset(b, head) + row * layout.row_stride);
    };
    call.q = at(0, args.dtype, q, h, 0);
    call.k = at(1, k_dtype, k, h / group, first_key), call.v = at(2, v_dtype, v, h / group, first_key);
    auto mask_of = [&](int64_t element) {
      return step.in<std::byte>(mask_operand) + element * static_cast<int64_t>(mask_bytes);
    };
    if (mask == AttentionMask::key_padding) call.key_mask = mask_of(b * mask_batch_stride + first_key);
    if (mask == AttentionMask::bias) call.bias = mask_of(bias_offset(b, h) + first_key * args.bias_col_stride);
    return call;
  }
  int64_t bias_offset(int64_t b, int64_t h) const { return b * bias_batch_stride + h * bias_head_stride; }
};

std::string when_mask(const Question& q, size_t operand) {
  const auto& a = q.node.attrs.as<AttentionAttrs>();
  if (a.mask == AttentionMask::none) return "";
  DType t = q.operands[0].dtype, mask = q.operands[operand].dtype;
  if (a.mask == AttentionMask::key_padding && mask != boolean && mask != f32 && mask != t)
    return text_of("a key mask of ", mask, " beside ", t);
  if (a.mask == AttentionMask::bias && mask != f32 && mask != t) return text_of("a bias of ", mask, " beside ", t);
  return "";
}

/// The gradient. Each task sums dk and dv in f32. If each head of k has one task, these sums belong to the thread: a
/// task converts them to the result, and the next task of the thread overwrites them. If a head has several tasks, each
/// has sums of its own, which are added before they are converted.
class AttentionBackwardStep final : public Step {
 public:
  AttentionBackwardStep(const LoweringContext& c, const AttentionAttrs& a)
      : at_(c, a, 4, false), ct_(c.operands[3], a.layout, a.heads), dq_(c.results[0], a.layout, a.heads),
        dk_(c.results[1], a.layout, a.heads / at_.group), dv_(c.results[2], a.layout, a.heads / at_.group),
        plan_(kernels::plan_attention_backward(at_.problem, kernels::attention_target())), threads_(c.threads),
        tasks_per_head_(plan_.tasks_per_head) {
    thread_bytes_ = aligned(static_cast<int64_t>(kernels::attention_backward_scratch_bytes(at_.args)));
    dk_bytes_ = aligned(at_.k.positions * kernels::attention_sum_stride(at_.k.width) * kFloat);
    dv_bytes_ = aligned(at_.k.positions * kernels::attention_sum_stride(at_.v.width) * kFloat);
    if (at_.mask == AttentionMask::bias) {
      bias_count_ = c.results[3].count();
      bool shared = (at_.bias_batch_stride == 0 && at_.q.batch > 1) || (at_.bias_head_stride == 0 && at_.heads > 1) ||
                    (at_.args.bias_row_stride == 0 && tasks_per_head_ > 1);
      if (shared && threads_ > 1) bias_bytes_ = aligned(bias_count_ * kFloat);
    }
    set_strategy([plan = plan_] { return plan.text(); });
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(threads_ * (thread_bytes_ + bias_bytes_) + plan_.sums * (dk_bytes_ + dv_bytes_));
  }
  std::string kernel() const override { return "flash_attention_backward"; }

  void run(const StepArgs& step) const noexcept override {
    std::byte *sums = step.scratch + threads_ * thread_bytes_, *biases = sums + plan_.sums * (dk_bytes_ + dv_bytes_);
    auto* d_bias = bias_count_ > 0 ? step.out<float>(3) : nullptr;
    if (d_bias) std::fill_n(d_bias, bias_count_, 0.0f);
    if (bias_bytes_ > 0) std::memset(biases, 0, static_cast<size_t>(threads_ * bias_bytes_));
    const double work = 3 * kernels::attention_work_ns(at_.problem, kernels::cost_model());
    for_ranges(step, plan_.kv_heads * tasks_per_head_, 1, work, [&](int64_t begin, int64_t end, int64_t slot) {
      std::byte* own = step.scratch + slot * thread_bytes_;
      float* bias = bias_bytes_ > 0 ? reinterpret_cast<float*>(biases + slot * bias_bytes_) : d_bias;
      for (int64_t task = begin; task < end; ++task) {
        std::byte* mine = sums + (tasks_per_head_ == 1 ? slot : task) * (dk_bytes_ + dv_bytes_);
        run_task(step, task, mine, bias, own);
        if (tasks_per_head_ == 1) write_sums(step, task, mine);
      }
    });
    if (tasks_per_head_ > 1)
      for_ranges(step, plan_.kv_heads, 1, work * 0.1, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t kv_index = begin; kv_index < end; ++kv_index) {
          std::byte* first = sums + kv_index * tasks_per_head_ * (dk_bytes_ + dv_bytes_);
          for (int64_t i = 1; i < tasks_per_head_; ++i)
            add(first, first + i * (dk_bytes_ + dv_bytes_), dk_bytes_ + dv_bytes_);
          write_sums(step, kv_index, first);
        }
      });
    if (bias_bytes_ > 0)
      for (int64_t slot = 0; slot < threads_; ++slot)
        add(reinterpret_cast<std::byte*>(d_bias), biases + slot * bias_bytes_, bias_count_ * kFloat);
  }

 private:
  static constexpr int64_t kFloat = sizeof(float);
  static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  static void add(std::byte* to, const std::byte* from, int64_t bytes) {
    auto* sum = reinterpret_cast<float*>(to);
    const auto* more = reinterpret_cast<const float*>(from);
    for (int64_t i = 0; i < bytes / kFloat; ++i) sum[i] += more[i];
  }
  /// Number of blocks of queries that share a head of k.
  int64_t query_blocks() const { return at_.group * plan_.blocks; }

  void run_task(const StepArgs& step, int64_t task, std::byte* sums, float* d_bias, std::byte* scratch) const {
    const int64_t kv_index = task / tasks_per_head_, split = task % tasks_per_head_, kv_heads = at_.heads / at_.group;
    const int64_t b = kv_index / kv_heads, kv_head = kv_index % kv_heads;
    const auto bytes = static_cast<int64_t>(byte_size(at_.args.dtype));
    std::memset(sums, 0, static_cast<size_t>(dk_bytes_ + dv_bytes_));
    int64_t begin = query_blocks() * split / tasks_per_head_;
    const int64_t end = query_blocks() * (split + 1) / tasks_per_head_;
    while (begin < end) {
      const int64_t h = kv_head * at_.group + begin / plan_.blocks, first = begin % plan_.blocks;
      const int64_t last = std::min(plan_.blocks, first + end - begin), block = plan_.block_queries;
      kernels::AttentionBackwardArgs call;
      call.forward = at_.of(step, b, h);
      call.ct = step.in<std::byte>(3) + ct_.offset(b, h) * bytes, call.ct_stride = ct_.row_stride;
      call.dq = step.out<std::byte>(0) + dq_.offset(b, h) * bytes, call.dq_stride = dq_.row_stride;
      call.dk = reinterpret_cast<float*>(sums), call.dv = reinterpret_cast<float*>(sums + dk_bytes_);
      if (d_bias) call.d_bias = d_bias + at_.bias_offset(b, h);
      kernels::attention_backward(call, first * block, std::min(last * block, at_.q.positions), scratch);
      begin += last - first;
    }
  }
  void write_sums(const StepArgs& step, int64_t kv_index, const std::byte* sums) const {
    const int64_t kv_heads = at_.heads / at_.group, b = kv_index / kv_heads, h = kv_index % kv_heads;
    const DType t = at_.args.dtype;
    const auto put = [&](size_t result, const Heads& layout, const std::byte* from) {
      kernels::attention_round_sums(
          reinterpret_cast<const float*>(from), layout.positions, layout.width, t,
          step.out<std::byte>(result) + layout.offset(b, h) * static_cast<int64_t>(byte_size(t)), layout.row_stride);
    };
    put(1, dk_, sums), put(2, dv_, sums + dk_bytes_);
  }

  Attending at_;
  Heads ct_, dq_, dk_, dv_;
  kernels::AttentionBackwardStrategy plan_;
  int64_t threads_, tasks_per_head_;
  int64_t thread_bytes_, dk_bytes_, dv_bytes_, bias_count_ = 0;
  int64_t bias_bytes_ = 0;  ///< of the bias sums of a thread; 0 if threads add to the result directly
};

}  // namespace

std::string when_attention(const Question& q) {
  if (auto why = when::is_float({q.node, q.operands.first(1)}); !why.empty()) return why;
  DType t = q.operands[0].dtype;
  const auto& a = q.node.attrs.as<AttentionAttrs>();
  for (const Type& other : q.operands.subspan(1, 2)) {
    if (!is_block(other.dtype)) {
      if (other.dtype != t) return text_of("q, k and v of ", t, " and ", other.dtype);
      continue;
    }
    const int64_t heads = a.layout == AttentionLayout::packed ? a.kv_heads.value_or(a.heads) : 1;
    const int64_t length = info(other.dtype).block_elements;
    if (t == f64) return text_of("beside f64 keys and values of ", other.dtype, " are dequantized first");
    if (length != kernels::kBlockColumns) return text_of("blocks of ", length, " elements are dequantized first");
    if (const Dim& last = other.dims.back(); !last.is_static() || last.value() % (heads * length) != 0)
      return text_of("heads of ", other, " that are no whole blocks are dequantized first");
  }
  return when_mask(q, 3);
}

std::string when_attention_backward(const Question& q) {
  DType t = q.operands[0].dtype;
  if (t != f32 && t != f16 && t != bf16) return text_of("no kernel for gradients in ", t);
  for (const Type& other : q.operands.first(4))
    if (other.dtype != t) return text_of("q, k, v and ct of ", t, " and ", other.dtype);
  if (q.node.attrs.as<AttentionAttrs>().mask == AttentionMask::bias && q.operands[4].dtype != f32)
    return text_of("no kernel for the gradient of a bias in ", q.operands[4].dtype);
  return when_mask(q, 4);
}

bool attention_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  if (operand < 3) return strided::rows(node, operand, shape, strides);
  return node.attrs.as<AttentionAttrs>().mask == AttentionMask::bias;
}

bool attention_backward_strided(const Node& node, size_t operand, const Shape& shape,
                                std::span<const int64_t> strides) {
  return operand < 4 && strided::rows(node, operand, shape, strides);
}

Prepared lower_attention(const LoweringContext& c) {
  const auto& a = c.attrs<AttentionAttrs>();
  Attending at(c, a, 3, true);
  Heads y(c.results[0], a.layout, a.heads);
  at.args.out_stride = at.heads_are_queries ? y.head_stride : y.row_stride;
  const int64_t heads = at.problem.heads, heads_of_call = a.heads / heads, block = at.args.strategy.task_queries;
  int64_t blocks = divided_up(at.args.q_rows, block), all_blocks = at.q.batch * heads * blocks;
  size_t per_thread = (kernels::attention_scratch_bytes(at.args) + 63) / 64 * 64;
  auto bytes = static_cast<int64_t>(c.operands[0].element_bytes());
  const auto run = [=](const StepArgs& step) {
    const int64_t tasks = kernels::attention_tasks(at.problem, block, step.width, kernels::cost_model());
    thread_pool().parallel_for(tasks > 1 ? step.width : 1, tasks, [&](int64_t task, int slot) {
      int64_t begin = all_blocks * task / tasks;
      const int64_t end = all_blocks * (task + 1) / tasks;
      while (begin < end) {  // one call computes all blocks of a head that are in this task
        int64_t head = begin / blocks, first = begin % blocks, last = std::min(blocks, first + end - begin);
        int64_t b = head / heads, h = head % heads * heads_of_call;
        kernels::AttentionArgs call = at.of(step, b, h);
        call.out = step.out<std::byte>() + y.offset(b, h) * bytes;
        kernels::attention(call, first * block, std::min(last * block, call.q_rows),
                           step.scratch + per_thread * static_cast<size_t>(slot));
        begin += last - first;
      }
    });
  };
  return make_step("flash_attention", per_thread * static_cast<size_t>(c.threads), run,
                   [strategy = at.args.strategy] { return strategy.text(); });
}

Prepared lower_attention_backward(const LoweringContext& c) {
  return std::make_unique<AttentionBackwardStep>(c, c.attrs<AttentionAttrs>());
}

std::string when_rope(const Question& q) {
  const DType x = q.operands[0].dtype, table = q.operands[1].dtype;
  if (x != f32 && x != f16 && x != bf16) return text_of("no kernel rotates heads of ", x);
  return table == f32 || table == x ? "" : text_of("angles of ", table, " beside heads of ", x);
}

Prepared lower_rope(const LoweringContext& c) {
  const auto& a = c.attrs<RopeAttrs>();
  const View &x = c.operands[0], &table = c.operands[1];
  const Heads heads(x, a.layout, a.heads);
  kernels::RopeArgs rope;
  rope.dtype = x.dtype, rope.table_dtype = table.dtype;
  rope.positions = heads.positions, rope.heads = a.heads, rope.width = heads.width;
  rope.heads_first = a.layout == AttentionLayout::bhsd;
  rope.pairs = a.rotary_dims.value_or(heads.width) / 2, rope.side_by_side = a.style == RopeStyle::gptj;
  rope.table_stride = table.shape.size() == 1 ? rope.pairs : table.shape.back();
  if (table.count() > rope.positions * rope.table_stride)  // each batch has angles of its own
    rope.table_batch_stride = rope.positions * rope.table_stride;
  const int64_t rows = heads.batch * rope.positions * a.heads;
  const double work_ns = static_cast<double>(x.count()) * 0.2;
  return make_step("rope", 0, [=](const StepArgs& step) {
    kernels::RopeArgs call = rope;
    call.x = step.in(0), call.y = step.out(), call.cosines = step.in(1), call.sines = step.in(2);
    for_ranges(step, rows, 1, work_ns,
               [&](int64_t begin, int64_t end, int64_t) { kernels::rotate_rows(call, begin, end); });
  });
}

}  // namespace rlx::cpu
