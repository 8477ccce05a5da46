// Datasets over tensors in memory; see rlx/data.h.
#include <algorithm>

#include "rlx/data.h"
#include "rlx/element.h"

namespace rlx {
namespace {

class Arrays : public Dataset {
 public:
  explicit Arrays(NamedTensors arrays) : arrays_(std::move(arrays)) {
    if (arrays_.empty()) fail(ErrorCode::invalid_argument, "a dataset needs an array at least");
    for (const auto& [name, array] : arrays_) {
      if (array.rank() == 0)
        fail(ErrorCode::shape_mismatch, "the data '", name, "' are ", array.type(),
             "; the first dim counts the examples, so there must be one");
      if (byte_size(array.dtype()) == 0)
        fail(ErrorCode::unsupported, "the data '", name, "' are ", array.type(),
             "; elements that share bytes have no slices");
      const Tensor& first = arrays_.begin()->second;
      if (array.shape()[0] != first.shape()[0])
        fail(ErrorCode::shape_mismatch, "the data '", name, "' have ", array.shape()[0], " examples (", array.type(),
             "), '", arrays_.begin()->first, "' ", first.shape()[0], " (", first.type(), ")");
    }
    size_ = arrays_.begin()->second.shape()[0];
    if (size_ == 0) fail(ErrorCode::invalid_argument, "the data have no examples");
  }
  int64_t size() const override { return size_; }
  std::vector<NamedTensor> gather(std::span<const int64_t> examples) const override {
    std::vector<NamedTensor> batch;
    for (const auto& [name, array] : arrays_) {
      Shape shape = array.shape();
      shape[0] = static_cast<int64_t>(examples.size());
      Tensor t = Tensor::uninitialized(array.dtype(), shape);
      size_t bytes = array.byte_count() / static_cast<size_t>(size_);
      std::byte* to = t.mutable_data();
      for (int64_t example : examples) {
        if (bytes) std::memcpy(to, array.data() + static_cast<size_t>(example) * bytes, bytes);
        to += bytes;
      }
      batch.emplace_back(name, std::move(t));
    }
    return batch;
  }

 private:
  NamedTensors arrays_;
  int64_t size_ = 0;
};

class Windows : public Dataset {
 public:
  Windows(Tensor tokens, int64_t length, int64_t stride, std::string input, std::string target)
      : tokens_(std::move(tokens)), length_(length), stride_(stride), names_{std::move(input), std::move(target)} {
    if (tokens_.rank() != 1 || byte_size(tokens_.dtype()) == 0)
      fail(ErrorCode::shape_mismatch, "windows are cut out of one long row of tokens, not of ", tokens_.type());
    if (length < 1 || stride < 1)
      fail(ErrorCode::invalid_argument, "windows of ", length, " tokens, ", stride, " apart; both are at least 1");
    int64_t last = tokens_.shape()[0] - length - 1;  // where the last window begins
    if (last < 0)
      fail(ErrorCode::invalid_argument, "there are ", tokens_.shape()[0], " tokens; a window of ", length,
           " and its target take ", length + 1);
    size_ = last / stride + 1;
  }
  int64_t size() const override { return size_; }
  std::vector<NamedTensor> gather(std::span<const int64_t> examples) const override {
    size_t element = byte_size(tokens_.dtype()), bytes = static_cast<size_t>(length_) * element;
    std::vector<NamedTensor> batch;
    for (size_t ahead = 0; ahead < 2; ++ahead) {
      Tensor t = Tensor::uninitialized(tokens_.dtype(), {static_cast<int64_t>(examples.size()), length_});
      std::byte* to = t.mutable_data();
      for (int64_t example : examples) {
        std::memcpy(to, tokens_.data() + (static_cast<size_t>(example * stride_) + ahead) * element, bytes);
        to += bytes;
      }
      batch.emplace_back(names_[ahead], std::move(t));
    }
    return batch;
  }

 private:
  Tensor tokens_;
  int64_t length_, stride_, size_ = 0;
  std::array<std::string, 2> names_;
};

class Range : public Dataset {
 public:
  Range(std::shared_ptr<const Dataset> whole, int64_t begin, int64_t end)
      : whole_(std::move(whole)), begin_(begin), end_(end) {
    if (begin < 0 || begin >= end || end > whole_->size())
      fail(ErrorCode::invalid_argument, "the examples ", begin, " to ", end, " of ", whole_->size(), " are no range");
  }
  int64_t size() const override { return end_ - begin_; }
  std::vector<NamedTensor> gather(std::span<const int64_t> examples) const override {
    std::vector<int64_t> of_whole(examples.begin(), examples.end());
    for (int64_t& example : of_whole) example += begin_;
    return whole_->gather(of_whole);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  int64_t begin_, end_;
};

Tensor& named(std::vector<NamedTensor>& batch, const std::string& name) {
  for (auto& [each, tensor] : batch)
    if (each == name) return tensor;
  fail(ErrorCode::not_found, "a transform names '", name, "', which the batch has not");
}

/// One plane moved by (down, right); zeros come in.
void shift_plane(std::byte* plane, int64_t height, int64_t width, size_t element, int64_t down, int64_t right) {
  std::vector<std::byte> old(plane, plane + static_cast<size_t>(height * width) * element);
  std::fill(plane, plane + old.size(), std::byte{0});
  int64_t from = std::max<int64_t>(0, -right), count = width - std::abs(right);
  for (int64_t row = std::max<int64_t>(0, -down); row < std::min(height, height - down) && count > 0; ++row)
    std::memcpy(plane + static_cast<size_t>((row + down) * width + from + right) * element,
                old.data() + static_cast<size_t>(row * width + from) * element, static_cast<size_t>(count) * element);
}

}  // namespace

std::shared_ptr<const Dataset> arrays_dataset(NamedTensors arrays) {
  return std::make_shared<Arrays>(std::move(arrays));
}
std::shared_ptr<const Dataset> windows_dataset(Tensor tokens, int64_t length, int64_t stride, std::string input,
                                               std::string target) {
  return std::make_shared<Windows>(std::move(tokens), length, stride, std::move(input), std::move(target));
}
std::shared_ptr<const Dataset> range_of(std::shared_ptr<const Dataset> whole, int64_t begin, int64_t end) {
  return std::make_shared<Range>(std::move(whole), begin, end);
}

Transform random_shifts(std::string name, int64_t most) {
  constexpr int64_t kMost = int64_t{1} << 31;  // twice that and one is drawn from
  if (most < 0 || most > kMost)
    fail(ErrorCode::invalid_argument, "images are shifted by 0 to ", kMost, " places, not by ", most);
  return [name = std::move(name), most](std::vector<NamedTensor>& batch, std::span<RandomStream> random) {
    Tensor& images = named(batch, name);
    size_t rank = images.rank();
    if (rank < 3 || byte_size(images.dtype()) == 0)
      fail(ErrorCode::shape_mismatch, "random_shifts moves images [n, ..., height, width]; '", name, "' is ",
           images.type());
    int64_t height = images.shape()[rank - 2], width = images.shape()[rank - 1];
    if (images.element_count() == 0) return;
    size_t element = byte_size(images.dtype()), plane = static_cast<size_t>(height * width) * element;
    size_t each = images.byte_count() / random.size();
    std::byte* data = images.mutable_data();
    for (size_t i = 0; i < random.size(); ++i) {
      auto draw = [&](int64_t extent) {
        return std::clamp(static_cast<int64_t>(random[i].below(static_cast<uint64_t>(2 * most + 1))) - most, -extent,
                          extent);
      };
      int64_t down = draw(height), right = draw(width);
      for (size_t at = 0; at < each; at += plane)
        shift_plane(data + i * each + at, height, width, element, down, right);
    }
  };
}

Transform scaled_to_f32(std::string name, double scale, double offset) {
  return [name = std::move(name), scale, offset](std::vector<NamedTensor>& batch, std::span<RandomStream>) {
    Tensor& x = named(batch, name);
    Tensor y = Tensor::uninitialized(f32, x.shape());
    auto to = y.mutable_values<float>();
    if (x.dtype() == u8) {
      auto from = x.values<uint8_t>();
      for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i] * scale + offset);
    } else {
      for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(load_number(x, i) * scale + offset);
    }
    x = std::move(y);
  };
}

}  // namespace rlx
