// Blocks of networks that read images, x[N, C, H, W]: stems, residual blocks, the two halves of a U-Net, and what makes
// tokens of an image for the layers of rlx/models/transformer.h. Params have the names of torchvision's weight files,
// those of the U-Net the names of github.com/milesial/Pytorch-UNet.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlx/models/builder.h"

namespace rlx {

// ---- vision transformers ----

/// How an image becomes tokens (Dosovitskiy et al. 2020): a convolution whose windows do not overlap.
struct PatchConfig {
  int64_t patch = 16, width = 768;  ///< of a patch in pixels, and of a token
  bool class_token = true;          ///< one more token in front, learned
  bool positions = true;            ///< a learned vector is added for each place
  struct Names {
    std::string projection = "conv_proj", class_token = "class_token", positions = "encoder.pos_embedding";
  };
  Names names = {};
};
/// images[N, C, H, W] to tokens [N, H/p W/p, width], row by row, with the class token in front of them. H and W are
/// multiples of the patch and static. Params: projection.weight [width, C, p, p], projection.bias [width], class_token
/// [1, 1, width], positions [1, tokens, width].
Value patch_tokens(ModelBuilder& b, Value images, const PatchConfig& config);

/// cls: the class token. mean: the mean of the tokens of patches.
enum class TokenPooling { cls, mean };
constexpr std::array<std::string_view, 2> names_of(TokenPooling) { return {"cls", "mean"}; }
/// tokens[N, S, W] to [N, W].
Value pooled_tokens(Value tokens, TokenPooling pooling, bool has_class_token = true);

// ---- convolutional networks ----

/// The norm that follows a convolution. batch: Ioffe, Szegedy 2015; group: Wu, He 2018.
enum class ChannelNorm { none, batch, group };
constexpr std::array<std::string_view, 3> names_of(ChannelNorm) { return {"none", "batch", "group"}; }
struct ChannelNormConfig {
  ChannelNorm kind = ChannelNorm::batch;
  bool training = false;  ///< for batch: as in ModelBuilder::batch_norm
  int64_t groups = 32;    ///< for group
};
/// Params: NAME.weight, NAME.bias [C]; for batch also NAME.running_mean, NAME.running_var.
Value channel_norm(ModelBuilder& b, Value x, const std::string& name, const ChannelNormConfig& config);

/// How a network of convolutions begins. resnet: a 7 x 7 convolution with stride 2, norm, ReLU, 3 x 3 max pooling with
/// stride 2 (He et al. 2015). deep: three 3 x 3 convolutions instead of the 7 x 7, the first two of half the width (He
/// et al. 2018; names as timm's). small: a 3 x 3 convolution, norm, ReLU, for small images. patches: a 4 x 4
/// convolution with stride 4, and layer norm over channels (Liu et al. 2022).
enum class Stem { resnet, deep, small, patches };
constexpr std::array<std::string_view, 4> names_of(Stem) { return {"resnet", "deep", "small", "patches"}; }
/// [N, C, H, W] to [N, width, H', W']. Params: conv1.weight, bn1; deep: conv1.{0,3,6}.weight, conv1.{1,4}, bn1;
/// patches: features.0.0 (with bias), features.0.1.
Value stem(ModelBuilder& b, Value images, Stem kind, int64_t width, const ChannelNormConfig& norm = {});

struct ResidualBlockConfig {
  int64_t width = 64;       ///< of the 3 x 3 convolutions; a bottleneck's result has 4 times as many channels
  int64_t stride = 1;       ///< of the first 3 x 3 convolution
  int64_t groups = 1;       ///< of a bottleneck's 3 x 3 (ResNeXt: Xie et al. 2016)
  int64_t base_width = 64;  ///< of a bottleneck: its 3 x 3 has width * base_width / 64 * groups channels
  ChannelNormConfig norm = {};
};
/// relu(x + f(x)), where f is two 3 x 3 convolutions (He et al. 2015). Where width or stride differ, a 1 x 1
/// convolution of x takes its place. Params: conv1.weight, bn1, conv2.weight, bn2, downsample.0.weight, downsample.1.
Value basic_block(ModelBuilder& b, Value x, const ResidualBlockConfig& config);
/// The same with f of 1 x 1, 3 x 3 and 1 x 1 convolutions; the stride is that of the 3 x 3, as in torchvision. Params:
/// conv1 to conv3, bn1 to bn3, downsample.
Value bottleneck_block(ModelBuilder& b, Value x, const ResidualBlockConfig& config);

// ---- U-Net ----

/// Ronneberger et al. 2015, with padded convolutions.
struct UnetConfig {
  ChannelNormConfig norm = {};  ///< after each 3 x 3 convolution, which has a bias only without a norm
  Activation activation = Activation::relu;
  /// How images are upsampled: by a transposed convolution, or by bilinear interpolation with aligned corners.
  enum class Up { transposed, resized } up = Up::transposed;
};
constexpr std::array<std::string_view, 2> names_of(UnetConfig::Up) { return {"transposed", "resized"}; }
/// Applies two 3 x 3 convolutions, each with norm and activation; `middle` channels between them, 0: as many as `out`.
/// Params: double_conv.0.weight, double_conv.1 (norm), double_conv.3.weight, double_conv.4.
Value unet_convolutions(ModelBuilder& b, Value x, int64_t out, const UnetConfig& config, int64_t middle = 0);
/// Applies 2 x 2 max pooling, then unet_convolutions(). Params: maxpool_conv.1.double_conv ...
Value unet_down(ModelBuilder& b, Value x, int64_t out, const UnetConfig& config);
/// Upsamples x to twice its size, concatenates it to the channels of `skip`, and applies unet_convolutions(). If skip,
/// of odd size, is larger by a pixel, zeros are appended to x. The transposed convolution halves the channels of x;
/// without it the first of the two convolutions halves those of both. Params: up.weight [C, C / 2, 2, 2], up.bias,
/// conv.double_conv ...
Value unet_up(ModelBuilder& b, Value x, Value skip, int64_t out, const UnetConfig& config);

}  // namespace rlx
