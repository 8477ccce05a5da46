// A file of a compiled graph is a safetensors file (io/safetensors_header.h): its reader checks sizes and offsets.
//
//   metadata   "rlx": "compiled graph 1" (the version of this format); "sum": the checksum of "about"
//   "about"    a Manifest as text (rlx/fields.h): who compiled it, for what, and what the other tensors are
//   "0", "1".. the bytes of texts and tensors, which the manifest lists with their types and sums. All are u8 and
//   padded
//              to a multiple of 8, so that elements of any dtype lie where their type wants them. Equal ones stand
//              once.
#include "runtime/artifact.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/printable_text.h"
#include "base/rounded_up.h"
#include "io/names_in_messages.h"
#include "ir/rewrite.h"
#include "rlx/fields.h"
#include "rlx/version.h"
#include "runtime/split_program.h"

namespace rlx {
namespace {

constexpr const char *kKey = "rlx", *kSumKey = "sum", *kAbout = "about";
constexpr std::string_view kFormat = "compiled graph ", kFormatVersion = "1";
constexpr size_t kAlignment = 8;

/// The bytes of a text or a tensor.
struct Piece {
  Type type = {};
  std::string sum = {};
  RLX_FIELDS(Piece, field("type", &Piece::type), field("sum", &Piece::sum));
};
/// What piece a name stands for.
struct Place {
  std::string name = {};
  int64_t piece = 0;
  RLX_FIELDS(Place, field("name", &Place::name), field("piece", &Place::piece));
};
struct Fact {
  std::string name = {}, value = {};
  RLX_FIELDS(Fact, field("name", &Fact::name), field("value", &Fact::value));
};
struct Argument {
  std::string name = {};
  Type type = {};
  ArgumentMode mode = ArgumentMode::read;
  RLX_FIELDS(Argument, field("name", &Argument::name), field("type", &Argument::type), field("mode", &Argument::mode));
};
struct Line {
  std::string node = {}, op = {};
  Verdict verdict = Verdict::native;
  std::string reason = {}, device = {}, dtypes = {};
  RLX_FIELDS(Line, field("node", &Line::node), field("op", &Line::op), field("verdict", &Line::verdict),
             field("reason", &Line::reason), field("device", &Line::device), field("dtypes", &Line::dtypes));
};
struct PartLine {
  std::string device = {};
  int64_t nodes = 0;
  std::string first = {};
  RLX_FIELDS(PartLine, field("device", &PartLine::device), field("nodes", &PartLine::nodes),
             field("first", &PartLine::first));
};
struct CopyLine {
  std::string value = {}, type = {}, from = {}, to = {};
  int64_t bytes = 0;
  RLX_FIELDS(CopyLine, field("value", &CopyLine::value), field("type", &CopyLine::type), field("from", &CopyLine::from),
             field("to", &CopyLine::to), field("bytes", &CopyLine::bytes));
};
struct PlacedNodes {
  std::string nodes = {}, device = {};
  RLX_FIELDS(PlacedNodes, field("nodes", &PlacedNodes::nodes), field("device", &PlacedNodes::device));
};
struct BoundText {
  std::string symbol = {};
  int64_t most = 0;
  RLX_FIELDS(BoundText, field("symbol", &BoundText::symbol), field("most", &BoundText::most));
};
struct Options {
  KernelDispatch kernel_dispatch = KernelDispatch::native;
  std::vector<std::string> force_common = {}, force_native = {};
  Rounding rounding = Rounding::strict;
  Accuracy accuracy = Accuracy::as_f32;
  bool batch_invariant = false;
  CompileMode mode = CompileMode::eager;
  bool strict = false;
  std::vector<std::string> donate = {}, skip_passes = {}, fallback = {};
  std::vector<PlacedNodes> placement = {};
  Compute compute = Compute::as_f32;
  bool narrow = false;
  std::vector<BoundText> bounds = {};
  std::string isa = {};
  RLX_FIELDS(Options, field("kernel_dispatch", &Options::kernel_dispatch),
             field("force_common", &Options::force_common), field("force_native", &Options::force_native),
             field("rounding", &Options::rounding), field("accuracy", &Options::accuracy),
             field("batch_invariant", &Options::batch_invariant), field("mode", &Options::mode),
             field("strict", &Options::strict), field("donate", &Options::donate),
             field("skip_passes", &Options::skip_passes), field("fallback", &Options::fallback),
             field("placement", &Options::placement), field("compute", &Options::compute),
             field("narrow", &Options::narrow), field("bounds", &Options::bounds), field("isa", &Options::isa));
};
struct Manifest {
  std::string version = {}, device = {};
  std::vector<Fact> facts = {};
  std::vector<std::string> ops = {}, registered_kernels = {};
  std::string graph = {};
  Options options = {};
  std::vector<Argument> inputs = {}, params = {}, outputs = {};
  std::string report_target = {};
  std::vector<Line> report = {};
  std::vector<PartLine> report_parts = {};
  std::vector<CopyLine> report_copies = {};
  std::vector<std::string> report_notes = {};
  std::vector<Piece> pieces = {};
  int64_t source = 0;  // the piece of the text
  std::vector<Place> source_constants = {};
  std::string form = {};
  int64_t program = 0;
  std::vector<Place> program_tensors = {}, values = {};
  RLX_FIELDS(Manifest, field("version", &Manifest::version), field("device", &Manifest::device),
             field("facts", &Manifest::facts), field("ops", &Manifest::ops),
             field("registered_kernels", &Manifest::registered_kernels), field("graph", &Manifest::graph),
             field("options", &Manifest::options), field("inputs", &Manifest::inputs),
             field("params", &Manifest::params), field("outputs", &Manifest::outputs),
             field("report_target", &Manifest::report_target), field("report", &Manifest::report),
             field("report_parts", &Manifest::report_parts), field("report_copies", &Manifest::report_copies),
             field("report_notes", &Manifest::report_notes), field("pieces", &Manifest::pieces),
             field("source", &Manifest::source), field("source_constants", &Manifest::source_constants),
             field("form", &Manifest::form), field("program", &Manifest::program),
             field("program_tensors", &Manifest::program_tensors), field("values", &Manifest::values));
};

std::vector<std::string> list(const std::set<std::string>& names) { return {names.begin(), names.end()}; }
std::set<std::string> set(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

void add_ops(const Graph& g, std::set<std::string>& names) {
  for (const Node& node : g.nodes()) {
    names.emplace(node.op->name);
    if (!node.attrs.empty() && holds_subgraph(node.attrs))
      with_subgraphs(node.attrs, [&](const Graph& body) { return add_ops(body, names), body; });
  }
}

// ---- writing ----

Tensor bytes_of(std::span<const std::byte> bytes) {
  Tensor padded(u8, {static_cast<int64_t>(rounded_up(bytes.size(), kAlignment))});
  if (!bytes.empty()) std::memcpy(padded.mutable_data(), bytes.data(), bytes.size());
  return padded;
}

/// The pieces of a file, each content once.
class Pieces {
 public:
  explicit Pieces(std::vector<Piece>& list) : list_(list) {}
  int64_t add(const Tensor& t) {
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i] == t) return static_cast<int64_t>(i);
    Tensor bytes = t.byte_count() % kAlignment == 0 && t.byte_count() > 0
                       ? Tensor::borrow(u8, {static_cast<int64_t>(t.byte_count())}, t.bytes(), t.owner())
                       : bytes_of(t.bytes());
    list_.push_back({t.type(), hex_text(checksum(bytes.bytes()))});
    files_.emplace(std::to_string(tensors_.size()), std::move(bytes));
    tensors_.push_back(t);
    return static_cast<int64_t>(tensors_.size() - 1);
  }
  int64_t add(const std::string& text) {
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    return add(Tensor::of<uint8_t>({static_cast<int64_t>(text.size())}, bytes));
  }
  std::vector<Place> add(const NamedTensors& named) {
    std::vector<Place> places;
    for (const auto& [name, tensor] : named) places.push_back({name, add(tensor)});
    return places;
  }
  /// As they stand in the file, by their numbers.
  NamedTensors take() { return std::move(files_); }

 private:
  std::vector<Piece>& list_;
  std::vector<Tensor> tensors_;
  NamedTensors files_;
};

std::vector<Argument> arguments(const std::vector<Signature::Entry>& entries,
                                const std::vector<ArgumentMode>& modes = {}) {
  std::vector<Argument> all;
  for (size_t i = 0; i < entries.size(); ++i)
    all.push_back({entries[i].name, entries[i].type, i < modes.size() ? modes[i] : ArgumentMode::read});
  return all;
}

// ---- reading ----

template <class... Parts>
[[noreturn]] void damaged(const Parts&... parts) {
  fail(ErrorCode::parse, "the file is damaged: ", parts...,
       "; copy it again, or write it again with `rlx compile` or CompiledGraph::save");
}

std::vector<Signature::Entry> entries_of(const std::vector<Argument>& arguments) {
  std::vector<Signature::Entry> all;
  for (const Argument& a : arguments) all.push_back({a.name, a.type});
  return all;
}

/// The file, and its manifest as it was written.
struct Opened {
  SafetensorsFile file;
  Manifest manifest;
  std::map<int64_t, Tensor> checked = {};

  /// A piece's elements. They are checked once, however many names a file gives to one piece.
  const Tensor& piece(int64_t number) {
    if (number < 0 || static_cast<uint64_t>(number) >= manifest.pieces.size())
      damaged("it names piece ", number, " and has ", manifest.pieces.size());
    const auto [found, is_new] = checked.try_emplace(number);
    if (is_new) found->second = checked_piece(number);
    return found->second;
  }
  Tensor checked_piece(int64_t number) const {
    const Piece& wanted = manifest.pieces[static_cast<size_t>(number)];
    const std::string name = std::to_string(number);
    const auto* entry = file.find(name);
    if (!entry) damaged("piece ", number, " is not there");
    if (!is_static(wanted.type.dims)) damaged("piece ", number, " is ", wanted.type, ", which is no number of bytes");
    const Shape shape = shape_of(wanted.type.dims);
    const size_t bytes = byte_count(wanted.type.dtype, shape);
    if (entry->dtype != u8 || entry->byte_count != rounded_up(bytes, kAlignment))
      damaged("piece ", number, " is ", wanted.type, ", and ", entry->byte_count, " bytes of it are there");
    const Tensor all = file.tensor(name);
    if (hex_text(checksum(all.bytes())) != wanted.sum)
      damaged("piece ", number, ", ", wanted.type, ", does not have the checksum that it was written with");
    const auto elements = all.bytes().first(bytes);
    if (wanted.type.dtype == boolean &&
        std::any_of(elements.begin(), elements.end(), [](std::byte b) { return b > std::byte{1}; }))
      damaged("piece ", number, " is ", wanted.type, " and has a byte that is neither 0 nor 1");
    if (reinterpret_cast<uintptr_t>(all.data()) % kAlignment == 0)
      return Tensor::borrow(wanted.type.dtype, shape, elements, all.owner());
    Tensor copy = Tensor::uninitialized(wanted.type.dtype, shape);
    if (!elements.empty()) std::memcpy(copy.mutable_data(), elements.data(), elements.size());
    return copy;
  }
  std::string text(int64_t number) {
    const Tensor& t = piece(number);
    return {reinterpret_cast<const char*>(t.data()), t.byte_count()};
  }
  NamedTensors named(const std::vector<Place>& places) {
    NamedTensors all;
    for (const Place& place : places)
      if (!all.emplace(place.name, piece(place.piece)).second) damaged("it has ", quoted_name(place.name), " twice");
    return all;
  }
  ArtifactInfo info() const {
    const Manifest& m = manifest;
    ArtifactInfo info;
    info.graph = m.graph, info.device = m.device, info.version = m.version, info.form = m.form;
    for (const Fact& fact : m.facts) info.facts.push_back({fact.name, fact.value});
    info.ops = m.ops, info.registered_kernels = m.registered_kernels;
    info.signature = {entries_of(m.inputs), entries_of(m.params), entries_of(m.outputs), {}};
    for (const Argument& input : m.inputs) info.signature.modes.push_back(input.mode);
    CompileOptions& to = info.options;
    const Options& from = m.options;
    to.kernel_dispatch = from.kernel_dispatch, to.rounding = from.rounding, to.accuracy = from.accuracy;
    to.force_common = set(from.force_common), to.force_native = set(from.force_native);
    to.batch_invariant = from.batch_invariant, to.mode = from.mode, to.strict = from.strict;
    to.donate = set(from.donate), to.skip_passes = set(from.skip_passes);
    to.fallback = from.fallback, to.compute = from.compute, to.narrow = from.narrow, to.isa = from.isa;
    for (const PlacedNodes& p : from.placement) to.placement.push_back({p.nodes, p.device});
    for (const BoundText& b : from.bounds) to.bounds.emplace(b.symbol, b.most);
    info.report.target = m.report_target;
    for (const Line& line : m.report)
      info.report.lines.push_back({line.node, line.op, line.verdict, line.reason, line.device, line.dtypes});
    for (const PartLine& p : m.report_parts)
      info.report.parts.push_back({p.device, static_cast<size_t>(std::max<int64_t>(0, p.nodes)), p.first});
    for (const CopyLine& c : m.report_copies)
      info.report.copies.push_back(
          {c.value, c.type, c.from, c.to, static_cast<uint64_t>(std::max<int64_t>(0, c.bytes))});
    info.report.notes = m.report_notes;
    for (const Place& place : m.values) info.params.push_back(place.name);
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(file.path(), error);
    info.bytes = error ? 0 : bytes;  // the file may be gone by now
    return info;
  }
};

/// What the metadata says of the format; empty for a file of something else.
std::string format_of(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kKey);
  return found != file.metadata().end() && found->second.starts_with(kFormat) ? found->second.substr(kFormat.size())
                                                                              : std::string();
}

Opened open(const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const std::string format = format_of(file);
  if (format.empty())
    fail(ErrorCode::parse, "it holds tensors, and no compiled graph; `rlx compile MODEL -o FILE` writes one");
  if (format != kFormatVersion)
    fail(ErrorCode::unsupported, "this is version ", quoted_name(format),
         " of the format of compiled graphs, and this build reads version ", kFormatVersion,
         "; compile it again with this build: rlx compile MODEL -o FILE");
  const auto* about = file.find(kAbout);
  if (!about || about->dtype != u8) damaged("there is no '", kAbout, "' in it");
  const Tensor text = file.tensor(kAbout);
  const auto sum = file.metadata().find(kSumKey);
  if (sum == file.metadata().end() || sum->second != hex_text(checksum(text.bytes())))
    damaged("'", kAbout, "' does not have the checksum that it was written with");
  Opened opened{std::move(file), {}};
  Scanner in({reinterpret_cast<const char*>(text.data()), text.byte_count()});
  with_context([] { return std::string("reading what it says of itself"); },
               [&] {
                 parse(in, opened.manifest);
                 if (!in.at_end()) in.unexpected("the end of the text");
               });
  return opened;
}

auto while_reading(const std::string& path) {
  return [&path] { return text_of("reading the compiled graph '", path, "'"); };
}

std::string shown(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

bool same(const std::vector<Signature::Entry>& a, const std::vector<Signature::Entry>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && x.type == y.type; });
}
void require_signature(const Graph& g, const Signature& wanted, const char* what) {
  const Signature found = signature_of(g);
  if (!same(found.inputs, wanted.inputs) || !same(found.params, wanted.params) || !same(found.outputs, wanted.outputs))
    damaged("the inputs, params and outputs of ", what, " are not those that it states");
}

std::string compile_again(const std::string& device) {
  return text_of("compile it again here, from the graph that the file carries: rlx compile FILE --device ", device,
                 " -o FILE");
}

}  // namespace

Artifact artifact_of(const Graph& source, const Program& program, const Backend& backend, const Signature& signature,
                     const CompileOptions& options, const DispatchReport& report) {
  Artifact a;
  a.info.graph = source.name(), a.info.device = backend.name(), a.info.version = RLX_VERSION;
  a.info.facts = backend.facts();
  a.info.registered_kernels = program.registered_kernels(backend);
  std::set<std::string> ops;
  add_ops(source, ops), add_ops(program.graph(), ops);
  a.info.ops = list(ops);
  a.info.signature = signature, a.info.options = options, a.info.report = report;
  a.source = graph_file_of(source);
  a.program = program.payload();
  a.info.form = a.program.form;
  return a;
}

Graph Artifact::source_graph() const {
  Graph g = with_context([] { return std::string("reading the graph that was compiled"); },
                         [&] {
                           return parse_graph_file(source.text, [&](std::string_view name) {
                             const auto found = source.constants.find(name);
                             if (found == source.constants.end())
                               damaged("the constant ", quoted_name(name), " is not there");
                             return found->second;
                           });
                         });
  require_signature(g, info.signature, "the graph that was compiled");
  return g;
}

void write_artifact(const std::string& path, const Artifact& artifact) {
  with_context([&] { return text_of("writing the compiled graph '", path, "'"); },
               [&] {
                 const ArtifactInfo& info = artifact.info;
                 const CompileOptions& from = info.options;
                 Manifest m;
                 m.version = info.version, m.device = info.device, m.graph = info.graph;
                 for (const TargetFact& fact : info.facts) m.facts.push_back({fact.name, fact.value});
                 m.ops = info.ops, m.registered_kernels = info.registered_kernels;
                 m.options = {from.kernel_dispatch,
                              list(from.force_common),
                              list(from.force_native),
                              from.rounding,
                              from.accuracy,
                              from.batch_invariant,
                              from.mode,
                              from.strict,
                              list(from.donate),
                              list(from.skip_passes),
                              from.fallback,
                              {},
                              from.compute,
                              from.narrow,
                              {},
                              from.isa};
                 for (const Placement& p : from.placement) m.options.placement.push_back({p.nodes, p.device});
                 for (const auto& [symbol, most] : from.bounds) m.options.bounds.push_back({symbol, most});
                 m.inputs = arguments(info.signature.inputs, info.signature.modes);
                 m.params = arguments(info.signature.params), m.outputs = arguments(info.signature.outputs);
                 m.report_target = info.report.target, m.report_notes = info.report.notes;
                 for (const DispatchLine& line : info.report.lines)
                   m.report.push_back({line.node, line.op, line.verdict, line.reason, line.device, line.dtypes});
                 for (const SplitPartLine& p : info.report.parts)
                   m.report_parts.push_back({p.device, static_cast<int64_t>(p.nodes), p.first});
                 for (const SplitCopyLine& c : info.report.copies)
                   m.report_copies.push_back({c.value, c.type, c.from, c.to, static_cast<int64_t>(c.bytes)});
                 Pieces pieces(m.pieces);
                 m.source = pieces.add(artifact.source.text);
                 m.source_constants = pieces.add(artifact.source.constants);
                 m.form = artifact.program.form;
                 m.program = pieces.add(artifact.program.text);
                 m.program_tensors = pieces.add(artifact.program.tensors);
                 m.values = pieces.add(artifact.params);
                 NamedTensors tensors = pieces.take();
                 std::ostringstream out;
                 print(out, m);
                 std::string about = out.str();
                 about.resize(rounded_up(about.size(), kAlignment), ' ');
                 const Tensor text = bytes_of(std::as_bytes(std::span(about)));
                 tensors.emplace(kAbout, text);
                 write_safetensors(
                     path, tensors,
                     {{kKey, text_of(kFormat, kFormatVersion)}, {kSumKey, hex_text(checksum(text.bytes()))}});
               });
}

Artifact read_artifact(const std::string& path) {
  return with_context(while_reading(path), [&] {
    Opened opened = open(path);
    const Manifest& m = opened.manifest;
    Artifact artifact{opened.info(),
                      {opened.text(m.source), opened.named(m.source_constants)},
                      {m.form, opened.text(m.program), opened.named(m.program_tensors)},
                      opened.named(m.values)};
    return artifact;
  });
}

void require_same_target(const ArtifactInfo& info, const Backend& backend) {
  const std::string name = backend.name();
  const auto differs = [&](std::string_view what, const std::string& expected, const std::string& found,
                           const std::string& advice) {
    fail(ErrorCode::unsupported, what, ": '", info.graph, "' was compiled for ", printable_line(expected),
         ", and here it is ", printable_line(found), "; ", advice);
  };
  if (info.version != RLX_VERSION) differs("version of RLX", info.version, RLX_VERSION, compile_again(name));
  if (info.device != name)
    differs("device", info.device, name,
            text_of("open a session on ", printable_line(info.device), ", or ", compile_again(name)));
  std::set<std::string> named;
  const std::vector<TargetFact> here = backend.facts();
  for (const std::vector<TargetFact>* facts : {&here, &info.facts})
    for (const TargetFact& fact : *facts) named.insert(fact.name);
  for (const std::string& fact : named) {
    const auto value = [&](const std::vector<TargetFact>& facts) {
      const auto found =
          std::find_if(facts.begin(), facts.end(), [&](const TargetFact& each) { return each.name == fact; });
      return found == facts.end() ? std::string("not known") : found->value;
    };
    if (value(info.facts) != value(here))
      differs(printable_line(fact), value(info.facts), value(here), compile_again(name));
  }
  for (const std::string& op : info.ops) try {
      find_op(op);
    } catch (const Error&) {
      fail(ErrorCode::unsupported, "ops: '", info.graph, "' has the op ", quoted_name(op),
           ", which is not known here; register it before loading (rlx --load LIBRARY, register_op), or ",
           compile_again(name));
    }
  const std::vector<std::string> kernels = backend.registered_kernels(nullptr);
  for (const std::string& kernel : info.registered_kernels)
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
      fail(ErrorCode::unsupported, "registered kernels: '", info.graph, "' was compiled for ", printable_line(kernel),
           ", and registered here are ", shown(kernels),
           "; register the kernel before loading (rlx --load LIBRARY, register_cpu_kernel), or ", compile_again(name));
}

std::shared_ptr<const Backend> backend_for(const DispatchReport& report, const std::shared_ptr<const Backend>& main,
                                           const std::string& isa) {
  std::vector<Device> others;
  for (const SplitPartLine& part : report.parts)
    if (const Device device = Device::parse(part.device);
        part.device != main->name() && std::find(others.begin(), others.end(), device) == others.end())
      others.push_back(device);
  return report.is_split() ? split_backend(main, others, isa) : main;
}

std::unique_ptr<Program> program_of(const Artifact& artifact, const Backend& backend) {
  require_same_target(artifact.info, backend);
  auto program =
      with_context([] { return std::string("reading its program"); }, [&] { return backend.read(artifact.program); });
  require_signature(program->graph(), artifact.info.signature, "its program");
  const std::vector<std::string> kernels = program->registered_kernels(backend);
  if (kernels != artifact.info.registered_kernels)
    fail(ErrorCode::unsupported, "registered kernels: '", artifact.info.graph, "' was compiled for ",
         printable_line(shown(artifact.info.registered_kernels)), ", and here it would be run by ", shown(kernels),
         "; register the same kernels, or ", compile_again(backend.name()));
  return program;
}

ArtifactInfo artifact_info(const std::string& path) {
  return with_context(while_reading(path), [&] { return open(path).info(); });
}

bool is_artifact(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (path.ends_with(kArtifactSuffix)) return true;
  try {
    return !format_of(SafetensorsFile::open(path)).empty();
  } catch (const Error&) {
    return false;
  }
}

Graph artifact_graph(const std::string& path) {
  return with_context(while_reading(path), [&] {
    Opened opened = open(path);
    const Manifest& m = opened.manifest;
    const Artifact artifact{opened.info(), {opened.text(m.source), opened.named(m.source_constants)}, {}, {}};
    return artifact.source_graph();
  });
}

NamedTensors artifact_params(const std::string& path) {
  return with_context(while_reading(path), [&] {
    Opened opened = open(path);
    return opened.named(opened.manifest.values);
  });
}

std::string ArtifactInfo::json() const {
  const auto names = [](const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& name : all) text += (text.empty() ? "" : ", ") + json_quoted(name);
    return "[" + text + "]";
  };
  const auto entries = [](const std::vector<Signature::Entry>& all, const std::vector<ArgumentMode>& modes) {
    std::string text;
    for (size_t i = 0; i < all.size(); ++i) {
      text += (text.empty() ? "" : ",\n  ") + ("{\"name\": " + json_quoted(all[i].name)) +
              ", \"type\": " + json_quoted(text_of(all[i].type));
      if (!modes.empty())
        text += text_of(", \"mode\": \"", names_of(ArgumentMode{})[static_cast<size_t>(modes[i])], "\"");
      text += "}";
    }
    return "[" + text + "]";
  };
  std::string known;
  for (const TargetFact& fact : facts)
    known += (known.empty() ? "" : ", ") + json_quoted(fact.name) + ": " + json_quoted(fact.value);
  const CompileOptions& o = options;
  const auto word = [](auto value) { return json_quoted(names_of(value)[static_cast<size_t>(value)]); };
  const auto truth = [](bool value) { return value ? "true" : "false"; };
  std::string placed;
  for (const Placement& p : o.placement)
    placed += (placed.empty() ? "" : ", ") + ("{\"nodes\": " + json_quoted(p.nodes)) +
              ", \"device\": " + json_quoted(p.device) + "}";
  std::string bounds;
  for (const auto& [symbol, most] : o.bounds)
    bounds += text_of(bounds.empty() ? "" : ", ", json_quoted(symbol), ": ", most);
  return text_of("{\"kind\": \"compiled graph\", \"graph\": ", json_quoted(graph),
                 ", \"device\": ", json_quoted(device), ", \"version\": ", json_quoted(version), ", \"bytes\": ", bytes,
                 ",\n \"facts\": {", known, "}, \"registered_kernels\": ", names(registered_kernels),
                 ", \"form\": ", json_quoted(form), ",\n \"options\": {\"kernel_dispatch\": ", word(o.kernel_dispatch),
                 ", \"rounding\": ", word(o.rounding), ", \"accuracy\": ", word(o.accuracy),
                 ", \"compute\": ", word(o.compute), ", \"batch_invariant\": ", truth(o.batch_invariant),
                 ", \"mode\": ", word(o.mode), ", \"strict\": ", truth(o.strict), ", \"narrow\": ", truth(o.narrow),
                 ", \"force_common\": ", names(list(o.force_common)),
                 ", \"force_native\": ", names(list(o.force_native)), ", \"donate\": ", names(list(o.donate)),
                 ", \"skip_passes\": ", names(list(o.skip_passes)), ", \"fallback\": ", names(o.fallback),
                 ", \"placement\": [", placed, "], \"bounds\": {", bounds, "}, \"isa\": ", json_quoted(o.isa),
                 "},\n \"ops\": ", names(ops), ",\n \"inputs\": ", entries(signature.inputs, signature.modes),
                 ",\n \"params\": ", entries(signature.params, {}), ",\n \"outputs\": ", entries(signature.outputs, {}),
                 ",\n \"values\": ", names(params), ",\n \"report\": ", report.json(), "}");
}

}  // namespace rlx
