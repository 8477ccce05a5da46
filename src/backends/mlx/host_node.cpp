// See the header.
#include "backends/mlx/host_node.h"

#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <cstring>
#include <utility>

#include "base/user_code.h"
#include "reference/interpreter.h"

namespace rlx::mlx_backend {
namespace {

thread_local bool in_host_node = false;

/// Where elements of a value lie while the graph is evaluated.
struct Place {
  const char* data;
  std::vector<int64_t> strides;  // in bytes
};

class HostNode final : public mx::Primitive {
 public:
  HostNode(mx::Stream stream, const Node& node, std::vector<Type> operands, std::shared_ptr<HostErrors> errors)
      : Primitive(stream), call_(std::make_shared<Call>(Call{node.op, node.attrs, node.name, std::move(operands),
                                                             node.types, std::move(errors)})) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    std::vector<Place> from;
    for (const mx::array& in : inputs) {
      Place place{in.data<char>(), {}};
      for (int64_t stride : in.strides()) place.strides.push_back(stride * static_cast<int64_t>(in.itemsize()));
      from.push_back(std::move(place));
    }
    std::vector<char*> to;
    for (mx::array& out : outputs) {
      out.set_data(mx::allocator::malloc(out.nbytes()));
      to.push_back(out.data<char>());
    }
    // MLX keeps the buffers of operands and results until what is dispatched here has run.
    mx::cpu::get_command_encoder(stream()).dispatch(
        [call = call_, from = std::move(from), to = std::move(to)] { call->run(from, to); });
  }
  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("a host node was put on a stream of a GPU");
  }
  const char* name() const override { return "RlxHostNode"; }

 private:
  struct Call {
    const OpDef* op;
    Attrs attrs;
    std::string node;
    std::vector<Type> operands, results;
    std::shared_ptr<HostErrors> errors;

    void run(const std::vector<Place>& from, const std::vector<char*>& to) const noexcept {
      in_host_node = true;
      try {
        with_context([&] { return text_of("running '", op->name, "'", node.empty() ? "" : " of '" + node + "'"); },
                     [&] { user_code("the reference", [&] { compute(from, to); }); });
      } catch (...) {
        errors->keep(std::current_exception());
        for (size_t r = 0; r < to.size(); ++r)  // what follows reads zeros and not what lay there
          if (size_t bytes = byte_count(results[r].dtype, shape_of(results[r].dims))) std::memset(to[r], 0, bytes);
      }
      in_host_node = false;
    }
    void compute(const std::vector<Place>& from, const std::vector<char*>& to) const {
      std::vector<Tensor> in;
      for (size_t i = 0; i < operands.size(); ++i) {
        const Shape shape = shape_of(operands[i].dims);
        if (has_dtype(operands[i].dtype)) {
          in.push_back(Tensor::from_strided(operands[i].dtype, shape, from[i].data, from[i].strides));
          continue;
        }
        Tensor t = Tensor::uninitialized(operands[i].dtype, shape);
        const int64_t stride = from[i].strides[0];
        std::byte* bytes = t.mutable_data();
        for (size_t b = 0; b < t.byte_count(); ++b)
          bytes[b] = static_cast<std::byte>(from[i].data[static_cast<int64_t>(b) * stride]);
        in.push_back(std::move(t));
      }
      const std::vector<Tensor> made = run_op(*op, attrs, in, results);
      for (size_t r = 0; r < made.size(); ++r)
        if (made[r].byte_count() > 0) std::memcpy(to[r], made[r].data(), made[r].byte_count());
    }
  };
  std::shared_ptr<const Call> call_;
};

}  // namespace

bool is_in_host_node() { return in_host_node; }

void HostErrors::keep(std::exception_ptr error) {
  std::scoped_lock lock(mutex_);
  if (!first_) first_ = std::move(error);
}
void HostErrors::check() {
  std::exception_ptr error;
  {
    std::scoped_lock lock(mutex_);
    error = std::exchange(first_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

std::vector<mx::array> host_node(const Node& node, const std::vector<Type>& operands,
                                 const std::vector<mx::array>& inputs, mx::Stream stream,
                                 std::shared_ptr<HostErrors> errors) {
  std::vector<mx::Shape> shapes;
  std::vector<mx::Dtype> dtypes;
  for (const Type& t : node.types) {
    shapes.push_back(carried_shape(t));
    dtypes.push_back(carried_dtype(t.dtype));
  }
  return mx::array::make_arrays(std::move(shapes), dtypes,
                                std::make_shared<HostNode>(stream, node, operands, std::move(errors)), inputs);
}

}  // namespace rlx::mlx_backend
