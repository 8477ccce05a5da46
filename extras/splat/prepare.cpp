// gaussian_splat_prepare: Gaussians in space to splats in an image, the nearest first. Neighbours: projection.h, the
// formulas; rasterize.cpp, what is made of them.
#include <algorithm>
#include <numeric>

#include "extras/splat/plain.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx {

PreparedSplats gaussian_splat_prepare(const SplatValues& scene, Value camera, SplatAttrs attrs) {
  auto out = camera.graph().emit(op::gaussian_splat_prepare, splat::operands_of(scene, camera), attrs);
  return {out[0], out[1], out[2]};
}

namespace splat {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Entry i of the last dim, without it.
Value entry(Value x, int64_t i) {
  Dims dims(x.dims().begin(), x.dims().end() - 1);
  return reshape(slice_axis(x, x.rank() - 1, i, i + 1), dims);
}
template <size_t kCount>
std::array<Value, kCount> entries(Value x) {
  std::array<Value, kCount> all;
  for (size_t i = 0; i < kCount; ++i) all[i] = entry(x, int64_t(i));
  return all;
}

Gaussian<Value> gaussians_of(const SplatValues& s) {
  auto at = entries<3>(s.positions);
  Gaussian<Value> g{{at[0], at[1], at[2]}, entries<3>(s.log_scales), entries<4>(s.rotations),
                    s.opacities,           entries<3>(s.colors),     {}};
  int64_t axis = s.sh.rank() - 2, coefficients = s.sh.dim(axis).value();
  for (int64_t k = 0; k < coefficients; ++k)
    g.sh.push_back(entries<3>(squeeze(slice_axis(s.sh, axis, k, k + 1), {axis})));
  return g;
}
/// Of camera[..., 10], each number [..., 1]: it serves all Gaussians.
CameraFrame<Value> camera_of(Value camera, int64_t height) {
  std::array<Value, 10> c;
  for (size_t i = 0; i < c.size(); ++i) c[i] = slice_axis(camera, camera.rank() - 1, int64_t(i), int64_t(i) + 1);
  return {c, height};
}

/// How many tiles lie side by side.
int64_t tile_count(int64_t pixels, int64_t tile_size) { return (pixels + tile_size - 1) / tile_size; }

Many<Value> prepare(Values in, const SplatAttrs& a) {
  SplatValues scene = scene_of(in);
  CameraFrame<Value> camera = camera_of(in[6], a.height);
  Projection<Value, Value> p(gaussians_of(scene), camera, a);
  Value rows = stack({p.numbers.begin(), p.numbers.end()}, in[3].rank());

  auto tile_range = [&](Value center, Value reach, int64_t pixels) {
    double size = static_cast<double>(a.tile_size), most = static_cast<double>(tile_count(pixels, a.tile_size));
    Value half = reach * a.radius_scale;
    return std::array{clamp(floor((center - half) / size), 0, most),
                      clamp(floor((center + half) / size) + 1.0, 0, most)};
  };
  auto across = tile_range(stop_gradient(p.numbers[1]), stop_gradient(p.reach_x), a.width);
  auto down = tile_range(stop_gradient(p.numbers[2]), stop_gradient(p.reach_y), a.height);
  Value reaches = bitwise_and(
      bitwise_and(compare(across[1], across[0], Comparison::gt), compare(down[1], down[0], Comparison::gt)), p.seen);
  std::vector<Value> sides = {across[0], down[0], across[1], down[1]};
  for (Value& side : sides) side = convert(where(reaches, side, 0), i32);
  Value tiles = stack(sides, in[3].rank());

  Value key = where(p.seen, stop_gradient(p.depth), kInfinity), order = argsort(key, key.rank() - 1);
  Value index = expand_dims(order, order.rank());
  int64_t batch = order.rank() - 1;
  return {gather_nd(rows, index, batch), order, gather_nd(tiles, index, batch)};
}

}  // namespace

PlainScene::PlainScene(Tensors in)
    : dims([&] {
        std::vector<Type> types;
        for (const Tensor& t : in.first(7)) types.push_back(t.type());
        return SceneDims(types);
      }()),
      batches(in[6].element_count() / 10), n(static_cast<size_t>(dims.n.value())),
      coefficients(static_cast<size_t>(dims.coefficients)), positions(in[0]), log_scales(in[1]), rotations(in[2]),
      opacities(in[3]), colors(in[4]), sh(in[5]), cameras(in[6]) {}

Many<Tensor> prepare_plainly(Tensors in, const SplatAttrs& a) {
  PlainScene scene(in);
  const size_t n = scene.n;
  auto number = [&](size_t operand, size_t at) { return scene.value(operand, at); };
  Array<double> splats(shape_of(scene.dims.per_splat({splat_field::count})));
  Array<int64_t> order(shape_of(scene.dims.per_splat({}))), tiles(shape_of(scene.dims.per_splat({4})));
  for (size_t b = 0; b < scene.batches; ++b) {
    auto camera = scene.camera<double>(b, a.height, number);
    std::vector<Projection<double, bool>> all;
    for (size_t i = b * n; i < (b + 1) * n; ++i) all.emplace_back(scene.gaussian<double>(i, number), camera, a);
    std::vector<size_t> places(n);
    std::iota(places.begin(), places.end(), size_t{0});
    auto key = [&](size_t i) { return all[i].seen ? all[i].depth : kInfinity; };
    std::stable_sort(places.begin(), places.end(), [&](size_t i, size_t k) { return key(i) < key(k); });
    for (size_t row = 0; row < n; ++row) {
      const auto& p = all[places[row]];
      std::copy(p.numbers.begin(), p.numbers.end(),
                splats.data.begin() + static_cast<int64_t>(b * n + row) * splat_field::count);
      order.data[b * n + row] = static_cast<int64_t>(places[row]);
      auto range = [&](double center, double reach, int64_t pixels) {
        auto size = static_cast<double>(a.tile_size), most = static_cast<double>(tile_count(pixels, a.tile_size));
        auto tile = [&](double x) { return std::clamp(std::floor(x / size), -1.0, most); };
        return std::array{std::max(tile(center - reach * a.radius_scale), 0.0),
                          std::min(tile(center + reach * a.radius_scale) + 1, most)};
      };
      auto across = range(p.numbers[1], p.reach_x, a.width), down = range(p.numbers[2], p.reach_y, a.height);
      if (!p.seen || !(across[1] > across[0]) || !(down[1] > down[0])) continue;
      size_t side = 4 * (b * n + row);
      for (double tile : {across[0], down[0], across[1], down[1]}) tiles.data[side++] = static_cast<int64_t>(tile);
    }
  }
  return {splats.rounded_to(in[0].dtype()), order.rounded_to(i32), tiles.rounded_to(i32)};
}

}  // namespace splat

OpDef define_gaussian_splat_prepare() {
  using A = SplatAttrs;
  return define<A>({
      .name = "gaussian_splat_prepare",
      .doc =
          "splats[..., n, 15] (depth, center x y, conic a b c, slope gx gy, bend hxx hxy hyy, opacity, red, green, "
          "blue), the nearest first, of Gaussians as camera[..., 10] (position, target, up, vertical field of view) "
          "sees "
          "them; order[..., n]: which Gaussian each is; tiles[..., n, 4]: first x, y and behind the last x, y of those "
          "that it reaches. What lies outside of (near, far) is zeros and comes last",
      .source = "Kerbl et al., ACM TOG 42(4) (2023); Zwicker et al., IEEE TVCG 8 (2002)",
      .operands = {"positions", "log_scales", "rotations", "opacities", "colors", "sh", "camera"},
      .covers = {"GaussianSplatPrepare"},
      .infer =
          [](Types in, const A& a) {
            splat::require_attrs(a);
            splat::SceneDims d(in);
            return Many<Type>{
                {in[0].dtype, d.per_splat({splat_field::count})}, {i32, d.per_splat({})}, {i32, d.per_splat({4})}};
          },
      .reference = [](Tensors in, const A& a) { return splat::prepare_plainly(in, a); },
      .decompose = [](Values in, const A& a) { return splat::prepare(in, a); },
      .batch =
          [](Values in, const A& a) {
            return Many<Value>(in[0].graph().emit(op::gaussian_splat_prepare, {in.begin(), in.end()}, a));
          },
      .samples = [] { return splat::scene_samples([](const SplatAttrs& a) { return a; }, splat::Behind::nothing); },
  });
}

}  // namespace rlx
