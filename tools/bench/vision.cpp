// Networks for images, as bench/yardstick/programs/vision_nets.py has them: the same layers, and the same random
// numbers in the same order.
#include <cmath>

#include "rlx/ops.h"
#include "tools/bench/cases.h"
#include "tools/numpy_random.h"

namespace rlx::tools {
namespace {

constexpr int64_t kSize = 224;

/// Builds the graph, and draws what it is built of unless that was done before.
class Net {
 public:
  Net(Graph& graph, NamedTensors& params, Tensor& image, int64_t images) : graph_(graph), params_(params) {
    const bool is_first = params.empty();
    if (is_first) image = draw({images, 3, kSize, kSize});
    image_ = graph.input("image", f32, image.type().dims);
  }
  Value image() const { return image_; }

  Value conv(Value x, int64_t out, int64_t kernel, int64_t stride = 1, int64_t groups = 1,
             Activation activation = Activation::none) {
    const int64_t channels = x.dims()[1].value() / groups;
    const auto fan = static_cast<double>(channels * kernel * kernel);
    Value y = rlx::conv(x, param({out, channels, kernel, kernel}, std::sqrt(3 / fan)),
                        {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}, .groups = groups});
    const Value gamma = param({out}, 0.5, 1), beta = param({out}, 0.1), mean = param({out}, 0.1);
    y = batch_norm_inference(y, gamma, beta, mean, param({out}, 0.5, 1), 1e-5, 1);
    return activate(y, activation);
  }
  Value head(Value x) {
    const int64_t channels = x.dims()[1].value(), classes = 1000;
    const Value w = param({channels, classes}, std::sqrt(3 / static_cast<double>(channels)));
    return matmul(mean(x, {2, 3}), w) + param({classes}, 0.1);
  }

 private:
  Tensor draw(Shape shape, double scale = 1, double shift = 0) {
    Tensor t = Tensor::uninitialized(f32, std::move(shape));
    random_.uniform(-1, 1, t.mutable_values<float>());
    for (float& v : t.mutable_values<float>()) v = v * static_cast<float>(scale) + static_cast<float>(shift);
    return t;
  }
  Value param(const Shape& shape, double scale, double shift = 0) {
    const std::string name = text_of("w", count_++);
    auto found = params_.find(name);
    if (found == params_.end()) found = params_.emplace(name, draw(shape, scale, shift)).first;
    return graph_.param(name, f32, found->second.type().dims);
  }

  Graph& graph_;
  NamedTensors& params_;
  NumpyRandom random_{0};
  Value image_;
  int count_ = 0;
};

void resnet50(Graph& g, Net& n) {
  PoolAttrs three{.kernel_size = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  Value x = pool(n.conv(n.image(), 64, 7, 2, 1, Activation::relu), three);
  const int64_t blocks[] = {3, 4, 6, 3};
  for (size_t stage = 0; stage < 4; ++stage)
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t width = int64_t{64} << stage, stride = stage > 0 && block == 0 ? 2 : 1;
      Value y = n.conv(x, width, 1, 1, 1, Activation::relu);
      y = n.conv(y, width, 3, stride, 1, Activation::relu);
      y = n.conv(y, 4 * width, 1);
      if (block == 0) x = n.conv(x, 4 * width, 1, stride);
      x = relu(y + x);
    }
  g.output(n.head(x), "logits");
}

void mobilenetv2(Graph& g, Net& n) {
  struct Stage {
    int64_t expand, out, blocks, stride;
  };
  Value x = n.conv(n.image(), 32, 3, 2, 1, Activation::relu6);
  for (const Stage& s : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                         Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}})
    for (int64_t block = 0; block < s.blocks; ++block) {
      const int64_t channels = x.dims()[1].value(), inner = channels * s.expand, stride = block == 0 ? s.stride : 1;
      Value y = s.expand > 1 ? n.conv(x, inner, 1, 1, 1, Activation::relu6) : x;
      y = n.conv(n.conv(y, inner, 3, stride, inner, Activation::relu6), s.out, 1);
      x = stride == 1 && channels == s.out ? y + x : y;
    }
  g.output(n.head(n.conv(x, 1280, 1, 1, 1, Activation::relu6)), "logits");
}

}  // namespace

BenchCase vision_case(std::string_view family, int64_t images) {
  BenchCase c;
  auto drawn = std::make_shared<std::pair<NamedTensors, Tensor>>();
  const auto build = [drawn, images, layers = family == "resnet50" ? resnet50 : mobilenetv2,
                      name = std::string(family)] {
    Graph g(name);
    Net net(g, drawn->first, drawn->second, images);
    layers(g, net);
    return g;
  };
  c.prepare = [drawn, build](BenchCase& self) {
    build();
    self.params = drawn->first, self.inputs = {drawn->second};
  };
  c.graph = build;
  return c;
}

}  // namespace rlx::tools
