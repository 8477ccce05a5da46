// `.rlx` files; see rlx/graph_file.h.
#include <optional>

#include "io/atomic_file.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"

namespace rlx {
namespace {

constexpr std::string_view kFirstLine = "rlx 1";
constexpr size_t kLargeConstant = 256;  // bytes

std::string beside(const std::string& path) {
  return (path.ends_with(".rlx") ? path.substr(0, path.size() - 4) : path) + ".safetensors";
}

Graph parse_versioned(Scanner& in) {
  if (!in.accept_word("rlx")) in.unexpected("the version line 'rlx 1' that begins a .rlx file");
  auto version = in.number<int64_t>();
  if (version != 1)
    fail(ErrorCode::unsupported, "this is version ", version, " of the .rlx format; this build reads version 1");
  Graph g = parse_graph(in);
  if (!in.at_end()) in.unexpected("the end of the file");
  verify(g);
  return g;
}

}  // namespace

Graph load_graph(const std::string& path) {
  return with_context([&] { return text_of("loading '", path, "'"); },
                      [&] {
                        auto file = FileBytes::read(path);
                        std::optional<SafetensorsFile> constants;  // opened when the text first names one
                        const std::function<Tensor(std::string_view)> find = [&](std::string_view name) {
                          if (!constants) constants = SafetensorsFile::open(beside(path));
                          return constants->tensor(name);
                        };
                        Scanner in({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
                        in.tensors = &find;
                        return parse_versioned(in);
                      });
}

Graph parse_graph_text(std::string_view text) {
  Scanner in(text);
  return parse_versioned(in);
}

std::string graph_text(const Graph& g) { return text_of(kFirstLine, "\n", text(g)); }

void save_graph(const std::string& path, const Graph& g) {
  with_context([&] { return text_of("saving '", path, "'"); },
               [&] {
                 NamedTensors constants;
                 std::ostringstream out;
                 {
                   ConstantsElsewhere large(out, kLargeConstant, [&](const Tensor& t) {
                     for (const auto& [name, known] : constants)
                       if (known == t) return name;
                     std::string name = text_of("constant_", constants.size());
                     constants.emplace(name, t);
                     return name;
                   });
                   out << kFirstLine << "\n";
                   print(out, g);
                   out << "\n";
                 }
                 // The text is complete, but for its name, before its constants are there: who fails leaves neither.
                 AtomicFile file(path);
                 file.write(out.str());
                 if (!constants.empty()) write_safetensors(beside(path), constants);
                 file.commit();
               });
}

}  // namespace rlx
