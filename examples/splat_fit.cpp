// A scene of Gaussians, fitted to pictures of another: a ring of coloured beads is drawn from several sides, then as
// many grey Gaussians, placed at random, are moved, stretched, turned and coloured until their pictures are the same.
//
//     splat_fit FOLDER [STEPS]        writes FOLDER/fit.png (above what was to be seen, below what was fitted) and
//     fit.ply
//
// One graph holds the picture, the loss and all gradients; Adam (Kingma, Ba 2015) is the loop around it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <random>

#include "rlx/autodiff.h"
#include "rlx/extras/image_quality.h"
#include "rlx/extras/splat.h"
#include "rlx/extras/splat_files.h"
#include "rlx/ops/reduction.h"
#include "rlx/png.h"
#include "rlx/rlx.h"

namespace {

using namespace rlx;

constexpr int64_t kSide = 96, kViews = 8, kGaussians = 240, kCoefficients = 4;
const SplatAttrs kImage{.width = kSide, .height = kSide, .gamma = 1, .low_pass = 0.3};

class Numbers {
 public:
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(bits_() >> 8) * 0x1p-24f; }

 private:
  std::mt19937 bits_{7};
};

SplatScene empty_scene(int64_t n) {
  auto zeros = [](Shape shape) { return Tensor(f32, std::move(shape)); };
  SplatScene s{zeros({n, 3}), zeros({n, 3}), zeros({n, 4}), zeros({n}), zeros({n, 3}), zeros({n, kCoefficients, 3})};
  for (float& v : s.colors.mutable_values<float>()) v = 0.5f;
  for (size_t i = 3; i < size_t(4 * n); i += 4) s.rotations.mutable_values<float>()[i] = 1;
  return s;
}
/// Beads on a ring that winds around a torus, in all colours; what is brighter on one side shows that harmonics are
/// fitted.
SplatScene ring() {
  constexpr int64_t kBeads = 160;
  SplatScene s = empty_scene(kBeads);
  auto positions = s.positions.mutable_values<float>(), scales = s.log_scales.mutable_values<float>(),
       opacities = s.opacities.mutable_values<float>(), sh = s.sh.mutable_values<float>();
  for (size_t i = 0; i < size_t(kBeads); ++i) {
    const float turn = 6.2831853f * static_cast<float>(i) / kBeads, wind = 5 * turn,
                radius = 1 + 0.35f * std::cos(wind);
    const float at[] = {radius * std::cos(turn), 0.35f * std::sin(wind), radius * std::sin(turn)};
    for (size_t k = 0; k < 3; ++k) {
      positions[3 * i + k] = at[k];
      scales[3 * i + k] = std::log(k == 1 ? 0.09f : 0.06f);
      sh[3 * kCoefficients * i + k] = 1.6f * std::cos(turn + 2.0944f * static_cast<float>(k));
      sh[3 * (kCoefficients * i + 1) + k] = 0.3f;
    }
    opacities[i] = 3;
  }
  return s;
}
SplatScene cloud() {
  SplatScene s = empty_scene(kGaussians);
  Numbers random;
  for (float& v : s.positions.mutable_values<float>()) v = random.uniform(-1.3f, 1.3f);
  for (float& v : s.log_scales.mutable_values<float>()) v = std::log(0.1f);
  for (float& v : s.opacities.mutable_values<float>()) v = -1;
  return s;
}
std::vector<Tensor*> parts_of(SplatScene& s) {
  return {&s.positions, &s.log_scales, &s.rotations, &s.opacities, &s.sh};
}

Tensor camera(int64_t view) {
  const double turn = 6.283185307 * static_cast<double>(view) / kViews, height = view % 2 == 0 ? 1.6 : -0.9;
  return Tensor::of<float>(
      {10}, {float(3.6 * std::cos(turn)), float(height), float(3.6 * std::sin(turn)), 0, 0, 0, 0, 1, 0, 0.75f});
}
const Tensor kBackground = Tensor::of<float>({3}, {0.04f, 0.04f, 0.08f});

/// Of positions, log_scales, rotations, opacities, sh and a camera, by these names: the picture [height, width, 3].
Value picture(Graph& g, int64_t n) {
  SplatValues s;
  s.positions = g.input("positions", f32, {n, 3}), s.log_scales = g.input("log_scales", f32, {n, 3});
  s.rotations = g.input("rotations", f32, {n, 4}), s.opacities = g.input("opacities", f32, {n});
  s.sh = g.input("sh", f32, {n, kCoefficients, 3});
  s.colors = full(g, 0.5, {f32, {n, 3}});
  Value image = gaussian_splat_render(s, g.input("camera", f32, {10}), g.constant(kBackground), kImage);
  return slice_axis(image, 2, 0, 3);
}
const Names kFitted = {"positions", "log_scales", "rotations", "opacities", "sh"};

class Adam {
 public:
  Adam(Tensor& parameter, float rate)
      : parameter_(parameter), rate_(rate), mean_(parameter.element_count()), square_(parameter.element_count()) {}
  /// `fade` scales the rate of this step.
  void step(const Tensor& gradient, int64_t step, float fade) {
    const float by_mean = 1 - std::pow(0.9f, static_cast<float>(step)),
                by_square = 1 - std::pow(0.999f, static_cast<float>(step));
    auto values = parameter_.mutable_values<float>();
    auto g = gradient.values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      mean_[i] += 0.1f * (g[i] - mean_[i]), square_[i] += 0.001f * (g[i] * g[i] - square_[i]);
      values[i] -= fade * rate_ * (mean_[i] / by_mean) / (std::sqrt(square_[i] / by_square) + 1e-12f);
    }
  }

 private:
  Tensor& parameter_;
  float rate_;
  std::vector<float> mean_, square_;
};

void show_progress(int64_t step, int64_t steps, double decibels, double similarity) {
  constexpr int64_t kWidth = 32;
  std::string bar(size_t(kWidth * step / steps), '#');
  bar.resize(size_t(kWidth), '.');
  std::cout << "\r[" << bar << "] " << step << "/" << steps << std::fixed << std::setprecision(2) << "  PSNR "
            << decibels << " dB  SSIM " << std::setprecision(4) << similarity << std::flush;
}

/// The views side by side, `above` over `below`, as bytes.
Tensor sheet(const std::vector<Tensor>& above, const std::vector<Tensor>& below) {
  Tensor all(u8, {2 * kSide, int64_t(above.size()) * kSide, 3});
  auto to = all.mutable_values<uint8_t>();
  for (size_t half = 0; half < 2; ++half)
    for (size_t view = 0; view < above.size(); ++view) {
      auto from = (half == 0 ? above : below)[view].values<float>();
      for (size_t y = 0; y < size_t(kSide); ++y)
        for (size_t x = 0; x < size_t(3 * kSide); ++x)
          to[((half * kSide + y) * above.size() + view) * 3 * kSide + x] =
              static_cast<uint8_t>(std::lround(255 * std::clamp(from[y * 3 * kSide + x], 0.0f, 1.0f)));
    }
  return all;
}

int fit(const std::string& folder, int64_t steps) {
  Session session;
  auto views_of = [&](SplatScene scene) {
    Graph g;
    g.output(picture(g, scene.count()));
    CompiledGraph draw = session.compile(g);
    std::vector<Tensor> views;
    for (int64_t view = 0; view < kViews; ++view) {
      std::vector<Tensor> fed;
      for (Tensor* part : parts_of(scene)) fed.push_back(*part);
      fed.push_back(camera(view));
      views.push_back(draw.run_ordered(fed)[0]);
    }
    return views;
  };
  const std::vector<Tensor> wanted = views_of(ring());

  Graph loss_graph;
  Value seen = picture(loss_graph, kGaussians), target = loss_graph.input("target", f32, {kSide, kSide, 3});
  loss_graph.output(mean(abs(seen - target), {0, 1, 2}) * 0.8 + (1.0 - ssim(seen, target)) * 0.2, "loss");
  loss_graph.output(psnr(seen, target), "psnr");
  loss_graph.output(ssim(seen, target), "ssim");
  CompiledGraph step_of = session.compile(value_and_grad(loss_graph, kFitted));

  SplatScene scene = cloud();
  const float rates[] = {0.02f, 0.02f, 0.02f, 0.08f, 0.03f};
  std::vector<Adam> optimizers;
  for (Tensor* part : parts_of(scene)) optimizers.emplace_back(*part, rates[optimizers.size()]);
  double decibels = 0, similarity = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    const int64_t view = step * 3 % kViews;
    std::vector<Tensor> fed;
    for (Tensor* part : parts_of(scene)) fed.push_back(*part);
    fed.insert(fed.end(), {camera(view), wanted[size_t(view)]});
    const std::vector<Tensor> out = step_of.run_ordered(fed);
    fed.clear();  // so that the parameters are no one else's, and change in place
    const float fade = std::pow(0.05f, static_cast<float>(step) / static_cast<float>(steps));
    for (size_t i = 0; i < optimizers.size(); ++i) optimizers[i].step(out[3 + i], step, fade);
    const double kept = std::min(0.9, 1 - 1.0 / static_cast<double>(step));
    decibels = kept * decibels + (1 - kept) * static_cast<double>(out[1].values<float>()[0]);
    similarity = kept * similarity + (1 - kept) * static_cast<double>(out[2].values<float>()[0]);
    if (step % 10 == 0 || step == steps) show_progress(step, steps, decibels, similarity);
  }
  std::cout << "\n";

  const std::vector<Tensor> fitted = views_of(scene);
  double error = 0;
  for (size_t view = 0; view < fitted.size(); ++view)
    for (size_t i = 0; i < fitted[view].element_count(); ++i) {
      const auto difference = static_cast<double>(fitted[view].values<float>()[i] - wanted[view].values<float>()[i]);
      error += difference * difference;
    }
  error /= static_cast<double>(fitted.size() * fitted[0].element_count());
  write_png(folder + "/fit.png", sheet(wanted, fitted));
  write_splat_ply(folder + "/fit.ply", scene);
  std::cout << folder << "/fit.png, fit.ply: " << scene.count() << " Gaussians, " << kViews << " views, PSNR "
            << std::setprecision(2) << -10 * std::log10(error) << " dB\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 600;
  if (argc < 2 || argc > 3 || steps < 1) {
    std::cerr << "usage: splat_fit FOLDER [STEPS]\n";
    return 2;
  }
  try {
    return fit(argv[1], steps);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
