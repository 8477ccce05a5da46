// Ops that move elements and compute none: reshaping, transposing, blocks of space.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

/// Blocks of the last two dims of [n, c, h, w], as six dims: reshape, transpose, reshape.
Value rearranged(Value x, Dims split, Axes permutation, Dims merged) {
  return rlx::reshape(rlx::transpose(rlx::reshape(x, std::move(split)), std::move(permutation)), std::move(merged));
}
void expect_image(Call& op, Value x) {
  if (x.rank() != 4) op.wrong("x ", x.type(), " must be of rank 4");
}
int64_t block(Call& op, const std::string& name) {
  int64_t b = op.integer(name);
  if (b < 1) op.wrong("'", name, "' is ", b, "; it is at least 1");
  return b;
}

struct Blocks {
  Axes shape, pads;
};
Blocks blocks(Call& op, const std::string& pads) {
  Blocks b{op.integers("block_shape"), op.integers(pads)};
  if (b.shape.size() != 2 || b.pads.size() != 4) op.wrong("block_shape has 2 numbers, ", pads, " 2 by 2");
  if (b.shape[0] < 1 || b.shape[1] < 1) op.wrong("block_shape is at least 1");
  return b;
}

}  // namespace

MIL_OP(reshape) {
  Value x = op("x");
  Dims dims = op.dims("shape");
  size_t rank = x.dims().size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != Dim(0)) continue;
    if (op.opset() >= 7) {  // the dim of x that is as far from the end
      size_t behind = dims.size() - i;
      dims[i] = behind <= rank ? x.dims()[rank - behind] : Dim(1);
    } else if (dims.size() == rank) {
      dims[i] = x.dims()[i];
    } else if (element_count(x.dims()) != Dim(0)) {
      op.wrong("a 0 in 'shape' stands for x's extent there, but x ", x.type(), " has ", rank, " dims and 'shape' ",
               dims.size());
    }
  }
  return one(rlx::reshape(x, dims));
}

MIL_OP(reshape_like) {
  std::vector<Value> refs = op.all("ref_tensors");
  auto numbers = [&](const std::string& name) {
    Axes all;
    for (const ItemPtr& item : op.items(name)) {
      if (!item->constant) op.wrong("'", name, "' must be written in the program");
      for (size_t i = 0; i < item->constant->element_count(); ++i)
        all.push_back(static_cast<int64_t>(load_number(*item->constant, i)));
    }
    if (all.size() != refs.size()) op.wrong("'", name, "' has ", all.size(), " entries for ", refs.size(), " tensors");
    return all;
  };
  Axes begins = numbers("begins"), ends = numbers("ends"), masks = numbers("end_masks");
  Dims dims;
  for (size_t i = 0; i < refs.size(); ++i) {
    int64_t rank = refs[i].rank(), from = begins[i], to = masks[i] ? rank : ends[i];
    if (from < 0) from += rank;
    if (to < 0) to += rank;
    if (from < 0 || to > rank || from > to)
      op.wrong("dims ", begins[i], " to ", ends[i], " of ", refs[i].type(), " do not exist");
    dims.insert(dims.end(), refs[i].dims().begin() + from, refs[i].dims().begin() + to);
  }
  return one(rlx::reshape(op("x"), dims));
}

MIL_OP(transpose) { return one(rlx::transpose(op("x"), valid_axes(op.integers("perm"), op("x").dims().size()))); }

MIL_OP(expand_dims) {
  Value x = op("x");
  Axes axes = op.integers("axes");
  size_t rank = x.dims().size() + axes.size();
  axes = valid_axes(axes, rank);
  std::sort(axes.begin(), axes.end());
  Dims dims = x.dims();
  for (int64_t a : axes) dims.insert(dims.begin() + a, Dim(1));
  return one(rlx::reshape(x, dims));
}

// A dim that is not 1 stays, as in PyTorch.
MIL_OP(squeeze) {
  Value x = op("x");
  size_t rank = x.dims().size();
  Axes axes = valid_axes(op.integers("axes", axes_from(0, rank)), rank);
  Axes ones;
  for (int64_t a : axes)
    if (x.dim(a) == Dim(1)) ones.push_back(a);
  return one(ones.empty() ? x : rlx::squeeze(x, ones));
}

MIL_OP(reverse) {
  Value x = op("x");
  return one(rlx::reverse(x, valid_axes(op.integers("axes", axes_from(0, x.dims().size())), x.dims().size())));
}

MIL_OP(reverse_sequence) {
  Value x = op("x"), lengths = convert(op("lengths"), i32);
  size_t rank = x.dims().size();
  int64_t seq = valid_axis(op.integer("seq_axis", 0), rank), batch = valid_axis(op.integer("batch_axis", 0), rank);
  if (seq == batch) op.wrong("seq_axis and batch_axis are both ", seq);
  Value place = iota(op.graph(), {i32, x.dims()}, seq);
  Value length = broadcast_in_dim(lengths, x.dims(), {batch});
  Value mirrored = length - place - 1.0;
  Value from = rlx::select(compare(place, length, Comparison::lt), mirrored, place);
  return one(take_along_axis(x, from, seq));
}

MIL_OP(flatten2d) {
  Value x = op("x");
  int64_t rank = x.rank(), axis = op.integer("axis", 1);
  if (axis < -rank || axis > rank) op.wrong("axis ", axis, " is out of range for ", x.type());
  if (axis < 0) axis += rank;
  auto middle = x.dims().begin() + axis;
  return one(
      rlx::reshape(x, {element_count(Dims(x.dims().begin(), middle)), element_count(Dims(middle, x.dims().end()))}));
}

MIL_OP(depth_to_space) {
  Value x = op("x");
  expect_image(op, x);
  int64_t b = block(op, "block_size");
  const Dims d = x.dims();
  Dim c = d[1] / Dim(b * b);
  return one(rearranged(x, {d[0], b, b, c, d[2], d[3]}, {0, 3, 4, 1, 5, 2}, {d[0], c, d[2] * Dim(b), d[3] * Dim(b)}));
}
MIL_OP(space_to_depth) {
  Value x = op("x");
  expect_image(op, x);
  int64_t b = block(op, "block_size");
  const Dims d = x.dims();
  Dim h = d[2] / Dim(b), w = d[3] / Dim(b);
  return one(rearranged(x, {d[0], d[1], h, b, w, b}, {0, 3, 5, 1, 2, 4}, {d[0], d[1] * Dim(b * b), h, w}));
}
MIL_OP(pixel_shuffle) {
  Value x = op("x");
  expect_image(op, x);
  int64_t r = block(op, "upscale_factor");
  const Dims d = x.dims();
  Dim c = d[1] / Dim(r * r);
  return one(rearranged(x, {d[0], c, r, r, d[2], d[3]}, {0, 1, 4, 2, 5, 3}, {d[0], c, d[2] * Dim(r), d[3] * Dim(r)}));
}
MIL_OP(pixel_unshuffle) {
  Value x = op("x");
  expect_image(op, x);
  int64_t r = block(op, "downscale_factor");
  const Dims d = x.dims();
  Dim h = d[2] / Dim(r), w = d[3] / Dim(r);
  return one(rearranged(x, {d[0], d[1], h, r, w, r}, {0, 1, 3, 5, 2, 4}, {d[0], d[1] * Dim(r * r), h, w}));
}

MIL_OP(space_to_batch) {
  Value x = op("x");
  expect_image(op, x);
  Blocks b = blocks(op, "paddings");
  x = pad_mode(x, PadMode::constant, {0, 0, b.pads[0], b.pads[2]}, {0, 0, b.pads[1], b.pads[3]});
  const Dims d = x.dims();
  Dim h = d[2] / Dim(b.shape[0]), w = d[3] / Dim(b.shape[1]);
  return one(rearranged(x, {d[0], d[1], h, b.shape[0], w, b.shape[1]}, {3, 5, 0, 1, 2, 4},
                        {d[0] * Dim(b.shape[0] * b.shape[1]), d[1], h, w}));
}
MIL_OP(batch_to_space) {
  Value x = op("x");
  expect_image(op, x);
  Blocks b = blocks(op, "crops");
  const Dims d = x.dims();
  Dim n = d[0] / Dim(b.shape[0] * b.shape[1]), h = d[2] * Dim(b.shape[0]), w = d[3] * Dim(b.shape[1]);
  Value y = rearranged(x, {b.shape[0], b.shape[1], n, d[1], d[2], d[3]}, {2, 3, 4, 0, 5, 1}, {n, d[1], h, w});
  return one(rlx::slice(y, {0, 0, b.pads[0], b.pads[2]}, {n, d[1], h - Dim(b.pads[1]), w - Dim(b.pads[3])}));
}

MIL_OP(sliding_windows) {
  Value x = op("x");
  int64_t axis = valid_axis(op.integer("axis"), x.dims().size()), size = op.integer("size"),
          stride = op.integer("stride", 1), extent = static_dim(op, x, axis);
  if (size < 1 || stride < 1 || size > extent)
    op.wrong("windows of ", size, " places, ", stride, " apart, do not fit into ", extent);
  int64_t count = (extent - size) / stride + 1;
  Tensor from(i32, {count, size});
  for (int64_t i = 0; i < count * size; ++i) store<int64_t>(from, static_cast<size_t>(i), i / size * stride + i % size);
  return one(take(x, op.graph().constant(from), axis));
}

}  // namespace rlx::mlprogram
