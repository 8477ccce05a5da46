// Blocks of networks that read images beside torchvision and torch.nn (tests/golden/generate/model_blocks.py).
#include "models/blocks_golden.h"
#include "support/io_files.h"

namespace rlx::test::blocks {

/// Logits, and the mean of the patches' tokens.
static Many<Value> vit(ModelBuilder& b, const std::vector<Value>& in) {
  Value x = patch_tokens(b, in[0], {.patch = 4, .width = 12});
  for (int64_t i = 0; i < 2; ++i)
    x = b.within(text_of("encoder.layers.encoder_layer_", i),
                 [&] { return transformer_layer(b, x, TransformerLayerConfig::vit(3, 20)); });
  x = b.layer_norm(x, "encoder.ln", 1e-6);
  Value logits = b.linear(pooled_tokens(x, TokenPooling::cls), "heads.head", 5);
  return {logits, pooled_tokens(x, TokenPooling::mean)};
}

TEST_CASE("a vision transformer built of blocks is torchvision's, with its class token and by the mean of patches") {
  const std::vector<Tensor> out = made("vit", {golden("vit/in.images")}, vit);
  CHECK(worst_difference(out[0], golden("vit/out.logits")) < kTolerance);
  CHECK(worst_difference(out[1], golden("vit/out.mean")) < kTolerance);
}

TEST_CASE("blocks of images in halves are as near as their dtype allows") {
  for (const DType dtype : {f16, bf16}) {
    CAPTURE(dtype);
    const auto near = [&](const std::string& name, const char* input, const char* output, auto build) {
      CAPTURE(name);
      const Tensor wanted = golden(name + output);
      const Tensor out = made(name, {as(golden(name + input), dtype)}, build, dtype)[0];
      CHECK(worst_difference(out, wanted) < bound_of_halves(wanted, dtype, 8));
    };
    near("vit", "/in.images", "/out.logits", vit);
    near("bottleneck_strided", "/in.x", "/out.y", [](ModelBuilder& b, const std::vector<Value>& in) {
      return bottleneck_block(b, in[0], {.width = 3, .stride = 2});
    });
    near("unet_batch", "/in.odd", "/out.odd", [](ModelBuilder& b, const std::vector<Value>& in) {
      Value first = b.within("inc", [&] { return unet_convolutions(b, in[0], 4, {}); });
      Value half = b.within("down1", [&] { return unet_down(b, first, 8, {}); });
      return b.within("up1", [&] { return unet_up(b, half, first, 4, {}); });
    });
  }
}

TEST_CASE("each stem is that of PyTorch, for images of odd sizes") {
  for (const Stem kind : {Stem::resnet, Stem::deep, Stem::small, Stem::patches}) {
    const std::string name = text_of("stem_", names_of(Stem{})[static_cast<size_t>(kind)]);
    CAPTURE(name);
    const std::vector<Tensor> out =
        made(name, {golden(name + "/in.x")},
             [&](ModelBuilder& b, const std::vector<Value>& in) { return stem(b, in[0], kind, 6); });
    CHECK(worst_difference(out[0], golden(name + "/out.y")) < kTolerance);
  }
}

TEST_CASE("residual blocks are torchvision's: strided, with groups, with and without a shortcut of their own") {
  const auto check = [](const std::string& name, auto block, const ResidualBlockConfig& config) {
    CAPTURE(name);
    const std::vector<Tensor> out =
        made(name, {golden(name + "/in.x")},
             [&](ModelBuilder& b, const std::vector<Value>& in) { return block(b, in[0], config); });
    CHECK(worst_difference(out[0], golden(name + "/out.y")) < kTolerance);
  };
  check("basic", basic_block, {.width = 8});
  check("basic_strided", basic_block, {.width = 6, .stride = 2});
  check("bottleneck", bottleneck_block, {.width = 2});
  check("bottleneck_strided", bottleneck_block, {.width = 3, .stride = 2});
  check("bottleneck_groups", bottleneck_block, {.width = 4, .groups = 2, .base_width = 32});
}

TEST_CASE("a residual block in training normalizes by the batch and moves the running statistics, as PyTorch's") {
  std::map<std::string, std::string, std::less<>> written;
  const Tensor x = golden("basic_training/in.x");
  const CompiledGraph block =
      compiled_block("basic_training", {x}, f32, [&](ModelBuilder& b, const std::vector<Value>& in) {
        Value y = basic_block(b, in[0], {.width = 8, .norm = {.training = true}});
        written = b.output_written();
        return y;
      });
  const std::vector<Tensor> out = block.run_ordered(std::array{x});
  const auto& outputs = block.signature().outputs;
  REQUIRE(written.size() == 4);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string wanted = "basic_training/out.y";
    for (const auto& [param, output] : written)
      if (output == outputs[i].name) wanted = "basic_training/out." + param;
    CAPTURE(wanted);
    CHECK(worst_difference(out[i], golden(wanted)) < kTolerance);
  }
}

TEST_CASE("the halves of a U-Net are PyTorch's: transposed and resized, with each norm, for odd and even images") {
  for (const std::string kind : {"batch", "resized", "plain", "group"}) {
    UnetConfig config;
    const bool is_resized = kind == "resized" || kind == "group";
    if (is_resized) config.up = UnetConfig::Up::resized;
    if (kind == "plain") config.norm.kind = ChannelNorm::none, config.activation = Activation::silu;
    if (kind == "group") config.norm = {.kind = ChannelNorm::group, .groups = 2};
    for (const std::string size : {"odd", "even"}) {
      CAPTURE(kind);
      CAPTURE(size);
      const std::string at = "unet_" + kind;
      const std::vector<Tensor> out =
          made(at, {golden(at + "/in." + size)}, [&](ModelBuilder& b, const std::vector<Value>& in) {
            Value first = b.within("inc", [&] { return unet_convolutions(b, in[0], 4, config); });
            Value half = b.within("down1", [&] { return unet_down(b, first, is_resized ? 4 : 8, config); });
            return b.within("up1", [&] { return unet_up(b, half, first, 4, config); });
          });
      CHECK(worst_difference(out[0], golden(at + "/out." + size)) < kTolerance);
    }
  }
}

TEST_CASE("blocks of images say what does not fit") {
  Graph g;
  ModelBuilder b(g);
  Value x = g.input("x", f32, {1, 4, 10, 12}), tokens = g.input("tokens", f32, {1, 5, 6});
  const auto refusal = [&](auto build) { return std::string(error_of([&] { build(); }).what()); };
  CHECK(says(refusal([&] { patch_tokens(b, x, {.patch = 4, .width = 6}); }),
             "images of 10 x 12 pixels do not divide into patches of 4"));
  CHECK(says(refusal([&] { patch_tokens(b, tokens, {}); }), "images are [N, C, H, W], got f32[1, 5, 6]"));
  CHECK(says(refusal([&] { pooled_tokens(tokens, TokenPooling::cls, false); }), "have none"));
  CHECK(says(refusal([&] { unet_up(b, x, x, 4, {}); }), "does not meet skip f32[1, 4, 10, 12]"));
}

}  // namespace rlx::test::blocks
