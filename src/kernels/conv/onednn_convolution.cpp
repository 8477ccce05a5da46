// See the header. How a ConvolutionArgs becomes one of oneDNN's three convolutions:
// * forward: src = x, weights = w, dst = y.
// * input (backward data), for a dilated x: y is the gradient of src, x that of dst, and the kernel is reversed.
// * weights (backward weights): y is the gradient of the weights, so its spatial dims are the kernel's; w is the
//   gradient of dst. The batch of x becomes oneDNN's input channels, and the channels of x become oneDNN's batch. For a
//   dilated x, x and w exchange roles: x is dst and w is src.
//
// The file is longer than others because oneDNN's types, which forms and programs contain, should be seen nowhere else.
// From top to bottom: the forms of a convolution, programs of primitives, their runs, packed weights, and the plan,
// which has a task for each slice of the convolution (convolution_slices.h).
#include "kernels/conv/onednn_convolution.h"

#if RLX_HAS_ONEDNN

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/rounded_up.h"
#include "kernels/conv/convolution_slices.h"
#include "kernels/conv/onednn.h"
#include "kernels/conv/onednn_engine.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/threads/idle_objects.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using dnnl::algorithm;

/// A view of an operand with the dims that oneDNN expects. Strides may be 0 or negative.
struct Side {
  ConvolutionOperand operand = kX;
  DType dtype = f32;
  int64_t offset = 0;  ///< elements from the pointer
  Dims dims, strides;

  void append(int64_t dim, int64_t stride) { dims.push_back(dim), strides.push_back(stride); }
  /// Adds a spatial dim that is read backwards.
  void append_reversed(int64_t dim, int64_t stride) {
    offset += (dim - 1) * stride;
    append(dim, -stride);
  }
  bool has_positive_strides() const {
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] > 1 && strides[d] <= 0) return false;
    return true;
  }
  bool has_negative_stride() const {
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] > 1 && strides[d] < 0) return true;
    return false;
  }
};

/// The arguments of a oneDNN convolution, under oneDNN's names.
struct Convolution {
  ConvolutionForm form = ConvolutionForm::forward;
  Side src, weights, dst;
  Dims stride, dilation, low, high;

  /// Adds a spatial dim of the forward convolution: extents of src, weights and dst, stride, dilation and padding
  /// before src. False if oneDNN does not support the padding.
  bool append(int64_t inputs, int64_t taps, int64_t outputs, int64_t step, int64_t tap_step, int64_t before) {
    const int64_t after = (outputs - 1) * step + (taps - 1) * tap_step + 1 - inputs - before;
    stride.push_back(step), dilation.push_back(tap_step - 1), low.push_back(before), high.push_back(after);
    return before >= 0 && after + step > 0;
  }
};

std::optional<Convolution> as_forward(const ConvolutionArgs& a) {
  Convolution c;
  const int64_t group_out = a.out_channels / a.groups, group_in = a.in_channels / a.groups;
  c.src.operand = kX, c.weights.operand = kW, c.dst.operand = kY;
  c.src.dtype = c.weights.dtype = a.dtype, c.dst.dtype = a.out_dtype;
  c.src.append(a.batch, a.x_batch_stride), c.src.append(a.in_channels, a.x_channel_stride);
  c.dst.append(a.batch, a.y_batch_stride), c.dst.append(a.out_channels, a.y_channel_stride);
  if (a.groups > 1) c.weights.append(a.groups, group_out * a.w_out_stride);
  c.weights.append(group_out, a.w_out_stride), c.weights.append(group_in, a.w_in_stride);
  for (int d = 0; d < a.spatial; ++d) {
    if (a.lhs_dilation[d] != 1 ||
        !c.append(a.in_dims[d], a.kernel[d], a.out_dims[d], a.stride[d], a.rhs_dilation[d], a.low[d]))
      return {};
    c.src.append(a.in_dims[d], a.x_strides[d]), c.dst.append(a.out_dims[d], a.y_strides[d]);
    c.weights.append(a.kernel[d], a.w_strides[d]);
  }
  return c;
}

std::optional<Convolution> as_input_gradient(const ConvolutionArgs& a) {
  Convolution c;
  c.form = ConvolutionForm::input;
  const int64_t group_out = a.out_channels / a.groups, group_in = a.in_channels / a.groups;
  c.src.operand = kY, c.weights.operand = kW, c.dst.operand = kX;
  c.src.append(a.batch, a.y_batch_stride), c.src.append(a.out_channels, a.y_channel_stride);
  c.dst.append(a.batch, a.x_batch_stride), c.dst.append(a.in_channels, a.x_channel_stride);
  if (a.groups > 1) c.weights.append(a.groups, group_out * a.w_out_stride);
  c.weights.append(group_in, a.w_in_stride), c.weights.append(group_out, a.w_out_stride);
  for (int d = 0; d < a.spatial; ++d) {
    if (a.stride[d] != 1 || !c.append(a.out_dims[d], a.kernel[d], a.in_dims[d], a.lhs_dilation[d], a.rhs_dilation[d],
                                      (a.kernel[d] - 1) * a.rhs_dilation[d] - a.low[d]))
      return {};
    c.src.append(a.out_dims[d], a.y_strides[d]), c.dst.append(a.in_dims[d], a.x_strides[d]);
    c.weights.append_reversed(a.kernel[d], a.w_strides[d]);
  }
  return c;
}

std::optional<Convolution> as_weight_gradient(const ConvolutionArgs& a, int64_t batch_groups) {
  if (a.groups != 1) return {};
  Convolution c;
  c.form = ConvolutionForm::weights;
  const int64_t group_out = a.out_channels / batch_groups;
  c.src.operand = kX, c.weights.operand = kY, c.dst.operand = kW;
  c.src.append(a.in_channels, a.x_channel_stride), c.src.append(a.batch * batch_groups, a.x_batch_stride);
  c.dst.append(a.in_channels, a.w_in_stride), c.dst.append(a.out_channels, a.w_out_stride);
  if (batch_groups > 1) c.weights.append(batch_groups, group_out * a.y_channel_stride);
  c.weights.append(group_out, a.y_channel_stride), c.weights.append(a.batch, a.y_batch_stride);
  for (int d = 0; d < a.spatial; ++d) {
    if (a.lhs_dilation[d] != 1 ||
        !c.append(a.in_dims[d], a.out_dims[d], a.kernel[d], a.rhs_dilation[d], a.stride[d], a.low[d]))
      return {};
    c.src.append(a.in_dims[d], a.x_strides[d]), c.dst.append(a.kernel[d], a.w_strides[d]);
    c.weights.append(a.out_dims[d], a.y_strides[d]);
  }
  return c;
}

/// The weight gradient of a transposed convolution, whose input is oneDNN's dst.
std::optional<Convolution> as_transposed_weight_gradient(const ConvolutionArgs& a, int64_t batch_groups) {
  if (a.groups != 1) return {};
  Convolution c;
  c.form = ConvolutionForm::weights;
  const int64_t group_out = a.out_channels / batch_groups;
  c.src.operand = kW, c.weights.operand = kY, c.dst.operand = kX;
  c.src.append(a.in_channels, a.w_in_stride), c.src.append(a.out_channels, a.w_out_stride);
  c.dst.append(a.in_channels, a.x_channel_stride), c.dst.append(a.batch * batch_groups, a.x_batch_stride);
  if (batch_groups > 1) c.weights.append(batch_groups, group_out * a.y_channel_stride);
  c.weights.append(a.batch, a.y_batch_stride), c.weights.append(group_out, a.y_channel_stride);
  for (int d = 0; d < a.spatial; ++d) {
    if (a.rhs_dilation[d] != 1 || !c.append(a.kernel[d], a.out_dims[d], a.in_dims[d], a.lhs_dilation[d], a.stride[d],
                                            (a.out_dims[d] - 1) * a.stride[d] - a.low[d]))
      return {};
    c.src.append(a.kernel[d], a.w_strides[d]), c.dst.append(a.in_dims[d], a.x_strides[d]);
    c.weights.append_reversed(a.out_dims[d], a.y_strides[d]);
  }
  return c;
}

/// The oneDNN convolutions that compute `a`, the most suitable one first.
std::vector<Convolution> candidates(const ConvolutionArgs& a, int64_t batch_groups) {
  constexpr int64_t kManyTaps = 32;
  int64_t outputs = 1, taps = 1;
  bool is_dilated = false, runs_backwards = false;
  for (int d = 0; d < a.spatial; ++d) {
    outputs *= a.out_dims[d], taps *= a.kernel[d];
    is_dilated = is_dilated || a.lhs_dilation[d] > 1;
    runs_backwards = runs_backwards || (a.kernel[d] > 1 && a.w_strides[d] < 0);
  }
  std::vector<std::optional<Convolution>> all;
  if (a.dtype != f32) {  // of narrow floats the forward convolution alone
    if (!is_dilated && batch_groups == 1) all.push_back(as_forward(a));
    std::vector<Convolution> forward;
    for (auto& c : all)
      if (c) forward.push_back(std::move(*c));
    return forward;
  }
  const auto weights = [&] {
    all.push_back(is_dilated ? as_transposed_weight_gradient(a, batch_groups) : as_weight_gradient(a, batch_groups));
  };
  const auto values = [&] {
    if (batch_groups > 1) return;
    if (is_dilated || runs_backwards) all.push_back(as_input_gradient(a));
    if (!is_dilated) all.push_back(as_forward(a));
  };
  const bool is_wide = taps > outputs && taps >= kManyTaps;
  if (is_wide) weights();
  values();
  if (!is_wide) weights();
  std::vector<Convolution> found;
  for (auto& c : all)
    if (c) found.push_back(std::move(*c));
  return found;
}

/// Replaces the arbitrary strides of dims of extent 1 by those of a dense array: oneDNN checks all strides for overlap.
memory::desc desc_of(DType dtype, const Dims& dims, Dims strides) {
  for (size_t d = dims.size(); d-- > 0;)
    if (dims[d] == 1) strides[d] = d + 1 < dims.size() ? dims[d + 1] * strides[d + 1] : 1;
  // The stride of a batch of one must span the whole image, whichever of the other dims is the outermost.
  if (dims[0] == 1)
    for (size_t d = 1; d < dims.size(); ++d) strides[0] = std::max(strides[0], dims[d] * strides[d]);
  return {dims, onednn_type(dtype), strides};
}
memory::desc any_layout(const Side& side) { return {side.dims, onednn_type(side.dtype), memory::format_tag::any}; }
Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return strides;
}

/// Copies between a dense row-major array and one of other strides.
template <bool kToDense>
void move_strided(const Dims& dims, const Dims& strides, float* strided, float* dense) {
  const size_t last = dims.size() - 1;
  std::array<int64_t, DNNL_MAX_NDIMS> at{};
  for (;;) {
    for (int64_t i = 0; i < dims[last]; ++i, ++dense) {
      if constexpr (kToDense) *dense = strided[i * strides[last]];
      else strided[i * strides[last]] = *dense;
    }
    size_t d = last;
    for (;;) {
      if (d-- == 0) return;
      strided += strides[d];
      if (++at[d] < dims[d]) break;
      strided -= at[d] * strides[d];
      at[d] = 0;
    }
  }
}

constexpr int kPacked = kY + 1;  ///< the numbers from here on stand for weights that were packed in advance

/// Memory that the primitives read and write: an operand, packed weights, or scratch.
struct Buffer {
  memory::desc desc;
  int operand = -1;    ///< an ConvolutionOperand, kPacked + i, or -1 for scratch
  int64_t offset = 0;  ///< bytes
};
/// A primitive and its arguments, or an addition of one buffer to another of the same layout.
struct Stage {
  dnnl::primitive primitive;
  std::vector<std::pair<int, size_t>> args;  ///< DNNL_ARG_*, index of the buffer
  bool is_addition = false;
  size_t from = 0, to = 0;
};
/// Weights that are packed in advance: the buffer, and the weights before packing.
struct PackedSide {
  size_t buffer;
  Side side;
};

/// The copies and primitives that compute one slice of a convolution, on one thread.
struct Program {
  std::vector<Buffer> buffers;
  std::vector<Stage> stages;
  /// Operands that are copied to dense scratch memory before, or from it after, and the byte offset there. oneDNN
  /// accepts positive strides only, but a broadcast operand has strides of 0, and a reversed kernel negative ones.
  std::vector<std::pair<Side, int64_t>> copied_before, copied_after;
  int64_t scratch = 0;
  std::string name;
  bool packs_weights = false;      ///< w is constant: pack it in advance
  std::vector<PackedSide> packed;  ///< the i-th is the operand kPacked + i
  int64_t next_scratch = 0;        ///< offset at which the next scratch memory is reserved
  /// Whether the primitives of one partial sum reuse the scratch of those before. They cannot if operands are copied
  /// first (copied_before), because the copies of all partial sums are made before the first primitive runs.
  bool reuses_scratch = false;
  std::optional<size_t> result;     ///< the buffer of y, in the layout that the primitives make
  std::optional<size_t> to_result;  ///< y's own buffer, if that has another layout

  /// Reserves scratch memory; returns its offset in bytes.
  int64_t reserve(size_t bytes) {
    const int64_t at = next_scratch;
    next_scratch += static_cast<int64_t>(aligned(bytes));
    scratch = std::max(scratch, next_scratch);
    return at;
  }
  size_t add(memory::desc desc, int operand, int64_t offset) {
    buffers.push_back({std::move(desc), operand, offset});
    return buffers.size() - 1;
  }
  size_t add_scratch(const memory::desc& desc) { return add(desc, -1, reserve(desc.get_size())); }

  /// Adds the buffer of an operand: its own memory, or a dense copy if not all of its strides are positive.
  size_t add_operand(const Side& side, bool is_result) {
    if (side.has_positive_strides())
      return add(desc_of(side.dtype, side.dims, side.strides), side.operand,
                 side.offset * static_cast<int64_t>(byte_size(side.dtype)));
    const size_t buffer = add_scratch(desc_of(side.dtype, side.dims, dense_strides(side.dims)));
    (is_result ? copied_after : copied_before).emplace_back(side, buffers[buffer].offset);
    return buffer;
  }
  void add_reorder(size_t from, size_t to) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc desc(onednn_engine(), buffers[from].desc, onednn_engine(), buffers[to].desc,
                                             attr);
    Stage s{dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
    if (desc.scratchpad_desc().get_size() > 0)
      s.args.emplace_back(DNNL_ARG_SCRATCHPAD, add_scratch(desc.scratchpad_desc()));
    stages.push_back(std::move(s));
  }
  /// Whether a run needs w.
  bool reads_weights() const {
    const auto reads = [](const Buffer& b) { return b.operand == kW; };
    const auto copies = [](const auto& copied) { return copied.first.operand == kW; };
    return std::any_of(buffers.begin(), buffers.end(), reads) ||
           std::any_of(copied_before.begin(), copied_before.end(), copies);
  }
  /// Adds an input in the layout `wanted`: packed in advance, in its own memory, or reordered in each run.
  size_t add_input(const Side& side, const memory::desc& wanted) {
    if (packs_weights && side.operand == kW &&
        !(side.has_positive_strides() && desc_of(side.dtype, side.dims, side.strides) == wanted)) {
      const size_t buffer = add(wanted, kPacked + static_cast<int>(packed.size()), 0);
      packed.push_back({buffer, side});
      return buffer;
    }
    const size_t given = add_operand(side, false);
    if (buffers[given].desc == wanted) return given;
    const size_t buffer = add_scratch(wanted);
    add_reorder(given, buffer);
    return buffer;
  }
};

/// How a convolution's primitive writes its sums: over the result, or added to what the result holds.
enum class Into { result, added_result };

/// Adds a convolution's primitive and the reorders it needs. `wanted` are the layouts of the inputs, `made` is that of
/// the result. The first convolution of a program writes the result. Later ones are added to it: by the primitive
/// itself if `into` says so, else by an addition from a buffer of their own. False if oneDNN has only its reference
/// implementation.
template <class Primitive, class Desc>
bool add_convolution(Program& p, const Desc& desc, const std::array<std::pair<int, const Side*>, 2>& inputs,
                     const std::array<memory::desc, 2>& wanted, std::pair<int, const Side*> result,
                     const memory::desc& made, Into into) {
  const std::string name = desc.impl_info_str();
  if (name.find("ref") != std::string::npos) return false;
  const bool is_first = !p.result;
  if (is_first) {
    p.name = name;
    const size_t given = p.add_operand(*result.second, true);
    const bool is_direct = p.buffers[given].desc == made;
    p.result = is_direct ? given : p.add_scratch(made);
    if (!is_direct) p.to_result = given;
  }
  const int64_t scratch = p.next_scratch;  // behind the result's
  const size_t buffer = is_first || into == Into::added_result ? *p.result : p.add_scratch(made);
  std::vector<std::pair<int, size_t>> args;
  for (size_t i = 0; i < 2; ++i) args.emplace_back(inputs[i].first, p.add_input(*inputs[i].second, wanted[i]));
  args.emplace_back(result.first, buffer);
  args.emplace_back(DNNL_ARG_SCRATCHPAD, p.add_scratch(desc.scratchpad_desc()));
  p.stages.push_back({Primitive(desc), std::move(args)});
  if (buffer != *p.result) {
    Stage addition;
    addition.is_addition = true, addition.from = buffer, addition.to = *p.result;
    p.stages.push_back(addition);
  }
  if (p.reuses_scratch) p.next_scratch = scratch;
  return true;
}

/// Adds a convolution that computes the result's sums, or one of the partial sums that they consist of.
bool add_sums(Program& p, const Convolution& c) {
  // An image is copied only to expand a broadcast, as in the gradient of a sum, where the copy reads little.
  for (const Side* side : {&c.src, &c.weights, &c.dst})
    if (side->dtype != f32 && !side->has_positive_strides()) return false;  // copies are of f32
  for (const Side* side : {&c.src, &c.dst})
    if (!side->has_positive_strides() && (side->operand == kY || side->has_negative_stride())) return false;
  const bool is_first = !p.result;
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto layout = [&](const Side& side) {
    return side.operand == kY && !is_first ? p.buffers[*p.result].desc : any_layout(side);
  };
  const auto src = layout(c.src), weights = layout(c.weights), dst = layout(c.dst);
  using Forward = dnnl::convolution_forward;
  using Input = dnnl::convolution_backward_data;
  using Weights = dnnl::convolution_backward_weights;
  const auto kind =
      c.form == ConvolutionForm::forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const auto forward_with = [&](const dnnl::primitive_attr& with) {
    return Forward::primitive_desc(onednn_engine(), kind, algorithm::convolution_direct, src, weights, dst, c.stride,
                                   c.dilation, c.low, c.high, with);
  };
  Forward::primitive_desc forward = forward_with(attr);
  if (c.form == ConvolutionForm::forward) {
    Into into = Into::result;
    // The kernels called brgconv form a sum before they add it to the result. Others begin with what the result holds,
    // which makes one long running sum of all partial sums.
    const auto adds_behind = [](const Forward::primitive_desc& desc) {
      return std::string(desc.impl_info_str()).find("brgconv") != std::string::npos;
    };
    if (!is_first && adds_behind(forward)) {
      dnnl::post_ops adds;
      adds.append_sum(1.0F);
      dnnl::primitive_attr with = attr;
      with.set_post_ops(adds);
      if (auto summing = forward_with(with); adds_behind(summing)) forward = summing, into = Into::added_result;
    }
    return add_convolution<Forward>(p, forward, {{{DNNL_ARG_SRC, &c.src}, {DNNL_ARG_WEIGHTS, &c.weights}}},
                                    {forward.src_desc(), forward.weights_desc()}, {DNNL_ARG_DST, &c.dst},
                                    forward.dst_desc(), into);
  }
  if (c.form == ConvolutionForm::input) {
    const Input::primitive_desc desc(onednn_engine(), algorithm::convolution_direct, src, weights, dst, c.stride,
                                     c.dilation, c.low, c.high, forward, attr);
    return add_convolution<Input>(p, desc, {{{DNNL_ARG_DIFF_DST, &c.dst}, {DNNL_ARG_WEIGHTS, &c.weights}}},
                                  {desc.diff_dst_desc(), desc.weights_desc()}, {DNNL_ARG_DIFF_SRC, &c.src},
                                  desc.diff_src_desc(), Into::result);
  }
  const Weights::primitive_desc desc(onednn_engine(), algorithm::convolution_direct, src, weights, dst, c.stride,
                                     c.dilation, c.low, c.high, forward, attr);
  return add_convolution<Weights>(p, desc, {{{DNNL_ARG_SRC, &c.src}, {DNNL_ARG_DIFF_DST, &c.dst}}},
                                  {desc.src_desc(), desc.diff_dst_desc()}, {DNNL_ARG_DIFF_WEIGHTS, &c.weights},
                                  desc.diff_weights_desc(), Into::result);
}

/// oneDNN's memory objects and argument lists. They hold the pointers of a run, so each run in progress has its own.
struct Call {
  std::vector<memory> memories;
  std::vector<std::vector<dnnl_exec_arg_t>> args;

  explicit Call(const Program& p) {
    for (const Buffer& buffer : p.buffers) memories.emplace_back(buffer.desc, onednn_engine(), nullptr);
    for (const Stage& s : p.stages) {
      auto& list = args.emplace_back();
      for (auto [name, buffer] : s.args) list.push_back({name, memories[buffer].get()});
    }
  }
};

/// Runs a program, on several threads at once if need be.
class Runner {
 public:
  Runner(Program program, int threads)
      : program_(std::move(program)), calls_(threads, [&] { return Call(program_); }) {}
  const Program& program() const { return program_; }

  /// `operands`: x, w, y. `packed`: the packed weights.
  void run(const std::array<char*, 3>& operands, const std::vector<float*>& packed, char* scratch) const noexcept {
    const auto address = [&](const Buffer& b) {
      const auto i = static_cast<size_t>(b.operand);
      char* const base = b.operand < 0         ? scratch
                         : b.operand < kPacked ? operands[i]
                                               : reinterpret_cast<char*>(packed[i - kPacked]);
      return base + b.offset;
    };
    const auto copy = [&]<bool kToDense>(const std::vector<std::pair<Side, int64_t>>& sides) {
      for (const auto& [side, at] : sides)
        move_strided<kToDense>(side.dims, side.strides,
                               reinterpret_cast<float*>(operands[static_cast<size_t>(side.operand)]) + side.offset,
                               reinterpret_cast<float*>(scratch + at));
    };
    copy.operator()<true>(program_.copied_before);
    calls_.with_one([&] { return Call(program_); },
                    [&](const Call& call) {
                      for (size_t i = 0; i < call.memories.size(); ++i)
                        call.memories[i].set_data_handle(address(program_.buffers[i]));
                      for (size_t s = 0; s < call.args.size(); ++s) {
                        const Stage& stage = program_.stages[s];
                        if (stage.is_addition) add(stage, address);
                        else
                          dnnl_primitive_execute(stage.primitive.get(), onednn_stream().get(),
                                                 static_cast<int>(call.args[s].size()), call.args[s].data());
                      }
                    });
    copy.operator()<false>(program_.copied_after);
  }

 private:
  template <class Address>
  void add(const Stage& stage, Address address) const noexcept {
    const Buffer &from = program_.buffers[stage.from], &to = program_.buffers[stage.to];
    EpilogueRows all;
    all.y = reinterpret_cast<float*>(address(to));
    all.residual = reinterpret_cast<const float*>(address(from));
    all.rows = 1, all.cols = static_cast<int64_t>(from.desc.get_size() / sizeof(float));
    apply_epilogue_rows(all);
  }

  Program program_;
  IdleObjects<Call> calls_;
};

class OnednnWeights final : public ConvolutionWeights {
 public:
  explicit OnednnWeights(const void* data) : data_(static_cast<const char*>(data)) {}
  size_t bytes() const override {
    const std::scoped_lock lock(mutex_);
    size_t total = 0;
    for (const Layout& f : layouts_) total += f.desc.get_size();
    return total;
  }
  /// The weights that `side` describes, moved by `offset` elements, in the layout `wanted`; packs them at the first
  /// call.
  float* packed(const Side& side, int64_t offset, const memory::desc& wanted) {
    const std::scoped_lock lock(mutex_);
    const int64_t begin = offset + side.offset;
    for (const Layout& f : layouts_)
      if (f.begin == begin && f.dims == side.dims && f.strides == side.strides && f.desc == wanted)
        return reinterpret_cast<float*>(f.data.get());
    Layout f{begin, side.dims, side.strides, wanted, aligned_memory(wanted.get_size())};
    char* from = const_cast<char*>(data_) + begin * static_cast<int64_t>(byte_size(side.dtype));
    AlignedMemory dense;
    memory::desc given;
    if (side.has_positive_strides()) {
      given = desc_of(side.dtype, side.dims, side.strides);
    } else {
      given = desc_of(side.dtype, side.dims, dense_strides(side.dims));
      dense = aligned_memory(given.get_size());
      move_strided<true>(side.dims, side.strides, reinterpret_cast<float*>(from),
                         reinterpret_cast<float*>(dense.get()));
      from = dense.get();
    }
    memory source(given, onednn_engine(), from), target(wanted, onednn_engine(), f.data.get());
    dnnl::reorder(source, target).execute(onednn_stream(), source, target);
    layouts_.push_back(std::move(f));  // last: everything before it may throw
    return reinterpret_cast<float*>(layouts_.back().data.get());
  }

 private:
  struct Layout {
    int64_t begin;
    Dims dims, strides;
    memory::desc desc;
    AlignedMemory data;
  };
  const char* data_;
  mutable std::mutex mutex_;
  std::vector<Layout> layouts_;
};

/// The program of a slice. The operands of its runs begin where the slice begins.
std::optional<Program> program_of(ConvolutionSlice s, ConvolutionForm form, bool packs_weights) {
  s.offset = {};
  Program p;
  p.packs_weights = packs_weights;
  std::vector<Convolution> summands;
  p.reuses_scratch = true;
  // What is promised of sums of f32 is not of results of bf16, whose digits are half as many.
  const bool is_whole = s.args.dtype != f32;
  for (const ConvolutionSlice& slice : is_whole ? std::vector{s} : partial_sums_of(s, form)) {
    auto all = candidates(slice.args, slice.batch_groups);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Convolution& c) { return c.form == form; });
    if (found == all.end()) return {};
    for (Side* side : {&found->src, &found->weights, &found->dst}) {
      side->offset += slice.offset[static_cast<size_t>(side->operand)];
      p.reuses_scratch = p.reuses_scratch && side->has_positive_strides();
    }
    summands.push_back(std::move(*found));
  }
  if (summands.empty()) return {};
  for (const Convolution& summand : summands)
    if (!add_sums(p, summand)) return {};
  if (p.to_result) p.add_reorder(*p.result, *p.to_result);
  if (summands.size() > 1) p.name += ", " + std::to_string(summands.size()) + " partial sums";
  return p;
}

/// Applies the epilogue to a slice. `y` is the slice's first element, which is element `offset` of the whole array; the
/// slice of the residual begins at the same offset.
void apply_slice_epilogue(const ConvolutionSlice& s, const ConvolutionEpilogue& epilogue, float* y,
                          int64_t offset) noexcept {
  const ConvolutionArgs& a = s.args;
  // This also holds for a slice of one channel, whose elements are not contiguous: there is one in each pixel.
  const bool channels_last = a.y_channel_stride == 1;
  int64_t pixels = 1;
  for (int d = 0; d < a.spatial; ++d) pixels *= a.out_dims[d];
  EpilogueRows rows;
  rows.activation = epilogue.activation, rows.bias_of_row = !channels_last;
  rows.bias = epilogue.bias ? epilogue.bias + s.channel : nullptr;
  rows.rows = channels_last ? pixels : a.out_channels, rows.cols = channels_last ? a.out_channels : pixels;
  rows.y_row = rows.residual_row = channels_last ? a.y_strides[a.spatial - 1] : a.y_channel_stride;
  for (int64_t image = 0; image < a.batch; ++image) {
    const int64_t at = image * a.y_batch_stride;
    rows.y = y + at, rows.residual = epilogue.residual ? epilogue.residual + offset + at : nullptr;
    apply_epilogue_rows(rows);
  }
}

class OnednnConvolution final : public ConvolutionPlan {
 public:
  /// is_offered() is false if oneDNN has no fast kernel of that form for one of the slices.
  OnednnConvolution(const ConvolutionArgs& args, int64_t batch_groups, ConvolutionForm form, int threads,
                    std::shared_ptr<ConvolutionWeights> weights)
      : threads_(threads), element_bytes_(static_cast<int64_t>(byte_size(args.dtype))), weights_(std::move(weights)) {
    std::vector<ConvolutionSlice> shapes;
    for (const ConvolutionSlice& s : slices_for_threads(args, batch_groups, form, threads, weights_ != nullptr)) {
      size_t i = 0;
      while (i < shapes.size() && !shapes[i].has_shape_of(s)) ++i;
      if (i == shapes.size()) {
        auto program = program_of(s, form, weights_ != nullptr);
        if (!program) {
          tasks_.clear();
          return;
        }
        per_thread_ = std::max(per_thread_, program->scratch);
        runners_.push_back(std::make_unique<Runner>(std::move(*program), threads));
        shapes.push_back(s);
      }
      const Program& program = runners_[i]->program();
      std::vector<float*> packed;
      for (const PackedSide& p : program.packed)
        packed.push_back(
            static_cast<OnednnWeights&>(*weights_).packed(p.side, s.offset[kW], program.buffers[p.buffer].desc));
      if (program.reads_weights()) reads_weights_ = true;
      tasks_.push_back({s, i, std::move(packed)});
    }
  }
  bool is_offered() const { return !tasks_.empty(); }
  size_t scratch_bytes() const override { return static_cast<size_t>(per_thread_ * threads_); }
  bool reads_weights() const override { return reads_weights_; }
  std::string name() const override { return runners_[0]->program().name; }

  void run(const void* x, const void* w, void* y, const ConvolutionEpilogue& epilogue, void* scratch,
           ThreadPool& pool) const noexcept override {
    pool.parallel_for(threads_, static_cast<int64_t>(tasks_.size()), [&](int64_t task, int slot) {
      const SingleThreadedOpenMp guard;
      const auto& s = tasks_[static_cast<size_t>(task)];
      const auto& offset = s.slice.offset;
      float* const to = static_cast<float*>(y) + offset[kY];
      const auto moved = [&](const void* data, ConvolutionOperand operand) {
        return static_cast<char*>(const_cast<void*>(data)) + offset[operand] * element_bytes_;
      };
      runners_[s.runner]->run({moved(x, kX), w ? moved(w, kW) : nullptr, reinterpret_cast<char*>(to)}, s.packed,
                              static_cast<char*>(scratch) + slot * per_thread_);
      if (!epilogue.is_nothing()) apply_slice_epilogue(s.slice, epilogue, to, offset[kY]);
    });
  }

 private:
  struct Task {
    ConvolutionSlice slice;
    size_t runner;               ///< index; slices of the same shape share one
    std::vector<float*> packed;  ///< the slice's packed weights
  };
  int threads_;
  int64_t element_bytes_;  ///< of x and w
  std::shared_ptr<ConvolutionWeights> weights_;
  bool reads_weights_ = false;
  int64_t per_thread_ = 0;  ///< bytes of scratch
  std::vector<Task> tasks_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

}  // namespace

std::shared_ptr<ConvolutionWeights> convolution_weights(const void* data) {
  return std::make_shared<OnednnWeights>(data);
}

std::shared_ptr<const ConvolutionPlan> plan_convolution(const ConvolutionArgs& args, int64_t batch_groups, int threads,
                                                        std::shared_ptr<ConvolutionWeights> weights) {
  if ((args.dtype != f32 && args.dtype != bf16) || args.out_dtype != f32 || !has_onednn()) return nullptr;
  const SingleThreadedOpenMp guard;
  for (const Convolution& candidate : candidates(args, batch_groups)) {
    try {
      auto plan = std::make_shared<OnednnConvolution>(args, batch_groups, candidate.form, threads, weights);
      if (plan->is_offered()) return plan;
    } catch (const dnnl::error&) {  // oneDNN does not support this candidate
    }
  }
  return nullptr;
}

}  // namespace rlx::kernels

#else

namespace rlx::kernels {

std::shared_ptr<ConvolutionWeights> convolution_weights(const void*) { return nullptr; }
std::shared_ptr<const ConvolutionPlan> plan_convolution(const ConvolutionArgs&, int64_t, int,
                                                        std::shared_ptr<ConvolutionWeights>) {
  return nullptr;
}

}  // namespace rlx::kernels

#endif  // RLX_HAS_ONEDNN
