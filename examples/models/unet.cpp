// A U-Net for segmentation, from weights named as github.com/milesial/Pytorch-UNet has them
// (safetensors.torch.save_file).
//
//   unet WEIGHTS.safetensors IMAGES.npy LOGITS.npy
//
// IMAGES: f32[N, channels, H, W] of any size. LOGITS: f32[N, classes, H, W], of each pixel. How deep and how wide the
// network is, and whether it grows images by transposed convolutions or by interpolation, the weights say.
#include <iostream>

#include "rlx/rlx.h"

using namespace rlx;

static void run(const SafetensorsFile& weights, const Tensor& images, const std::string& out_path) {
  const auto extent = [&](const std::string& name, size_t axis) { return weights.tensor(name).shape().at(axis); };
  const auto channels = [&](const std::string& block) { return extent(block + ".double_conv.3.weight", 0); };
  const bool is_transposed = weights.find("up1.up.weight") != nullptr;
  const UnetConfig config{.up = is_transposed ? UnetConfig::Up::transposed : UnetConfig::Up::resized};

  Graph g("unet");
  ModelBuilder b(g);
  Dims dims(images.shape().begin(), images.shape().end());
  dims.at(0) = Dim::symbol("N");
  Value x = g.input("images", images.dtype(), dims);
  x = b.within("inc", [&] { return unet_convolutions(b, x, channels("inc"), config); });
  std::vector<Value> skips;
  for (int64_t i = 1; weights.find(text_of("down", i, ".maxpool_conv.1.double_conv.0.weight")); ++i) {
    const std::string name = text_of("down", i);
    skips.push_back(x);
    x = b.within(name, [&] { return unet_down(b, x, channels(name + ".maxpool_conv.1"), config); });
  }
  for (int64_t i = 1; !skips.empty(); ++i, skips.pop_back()) {
    const std::string name = text_of("up", i);
    x = b.within(name, [&] { return unet_up(b, x, skips.back(), channels(name + ".conv"), config); });
  }
  g.output(b.conv(x, "outc.conv", extent("outc.conv.weight", 0), {1, 1}), "logits");

  CompiledGraph compiled = Session().compile(g);
  bind_weights(compiled, weights);
  write_npy(out_path, compiled.run({{"images", images}})[0]);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: unet WEIGHTS.safetensors IMAGES.npy LOGITS.npy\n";
    return 2;
  }
  try {
    run(SafetensorsFile::open(argv[1]), read_npy(argv[2]), argv[3]);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
