// A vision transformer, from weights of torchvision.models.vision_transformer (safetensors.torch.save_file).
//
//   vit WEIGHTS.safetensors IMAGES.npy LOGITS.npy [HEADS]
//
// IMAGES: f32[N, channels, H, W], normalized as the weights want it. LOGITS: f32[N, classes]. Sizes are those of the
// weights; heads are 64 wide unless their number is given.
#include <iostream>

#include "rlx/rlx.h"

using namespace rlx;

static void run(const SafetensorsFile& weights, const Tensor& images, const std::string& out_path, int64_t heads) {
  const auto extent = [&](const std::string& name, size_t axis) { return weights.tensor(name).shape().at(axis); };
  const int64_t width = extent("conv_proj.weight", 0);
  if (heads == 0) heads = width / 64;

  Graph g("vit");
  ModelBuilder b(g);
  Dims dims(images.shape().begin(), images.shape().end());
  dims.at(0) = Dim::symbol("N");
  Value x = g.input("images", images.dtype(), dims);
  x = patch_tokens(b, x, {.patch = extent("conv_proj.weight", 2), .width = width});
  for (int64_t i = 0;; ++i) {
    const std::string layer = text_of("encoder.layers.encoder_layer_", i);
    if (!weights.find(layer + ".ln_1.weight")) break;
    const auto config = TransformerLayerConfig::vit(heads, extent(layer + ".mlp.0.weight", 0));
    x = b.within(layer, [&] { return transformer_layer(b, x, config); });
  }
  x = pooled_tokens(b.layer_norm(x, "encoder.ln", 1e-6), TokenPooling::cls);
  g.output(b.linear(x, "heads.head", extent("heads.head.weight", 0)), "logits");

  CompiledGraph compiled = Session().compile(g);
  bind_weights(compiled, weights);
  write_npy(out_path, compiled.run({{"images", images}})[0]);
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::cerr << "usage: vit WEIGHTS.safetensors IMAGES.npy LOGITS.npy [HEADS]\n";
    return 2;
  }
  try {
    run(SafetensorsFile::open(argv[1]), read_npy(argv[2]), argv[3], argc > 4 ? std::atoll(argv[4]) : 0);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
