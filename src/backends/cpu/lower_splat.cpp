// Gaussian splats in an image, and their gradient. Rows of tiles are split over threads.
#include "backends/cpu/lowerings.h"
#include "kernels/splat.h"
#include "rlx/extras/splat.h"

namespace rlx::cpu {
namespace {

/// The kernel's arguments and the layout of scratch, for the image and for the gradient: the boxes come first, then a
/// block of memory for each thread.
struct Raster {
  kernels::SplatArgs args;
  int64_t batches = 1;
  size_t element, splats_bytes, image_bytes, box_bytes, list_bytes;

  explicit Raster(const LoweringContext& c) {
    const View &splats = c.operands[0], &background = c.operands[1];
    const auto& a = c.attrs<SplatAttrs>();
    args.dtype = splats.dtype, args.n = splats.shape[splats.shape.size() - 2];
    args.width = a.width, args.height = a.height;
    args.radius_squared = a.radius_scale * a.radius_scale;
    args.alpha_cutoff = a.alpha_cutoff, args.threshold = a.transmittance_threshold;
    args.max_steps = static_cast<double>(a.max_splat_steps), args.gamma = a.gamma;
    batches = background.count() / 3;
    element = splats.element_bytes();
    splats_bytes = static_cast<size_t>(args.n * kernels::kSplatNumbers) * element;
    image_bytes = static_cast<size_t>(a.width * a.height * 4) * element;
    box_bytes = aligned(static_cast<size_t>(args.n) * sizeof(kernels::SplatBox));
    list_bytes = aligned(kernels::splat_scratch_bytes(args.n));
  }
  /// The arguments for one image. This also computes the boxes, at the front of scratch.
  kernels::SplatArgs prepared(const StepArgs& step, int64_t batch) const {
    kernels::SplatArgs call = args;
    call.splats = step.in<std::byte>(0) + static_cast<size_t>(batch) * splats_bytes;
    call.background = step.in<std::byte>(1) + static_cast<size_t>(batch) * 3 * element;
    auto* boxes = reinterpret_cast<kernels::SplatBox*>(step.scratch);
    for_ranges(step, call.n, 64, static_cast<double>(call.n) * 10,
               [&](int64_t begin, int64_t end, int64_t) { kernels::splat_boxes(call, boxes, begin, end); });
    return call;
  }
};

template <class T>
void add_to(const std::byte* from, T* to, int64_t begin, int64_t end) {
  const T* addend = reinterpret_cast<const T*>(from);
  for (int64_t i = begin; i < end; ++i) to[i] += addend[i];
}
/// Adds up the threads' partial sums, which are `stride` bytes apart.
void add_partial_sums(const StepArgs& step, DType dtype, const std::byte* partial_sums, size_t stride, std::byte* to,
                      int64_t count) {
  for_ranges(step, count, 256, static_cast<double>(count), [&](int64_t begin, int64_t end, int64_t) {
    const size_t element = byte_size(dtype);
    std::memset(to + static_cast<size_t>(begin) * element, 0, static_cast<size_t>(end - begin) * element);
    for (int task = 0; task < step.width; ++task) {
      const std::byte* from = partial_sums + static_cast<size_t>(task) * stride;
      dtype == f64 ? add_to(from, reinterpret_cast<double*>(to), begin, end)
                   : add_to(from, reinterpret_cast<float*>(to), begin, end);
    }
  });
}

}  // namespace

std::string when_splats(const Question& q) {
  DType dtype = q.operands[0].dtype;
  return dtype == f32 || dtype == f64 ? "" : text_of("no kernel draws splats of ", dtype);
}

Prepared lower_splats(const LoweringContext& c) {
  Raster raster(c);
  return make_step(
      "splats", raster.box_bytes + raster.list_bytes * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
        auto* boxes = reinterpret_cast<const kernels::SplatBox*>(step.scratch);
        std::byte* lists = step.scratch + raster.box_bytes;
        for (int64_t batch = 0; batch < raster.batches; ++batch) {
          kernels::SplatArgs call = raster.prepared(step, batch);
          call.image = step.out<std::byte>() + static_cast<size_t>(batch) * raster.image_bytes;
          thread_pool().parallel_for(step.width, call.tile_rows(), [&](int64_t row, int slot) {
            kernels::splat_tile_row(call, boxes, row, lists + raster.list_bytes * static_cast<size_t>(slot));
          });
        }
      });
}

Prepared lower_splats_backward(const LoweringContext& c) {
  Raster raster(c);
  // Each task has sums of its own, so that the order of additions, and so every bit of the result, depends only on the
  // number of threads.
  const size_t sums = aligned(raster.splats_bytes), backgrounds = 64,
               thread_bytes = raster.list_bytes + sums + backgrounds;
  return make_step(
      "splats_backward", raster.box_bytes + thread_bytes * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
        auto* boxes = reinterpret_cast<const kernels::SplatBox*>(step.scratch);
        std::byte* partial_sums = step.scratch + raster.box_bytes;
        for (int64_t batch = 0; batch < raster.batches; ++batch) {
          kernels::SplatArgs call = raster.prepared(step, batch);
          call.ct = step.in<std::byte>(2) + static_cast<size_t>(batch) * raster.image_bytes;
          thread_pool().parallel_for(step.width, step.width, [&](int64_t task) {
            std::byte* own = partial_sums + thread_bytes * static_cast<size_t>(task);
            std::memset(own, 0, sums + backgrounds);
            for (int64_t row = task; row < call.tile_rows(); row += step.width)
              kernels::splat_tile_row_backward(call, boxes, row, own, own + sums, own + sums + backgrounds);
          });
          add_partial_sums(step, call.dtype, partial_sums, thread_bytes,
                           step.out<std::byte>(0) + static_cast<size_t>(batch) * raster.splats_bytes,
                           call.n * kernels::kSplatNumbers);
          add_partial_sums(step, call.dtype, partial_sums + sums, thread_bytes,
                           step.out<std::byte>(1) + static_cast<size_t>(batch) * 3 * raster.element, 3);
        }
      });
}

}  // namespace rlx::cpu
