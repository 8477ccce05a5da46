// Gaussian splats in an image, and their gradient, on the CPU: how a run is divided over threads. The arithmetic is in
// raster.cpp.
#include "extras/splat/kernels.h"

#include <algorithm>
#include <cstring>

#include "extras/splat/raster.h"
#include "rlx/extras/splat.h"
#include "rlx/kernel.h"

namespace rlx::splat {
namespace {

size_t aligned_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// The arguments and the layout of scratch, for the image and for the gradient: the boxes come first, then a block of
/// memory for each thread.
struct Raster {
  SplatArgs args;
  int64_t batches = 1;
  size_t element, splats_bytes, image_bytes, box_bytes, list_bytes;

  explicit Raster(const KernelSite& site) {
    const KernelTensor &splats = site.operands[0], &background = site.operands[1];
    const auto& a = site.attrs<SplatAttrs>();
    args.dtype = splats.dtype, args.n = splats.shape[splats.shape.size() - 2];
    args.width = a.width, args.height = a.height;
    args.radius_squared = a.radius_scale * a.radius_scale;
    args.alpha_cutoff = a.alpha_cutoff, args.threshold = a.transmittance_threshold;
    args.max_steps = static_cast<double>(a.max_splat_steps), args.gamma = a.gamma;
    batches = background.count() / 3;
    element = byte_size(splats.dtype);
    splats_bytes = static_cast<size_t>(args.n * kSplatNumbers) * element;
    image_bytes = static_cast<size_t>(a.width * a.height * 4) * element;
    box_bytes = aligned_bytes(static_cast<size_t>(args.n) * sizeof(SplatBox));
    list_bytes = aligned_bytes(splat_scratch_bytes(args.n));
  }
  /// The arguments for one image. This also computes the boxes, at the front of scratch.
  SplatArgs prepared(const KernelRun& run, int64_t batch) const {
    SplatArgs call = args;
    call.splats = run.in<std::byte>(0) + static_cast<size_t>(batch) * splats_bytes;
    call.background = run.in<std::byte>(1) + static_cast<size_t>(batch) * 3 * element;
    auto* boxes = reinterpret_cast<SplatBox*>(run.scratch());
    const int64_t parts = std::clamp<int64_t>(call.n / 1024, 1, run.threads());  // of ten microseconds at least
    run.parallel_for(
        parts, [&](int64_t part) { splat_boxes(call, boxes, call.n * part / parts, call.n * (part + 1) / parts); });
    return call;
  }
};

PreparedKernel prepare_image(const KernelSite& site) {
  const Raster raster(site);
  const auto draw = [raster](const KernelRun& run) {
    const auto* boxes = reinterpret_cast<const SplatBox*>(run.scratch());
    std::byte* lists = run.scratch() + raster.box_bytes;
    for (int64_t batch = 0; batch < raster.batches; ++batch) {
      SplatArgs call = raster.prepared(run, batch);
      call.image = run.out<std::byte>() + static_cast<size_t>(batch) * raster.image_bytes;
      const int64_t rows = call.tile_rows(), tasks = std::min<int64_t>(run.threads(), rows);
      run.parallel_for(tasks, [&](int64_t task) {
        std::byte* list = lists + raster.list_bytes * static_cast<size_t>(task);
        for (int64_t row = task; row < rows; row += tasks) splat_tile_row(call, boxes, row, list);
      });
    }
  };
  return {draw, raster.box_bytes + raster.list_bytes * static_cast<size_t>(site.threads)};
}

template <class T>
void add_to(const std::byte* from, T* to, int64_t count) {
  const T* addend = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] += addend[i];
}
/// Adds up the tasks' partial sums, which are `stride` bytes apart, in the order of the tasks.
void add_partial_sums(const KernelRun& run, DType dtype, const std::byte* partial_sums, size_t stride, std::byte* to,
                      int64_t count) {
  const int64_t parts = std::clamp<int64_t>(count / 16384, 1, run.threads());
  run.parallel_for(parts, [&](int64_t part) {
    const int64_t begin = count * part / parts, some = count * (part + 1) / parts - begin;
    const size_t offset = static_cast<size_t>(begin) * byte_size(dtype);
    std::memset(to + offset, 0, static_cast<size_t>(some) * byte_size(dtype));
    for (int task = 0; task < run.threads(); ++task) {
      const std::byte* from = partial_sums + static_cast<size_t>(task) * stride + offset;
      dtype == f64 ? add_to(from, reinterpret_cast<double*>(to + offset), some)
                   : add_to(from, reinterpret_cast<float*>(to + offset), some);
    }
  });
}

PreparedKernel prepare_gradient(const KernelSite& site) {
  const Raster raster(site);
  // Each task has sums of its own, so that the order of additions, and so every bit of the result, depends only on the
  // number of threads.
  const size_t sums = aligned_bytes(raster.splats_bytes), backgrounds = 64,
               task_bytes = raster.list_bytes + sums + backgrounds;
  const auto differentiate = [=](const KernelRun& run) {
    const auto* boxes = reinterpret_cast<const SplatBox*>(run.scratch());
    std::byte* partial_sums = run.scratch() + raster.box_bytes;
    for (int64_t batch = 0; batch < raster.batches; ++batch) {
      SplatArgs call = raster.prepared(run, batch);
      call.ct = run.in<std::byte>(2) + static_cast<size_t>(batch) * raster.image_bytes;
      run.parallel_for(run.threads(), [&](int64_t task) {
        std::byte* own = partial_sums + task_bytes * static_cast<size_t>(task);
        std::memset(own, 0, sums + backgrounds);
        for (int64_t row = task; row < call.tile_rows(); row += run.threads())
          splat_tile_row_backward(call, boxes, row, own, own + sums, own + sums + backgrounds);
      });
      add_partial_sums(run, call.dtype, partial_sums, task_bytes,
                       run.out<std::byte>(0) + static_cast<size_t>(batch) * raster.splats_bytes,
                       call.n * kSplatNumbers);
      add_partial_sums(run, call.dtype, partial_sums + sums, task_bytes,
                       run.out<std::byte>(1) + static_cast<size_t>(batch) * 3 * raster.element, 3);
    }
  };
  return {differentiate, raster.box_bytes + task_bytes * static_cast<size_t>(site.threads)};
}

std::string refusal(Types operands, Types, const Attrs&) {
  const DType dtype = operands[0].dtype;
  return dtype == f32 || dtype == f64 ? "" : text_of("no kernel draws splats of ", dtype);
}

}  // namespace

void register_kernels() {
  register_cpu_kernel({&op::gaussian_splat_rasterize, "splats", refusal, prepare_image});
  register_cpu_kernel({&op::gaussian_splat_rasterize_backward, "splats_backward", refusal, prepare_gradient});
}

}  // namespace rlx::splat
