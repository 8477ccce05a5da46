// See the header.
#include "c_api/backend/plugin_backend.h"

#include "base/event_source.h"
#include "c_api/backend/plugin_executable.h"
#include "ir/leaves.h"

namespace rlx::c {
namespace {

void* allocated(const Buffer& buffer) { return static_cast<const PluginBlock&>(*buffer.block).buffer; }

class PluginMemory final : public DeviceMemory {
 public:
  explicit PluginMemory(PluginDevice& device) : device_(device) {}

  Memory about() const override {
    const rlx_target& target = device_.data();
    return {"device", HostAccess::none, target.alignment ? target.alignment : 64, target.capacity,
            target.largest_buffer};
  }
  std::shared_ptr<Block> allocate(size_t bytes) override {
    void* buffer = nullptr;
    if (bytes > 0) {
      const std::string what = text_of("allocating ", bytes, " bytes");
      device_.call(what, [&](rlx_error** error) {
        return device_.functions().allocate(device_.handle(), bytes, &buffer, error);
      });
      if (!buffer)
        fail(ErrorCode::internal, "the backend '", device_.table().name, "' failed at ", what,
             ": it said that it went well, and gave no buffer");
    }
    return std::make_shared<PluginBlock>(device_, buffer);
  }
  Event write(Buffer to, HostBytes from, std::span<const Event> after) override {
    return copied(text_of("a copy of ", to.bytes, " bytes to the device"), to.bytes, std::pair(to, from.owner), after,
                  [&device = device_, buffer = allocated(to), offset = to.offset, bytes = from.bytes](
                      rlx_completion c, rlx_error** error) {
                    return device.functions().write(device.handle(), buffer, offset, bytes.data(), bytes.size(), c,
                                                    error);
                  });
  }
  Event read(WritableHostBytes to, Buffer from, std::span<const Event> after) override {
    return copied(text_of("a copy of ", from.bytes, " bytes to the host"), from.bytes, std::pair(from, to.owner), after,
                  [&device = device_, buffer = allocated(from), offset = from.offset, bytes = to.bytes](
                      rlx_completion c, rlx_error** error) {
                    return device.functions().read(device.handle(), bytes.data(), buffer, offset, bytes.size(), c,
                                                   error);
                  });
  }
  /// By way of the host.
  Event copy(Buffer to, Buffer from, std::span<const Event> after) override {
    const auto between = std::make_shared<std::vector<std::byte>>(from.bytes);
    const Event there = read({*between, between}, from, after);
    return write(std::move(to), {*between, between}, std::span(&there, 1));
  }

 private:
  template <class Kept, class Begin>
  Event copied(std::string what, size_t bytes, Kept kept, std::span<const Event> after, Begin begin) {
    if (bytes == 0) {  // the order stays
      EventSource source(device_.name(), std::move(what));
      Event event = source.event();
      EventSource::when_all_done({after.begin(), after.end()}, [source](std::exception_ptr error) {
        if (error) source.fail(std::move(error));
        else source.finish();
      });
      return event;
    }
    PluginDevice::Work work{std::move(what), std::move(begin), std::make_shared<Kept>(std::move(kept))};
    work.takes_long = false;
    return device_.add(std::move(work), after);
  }
  PluginDevice& device_;
};

class PluginProgram final : public Program {
 public:
  PluginProgram(PluginDevice& device, Graph legal) : device_(device), graph_(std::move(legal)) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions& options) const override {
    return device_.table().has_memory() ? make_device_executable(device_, graph_, options)
                                        : make_host_executable(device_, graph_, options);
  }

 private:
  PluginDevice& device_;
  const Graph graph_;
};

/// The node of the question as a graph of its own.
Graph graph_of(const Question& q) {
  Graph g("question");
  std::vector<Value> operands;
  for (size_t i = 0; i < q.operands.size(); ++i) {
    const std::string name = text_of("x", i);
    const bool is_bound = q.is_weight && q.is_weight(i);
    operands.push_back(is_bound ? g.param(name, q.operands[i]) : g.input(name, q.operands[i]));
  }
  g.set_scope(q.node.name);
  for (const Value& v : g.emit(*q.node.op, operands, q.node.attrs)) g.output(v);
  return g;
}

class PluginBackend final : public Backend {
 public:
  explicit PluginBackend(PluginDevice& device) : device_(device) {
    if (device.table().has_memory() && device.unavailable().empty()) memory_ = std::make_shared<PluginMemory>(device);
  }
  std::string name() const override { return device_.name(); }
  std::string description() const override { return device_.description(); }
  int threads() const override { return std::max(1, device_.data().threads); }
  std::string unavailable() const override { return device_.unavailable(); }
  bool accelerates() const override { return device_.data().accelerates != 0; }
  bool cancels_loops() const override { return device_.data().cancels_loops != 0; }
  /// What it takes and how it compiles may change with its version.
  std::vector<TargetFact> facts() const override { return {{"backend's version", device_.table().version}}; }
  size_t claims_hash() const override {
    return mix(std::hash<std::string>{}(device_.table().name), std::hash<std::string>{}(device_.table().version));
  }
  std::shared_ptr<DeviceMemory> memory() const override { return memory_; }
  std::unique_ptr<Program> lower(Graph legal) const override {
    return std::make_unique<PluginProgram>(device_, std::move(legal));
  }
  Target target() const override {
    Target target;
    target.name = device_.name();
    target.refusal = [&device = device_](const Question& q) { return refusal(device, q); };
    target.limits = device_.limits();
    target.updates_in_place = device_.data().updates_in_place != 0;
    return target;
  }

 private:
  /// What goes wrong is a refusal, too: every compile asks whether this device would take what another one lacks.
  static std::optional<std::string> refusal(const PluginDevice& device, const Question& q) {
    if (!device.unavailable().empty()) return device.unavailable();
    if (is_leaf(q.node)) return std::nullopt;
    try {
      const Graph g = graph_of(q);
      const GraphView view(g);
      rlx_error* stored = nullptr;
      rlx_status status = RLX_OK;
      device.call(text_of("being asked for '", q.node.op->name, "'"), [&](rlx_error** error) {
        status = device.functions().supports(device.handle(), view.get(), error);
        stored = std::exchange(*error, nullptr);
        return RLX_OK;
      });
      const std::unique_ptr<rlx_error, void (*)(rlx_error*)> kept(stored, rlx_error_free);
      if (status == RLX_OK) return std::nullopt;
      return stored && *rlx_error_message(stored) ? rlx_error_message(stored) : "it does not take it, and says not why";
    } catch (const std::exception& e) {
      return e.what();
    }
  }
  PluginDevice& device_;
  std::shared_ptr<PluginMemory> memory_;
};

}  // namespace

std::shared_ptr<const Backend> make_plugin_backend(PluginDevice& device) {
  return std::make_shared<PluginBackend>(device);
}

}  // namespace rlx::c
