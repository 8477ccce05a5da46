// Blocks of networks that read images; see rlx/models/vision.h.
#include "rlx/models/vision.h"

#include <string>
#include <vector>

namespace rlx {

// ---- vision transformers ----

Value patch_tokens(ModelBuilder& b, Value images, const PatchConfig& c) {
  if (images.rank() != 4) fail(ErrorCode::shape_mismatch, "images are [N, C, H, W], got ", images.type());
  if (c.patch < 1) fail(ErrorCode::invalid_argument, "patches of ", c.patch, " pixels; give 1 or more");
  const int64_t height = images.dim(2).value(), width = images.dim(3).value();
  if (height % c.patch != 0 || width % c.patch != 0)
    fail(ErrorCode::shape_mismatch, "images of ", height, " x ", width, " pixels do not divide into patches of ",
         c.patch, "; resize or pad them");
  const int64_t places = height / c.patch * (width / c.patch), tokens = places + (c.class_token ? 1 : 0);
  const Dim n = images.dim(0);
  Value x = b.conv(images, c.names.projection, c.width, {c.patch, c.patch}, {.stride = {c.patch, c.patch}});
  x = transpose(reshape(x, {n, c.width, places}), {0, 2, 1});
  if (c.class_token) {
    Value token = reshape(b.param(c.names.class_token, {1, 1, c.width}), {c.width});
    x = concatenate({broadcast_in_dim(token, {n, 1, c.width}, {2}), x}, 1);
  }
  if (!c.positions) return x;
  Value positions = reshape(b.param(c.names.positions, {1, tokens, c.width}), {tokens, c.width});
  return x + broadcast_in_dim(positions, x.dims(), {1, 2});
}

Value pooled_tokens(Value tokens, TokenPooling pooling, bool has_class_token) {
  if (tokens.rank() != 3) fail(ErrorCode::shape_mismatch, "tokens are [N, S, W], got ", tokens.type());
  if (pooling == TokenPooling::mean)
    return mean(has_class_token ? slice_axis(tokens, 1, 1, tokens.dim(1)) : tokens, {1});
  if (!has_class_token) fail(ErrorCode::invalid_argument, "pooling by the class token of tokens that have none");
  return reshape(slice_axis(tokens, 1, 0, 1), {tokens.dim(0), tokens.dim(2)});
}

// ---- convolutional networks ----

Value channel_norm(ModelBuilder& b, Value x, const std::string& name, const ChannelNormConfig& c) {
  switch (c.kind) {
    case ChannelNorm::none: return x;
    case ChannelNorm::batch: return b.batch_norm(x, name, c.training);
    case ChannelNorm::group: return b.group_norm(x, name, c.groups);
  }
  fail(ErrorCode::invalid_argument, "there is no channel norm ", static_cast<int>(c.kind));
}

namespace {

/// A square convolution that keeps extents but for its stride, without a bias, and its norm.
Value conv_norm(ModelBuilder& b, Value x, const std::string& conv, const std::string& norm, int64_t out, int64_t kernel,
                const ChannelNormConfig& c, int64_t stride = 1, int64_t groups = 1) {
  const int64_t around = kernel / 2;
  Value y = b.conv(x, conv, out, {kernel, kernel},
                   {.stride = {stride, stride}, .padding = {around, around}, .groups = groups}, false);
  return channel_norm(b, y, norm, c);
}
Value pooled_by_maximum(Value x, int64_t kernel, int64_t stride, int64_t padding) {
  return pool(x, {.kind = PoolKind::max,
                  .kernel_size = {kernel, kernel},
                  .stride = {stride, stride},
                  .padding = {padding, padding}});
}
/// What is added to a residual block's result of `channels`.
Value shortcut(ModelBuilder& b, Value x, int64_t channels, const ResidualBlockConfig& c) {
  if (c.stride == 1 && x.dim(1) == Dim(channels)) return x;
  return conv_norm(b, x, "downsample.0", "downsample.1", channels, 1, c.norm, c.stride);
}

}  // namespace

Value stem(ModelBuilder& b, Value x, Stem kind, int64_t width, const ChannelNormConfig& norm) {
  switch (kind) {
    case Stem::resnet: return pooled_by_maximum(relu(conv_norm(b, x, "conv1", "bn1", width, 7, norm, 2)), 3, 2, 1);
    case Stem::deep:
      x = relu(conv_norm(b, x, "conv1.0", "conv1.1", width / 2, 3, norm, 2));
      x = relu(conv_norm(b, x, "conv1.3", "conv1.4", width / 2, 3, norm));
      return pooled_by_maximum(relu(conv_norm(b, x, "conv1.6", "bn1", width, 3, norm)), 3, 2, 1);
    case Stem::small: return relu(conv_norm(b, x, "conv1", "bn1", width, 3, norm));
    case Stem::patches: {
      Value y = b.conv(x, "features.0.0", width, {4, 4}, {.stride = {4, 4}});
      return b.within("features.0.1",
                      [&] { return layer_norm_2d(y, b.param("weight", {width}), b.param("bias", {width}), 1e-6); });
    }
  }
  fail(ErrorCode::invalid_argument, "there is no stem ", static_cast<int>(kind));
}

Value basic_block(ModelBuilder& b, Value x, const ResidualBlockConfig& c) {
  Value y = relu(conv_norm(b, x, "conv1", "bn1", c.width, 3, c.norm, c.stride));
  y = conv_norm(b, y, "conv2", "bn2", c.width, 3, c.norm);
  return relu(y + shortcut(b, x, c.width, c));
}

Value bottleneck_block(ModelBuilder& b, Value x, const ResidualBlockConfig& c) {
  const int64_t inner = c.width * c.base_width / 64 * c.groups, out = 4 * c.width;
  Value y = relu(conv_norm(b, x, "conv1", "bn1", inner, 1, c.norm));
  y = relu(conv_norm(b, y, "conv2", "bn2", inner, 3, c.norm, c.stride, c.groups));
  y = conv_norm(b, y, "conv3", "bn3", out, 1, c.norm);
  return relu(y + shortcut(b, x, out, c));
}

// ---- U-Net ----

Value unet_convolutions(ModelBuilder& b, Value x, int64_t out, const UnetConfig& c, int64_t middle) {
  return b.within("double_conv", [&] {
    const auto one = [&](Value t, const std::string& conv, const std::string& norm, int64_t channels) {
      const bool has_bias = c.norm.kind == ChannelNorm::none;
      Value y = b.conv(t, conv, channels, {3, 3}, {.padding = {1, 1}}, has_bias);
      return activate(channel_norm(b, y, norm, c.norm), c.activation);
    };
    return one(one(x, "0", "1", middle == 0 ? out : middle), "3", "4", out);
  });
}

Value unet_down(ModelBuilder& b, Value x, int64_t out, const UnetConfig& c) {
  return b.within("maxpool_conv.1", [&] { return unet_convolutions(b, pooled_by_maximum(x, 2, 2, 0), out, c); });
}

Value unet_up(ModelBuilder& b, Value x, Value skip, int64_t out, const UnetConfig& c) {
  const int64_t channels = x.dim(1).value(), height = x.dim(2).value(), width = x.dim(3).value();
  Value y = c.up == UnetConfig::Up::transposed ? b.conv_transpose(x, "up", channels / 2, {2, 2}, {.stride = {2, 2}})
                                               : resize_linear(x, {2 * height, 2 * width}, ResizeGrid::align_corners);
  const int64_t more_rows = skip.dim(2).value() - 2 * height, more_columns = skip.dim(3).value() - 2 * width;
  if (more_rows < 0 || more_rows > 1 || more_columns < 0 || more_columns > 1)
    fail(ErrorCode::shape_mismatch, "x ", x.type(), " twice as large does not meet skip ", skip.type(),
         "; skip is what unet_down halved");
  if (more_rows + more_columns > 0)  // after x: half of one pixel, rounded down to 0, goes before it
    y = pad(y, scalar(b.graph(), 0, y.dtype()), PadAttrs{{0, 0, 0, 0}, {0, 0, more_rows, more_columns}, {}});
  Value both = concatenate({skip, y}, 1);
  const int64_t middle = c.up == UnetConfig::Up::resized ? both.dim(1).value() / 2 : 0;
  return b.within("conv", [&] { return unet_convolutions(b, both, out, c, middle); });
}

}  // namespace rlx
