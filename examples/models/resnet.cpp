// A residual network, from weights of torchvision.models.resnet18, 34, 50, 101, 152 or the ResNeXts
// (safetensors.torch.save_file): the weights tell which one it is.
//
//   resnet WEIGHTS.safetensors IMAGES.npy LOGITS.npy
//
// IMAGES: f32[N, 3, H, W], normalized as the weights want it. LOGITS: f32[N, classes].
#include <iostream>

#include "rlx/rlx.h"

using namespace rlx;

static void run(const SafetensorsFile& weights, const Tensor& images, const std::string& out_path) {
  const auto extent = [&](const std::string& name, size_t axis) { return weights.tensor(name).shape().at(axis); };
  const bool has_bottlenecks = weights.find("layer1.0.conv3.weight") != nullptr;
  const int64_t width = extent("conv1.weight", 0);

  Graph g("resnet");
  ModelBuilder b(g);
  Dims dims(images.shape().begin(), images.shape().end());
  dims.at(0) = Dim::symbol("N");
  Value x = stem(b, g.input("images", images.dtype(), dims), Stem::resnet, width);
  for (int64_t stage = 0; stage < 4; ++stage)
    for (int64_t i = 0;; ++i) {
      const std::string name = text_of("layer", stage + 1, ".", i);
      if (!weights.find(name + ".conv1.weight")) break;
      ResidualBlockConfig config{.width = width << stage, .stride = stage > 0 && i == 0 ? 2 : 1};
      const int64_t inner = extent(name + ".conv2.weight", 0);
      if (has_bottlenecks) {
        config.groups = inner / extent(name + ".conv2.weight", 1);
        config.base_width = 64 * inner / config.groups / config.width;
      }
      x = b.within(name, [&] { return has_bottlenecks ? bottleneck_block(b, x, config) : basic_block(b, x, config); });
    }
  g.output(b.linear(mean(x, {2, 3}), "fc", extent("fc.weight", 0)), "logits");

  CompiledGraph compiled = Session().compile(g);
  bind_weights(compiled, weights);
  write_npy(out_path, compiled.run({{"images", images}})[0]);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: resnet WEIGHTS.safetensors IMAGES.npy LOGITS.npy\n";
    return 2;
  }
  try {
    run(SafetensorsFile::open(argv[1]), read_npy(argv[2]), argv[3]);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
