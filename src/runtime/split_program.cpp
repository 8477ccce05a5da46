// See the header. A file of one has the form "split": a SplitText, and the programs of the parts as tensors whose names
// begin with the part's number. Files are hostile input: each number in it is checked before it is used.
#include "runtime/split_program.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "backends/registry.h"
#include "rlx/fields.h"
#include "runtime/split_executable.h"

namespace rlx {
namespace {

constexpr const char *kSplitForm = "split", *kSource = "source", *kConstants = "source/";

struct ValueText {
  std::string text = {};
  Type type = {};
  RLX_FIELDS(ValueText, field("text", &ValueText::text), field("type", &ValueText::type));
};
struct PartText {
  std::string device = {}, form = {}, first = {};
  int64_t nodes = 0;
  std::vector<int64_t> inputs = {}, outputs = {};  // -1: the extents
  RLX_FIELDS(PartText, field("device", &PartText::device), field("form", &PartText::form),
             field("first", &PartText::first), field("nodes", &PartText::nodes), field("inputs", &PartText::inputs),
             field("outputs", &PartText::outputs));
};
struct SplitText {
  std::vector<std::string> devices = {};
  std::vector<ValueText> values = {};
  std::vector<PartText> parts = {};
  std::vector<int64_t> outputs = {};
  RLX_FIELDS(SplitText, field("devices", &SplitText::devices), field("values", &SplitText::values),
             field("parts", &SplitText::parts), field("outputs", &SplitText::outputs));
};

Tensor tensor_of(const std::string& text) {
  return Tensor::of<uint8_t>({static_cast<int64_t>(text.size())},
                             std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}
std::string text_in(const NamedTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second.dtype() != u8)
    fail(ErrorCode::parse, "the program of a split graph has no text '", name, "'");
  return {reinterpret_cast<const char*>(found->second.data()), found->second.byte_count()};
}
/// Those whose names begin so, without it.
NamedTensors tensors_in(const NamedTensors& tensors, const std::string& prefix) {
  NamedTensors some;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) some.emplace(name.substr(prefix.size()), tensor);
  return some;
}
std::vector<int64_t> numbers_of(const std::vector<size_t>& values) {
  std::vector<int64_t> numbers;
  for (size_t v : values) numbers.push_back(v == SplitPart::kExtents ? -1 : static_cast<int64_t>(v));
  return numbers;
}

SplitProgramData complete(Graph source, Split split, std::vector<std::shared_ptr<const Backend>> backends,
                          std::vector<std::shared_ptr<const Program>> parts) {
  std::vector<bool> own;
  for (const auto& backend : backends) own.push_back(backend->has_own_memory());
  SplitPlan plan = plan_of(split, own);
  return {std::move(source), std::move(split), std::move(plan), std::move(backends), std::move(parts)};
}

/// Fails unless values are handed from parts to later ones, each of its type.
void require_sound(const Split& split, const Graph& source) {
  const auto damaged = [](const auto&... parts) {
    fail(ErrorCode::parse, "the program of a split graph is damaged: ", parts...);
  };
  if (split.outputs.size() != source.outputs().size() || split.values.size() < source.inputs().size())
    damaged("it has ", split.outputs.size(), " outputs and ", split.values.size(), " values for a graph of ",
            source.outputs().size(), " outputs and ", source.inputs().size(), " inputs");
  std::vector<bool> is_there(split.values.size());
  for (size_t i = 0; i < source.inputs().size(); ++i) {
    is_there[i] = true;
    if (split.values[i].type != source.type(source.inputs()[i])) damaged("input ", i, " is not of its type");
  }
  const auto number = [&](size_t v) {
    if (v >= split.values.size()) damaged("it names value ", v, " and has ", split.values.size());
    return v;
  };
  for (size_t p = 0; p < split.parts.size(); ++p) {
    const SplitPart& part = split.parts[p];
    if (part.inputs.size() != part.graph.inputs().size() || part.outputs.size() != part.graph.outputs().size())
      damaged("part ", p, " has not the inputs and outputs of its graph");
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      const Type& type = part.graph.type(part.graph.inputs()[i]);
      if (part.inputs[i] == SplitPart::kExtents) {
        if (type.dims.empty() || type.dims[0] != Dim(0))
          damaged("part ", p, " has an input of nothing that has elements");
      } else if (!is_there[number(part.inputs[i])] || split.values[part.inputs[i]].type != type) {
        damaged("part ", p, " reads a value that is not there by then, or is not of its type");
      }
    }
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      if (is_there[number(part.outputs[o])] ||
          split.values[part.outputs[o]].type != part.graph.type(part.graph.outputs()[o].ref))
        damaged("part ", p, " gives a value that is there already, or is not of its type");
      is_there[part.outputs[o]] = true;
    }
    for (Ref r : part.graph.params())
      if (std::none_of(source.params().begin(), source.params().end(), [&](Ref s) {
            return source.node(s).name == part.graph.node(r).name && source.type(s) == part.graph.type(r);
          }))
        damaged("part ", p, " has a param that the graph has not");
  }
  for (size_t o = 0; o < split.outputs.size(); ++o) {
    const size_t v = number(split.outputs[o]);
    if (v < source.inputs().size() || !is_there[v] || split.values[v].type != source.type(source.outputs()[o].ref) ||
        std::count(split.outputs.begin(), split.outputs.end(), v) != 1)
      damaged("output ", o, " is no value of its own, or not of its type");
  }
  if (std::find(is_there.begin(), is_there.end(), false) != is_there.end()) damaged("a value is made by no part");
}

class SplitBackend final : public Backend {
 public:
  SplitBackend(std::shared_ptr<const Backend> main, const std::vector<Device>& others, std::string isa)
      : main_(std::move(main)), isa_(std::move(isa)) {
    for (const Device& device : others) others_.push_back(backend_with(device, isa_));
  }
  std::string name() const override { return main_->name(); }
  std::string description() const override { return main_->description(); }
  int threads() const override { return main_->threads(); }
  std::string unavailable() const override { return main_->unavailable(); }
  Target target() const override { return main_->target(); }
  std::shared_ptr<DeviceMemory> memory() const override { return main_->memory(); }
  bool has_own_memory() const override { return main_->has_own_memory(); }
  Memory about_memory() const override { return main_->about_memory(); }
  size_t claims_hash() const override {
    size_t h = main_->claims_hash();
    for (const auto& other : others_) h = mix(h, other->claims_hash());
    return h;
  }
  std::vector<TargetFact> facts() const override {
    std::vector<TargetFact> all = main_->facts();
    for (const auto& other : others_)
      for (const TargetFact& fact : other->facts())
        all.push_back({text_of(other->name(), ": ", fact.name), fact.value});
    return all;
  }
  std::vector<std::string> registered_kernels(const Graph* program) const override {
    std::set<std::string> all;
    for (std::string& kernel : main_->registered_kernels(program)) all.insert(std::move(kernel));
    for (const auto& other : others_)
      for (std::string& kernel : other->registered_kernels(program)) all.insert(std::move(kernel));
    return {all.begin(), all.end()};
  }
  std::unique_ptr<Program> lower(Graph legal) const override { return main_->lower(std::move(legal)); }
  std::unique_ptr<Program> read(const Payload& payload) const override {
    if (payload.form != kSplitForm) return main_->read(payload);
    SplitText text;
    Scanner in(payload.text);
    parse(in, text);
    if (!in.at_end()) in.unexpected("the end of the text");
    const NamedTensors constants = tensors_in(payload.tensors, kConstants);
    Graph source = parse_graph_file(text_in(payload.tensors, kSource), [&](std::string_view name) {
      const auto found = constants.find(name);
      if (found == constants.end()) fail(ErrorCode::parse, "the constant '", name, "' is not there");
      return found->second;
    });
    Split split;
    std::vector<std::shared_ptr<const Backend>> backends;
    for (const std::string& name : text.devices) {
      split.devices.push_back(Device::parse(name));
      backends.push_back(backends.empty() ? main_ : backend_with(split.devices.back(), isa_));
      if (const auto why = backends.back()->unavailable(); !why.empty())
        fail(ErrorCode::not_found, "device '", name, "' is not available: ", why);
    }
    if (split.devices.empty() || split.devices[0].name() != main_->name())
      fail(ErrorCode::parse, "the program of a split graph is not for ", main_->name());
    for (const ValueText& v : text.values) split.values.push_back({v.text, v.type});
    const auto values_of = [](const std::vector<int64_t>& numbers) {
      std::vector<size_t> values;
      for (int64_t n : numbers) values.push_back(n == -1 ? SplitPart::kExtents : static_cast<size_t>(n));
      return values;
    };
    split.outputs = values_of(text.outputs);
    std::vector<std::shared_ptr<const Program>> parts;
    for (size_t p = 0; p < text.parts.size(); ++p) {
      const PartText& from = text.parts[p];
      const auto at = std::find(text.devices.begin(), text.devices.end(), from.device);
      if (at == text.devices.end()) fail(ErrorCode::parse, "part ", p, " is for a device that the program has not");
      const auto device = static_cast<size_t>(at - text.devices.begin());
      parts.push_back(with_context([&] { return text_of("reading part ", p, " for ", from.device); },
                                   [&] {
                                     return std::shared_ptr<const Program>(
                                         backends[device]->read({from.form, text_in(payload.tensors, std::to_string(p)),
                                                                 tensors_in(payload.tensors, text_of(p, "/"))}));
                                   }));
      split.parts.push_back({device, parts.back()->graph(), values_of(from.inputs), values_of(from.outputs),
                             static_cast<size_t>(std::max<int64_t>(0, from.nodes)), from.first});
    }
    require_sound(split, source);
    return std::make_unique<SplitProgram>(
        complete(std::move(source), std::move(split), std::move(backends), std::move(parts)));
  }

 private:
  std::shared_ptr<const Backend> main_;
  std::string isa_;
  std::vector<std::shared_ptr<const Backend>> others_;
};

}  // namespace

Payload SplitProgram::payload() const {
  Payload payload;
  payload.form = kSplitForm;
  SplitText text;
  for (const Device& device : data_->split.devices) text.devices.push_back(device.name());
  for (const SplitValue& v : data_->split.values) text.values.push_back({v.text, v.type});
  text.outputs = numbers_of(data_->split.outputs);
  for (size_t p = 0; p < data_->parts.size(); ++p) {
    const SplitPart& part = data_->split.parts[p];
    const Payload own = data_->parts[p]->payload();
    text.parts.push_back({text.devices[part.device], own.form, part.first, static_cast<int64_t>(part.nodes),
                          numbers_of(part.inputs), numbers_of(part.outputs)});
    payload.tensors.emplace(std::to_string(p), tensor_of(own.text));
    for (const auto& [name, tensor] : own.tensors) payload.tensors.emplace(text_of(p, "/", name), tensor);
  }
  const GraphFile source = graph_file_of(data_->source);
  payload.tensors.emplace(kSource, tensor_of(source.text));
  for (const auto& [name, tensor] : source.constants) payload.tensors.emplace(kConstants + name, tensor);
  std::ostringstream out;
  print(out, text);
  payload.text = out.str();
  return payload;
}

std::unique_ptr<Executable> SplitProgram::load(const LoadOptions& options) const { return load_split(data_, options); }

std::vector<std::string> SplitProgram::registered_kernels(const Backend&) const {
  std::set<std::string> all;
  for (size_t p = 0; p < data_->parts.size(); ++p)
    for (std::string& kernel : data_->parts[p]->registered_kernels(*data_->backends[data_->split.parts[p].device]))
      all.insert(std::move(kernel));
  return {all.begin(), all.end()};
}

std::unique_ptr<Program> lower_split(const Graph& source, Split split, std::vector<Graph> legal,
                                     const std::string& isa) {
  std::vector<std::shared_ptr<const Backend>> backends;
  for (const Device& device : split.devices) backends.push_back(backend_with(device, isa));
  std::vector<std::shared_ptr<const Program>> parts;
  for (size_t p = 0; p < legal.size(); ++p)
    parts.emplace_back(with_context(
        [&] {
          return text_of("lowering part ", p, " of '", source.name(), "' for ", split.devices[split.parts[p].device]);
        },
        [&] { return backends[split.parts[p].device]->lower(std::move(legal[p])); }));
  return std::make_unique<SplitProgram>(complete(source, std::move(split), std::move(backends), std::move(parts)));
}

std::unique_ptr<Backend> split_backend(std::shared_ptr<const Backend> main, const std::vector<Device>& others,
                                       const std::string& isa) {
  return std::make_unique<SplitBackend>(std::move(main), others, isa);
}

}  // namespace rlx
