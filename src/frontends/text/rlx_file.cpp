// `.rlx` files; see rlx/graph_file.h.
#include <optional>

#include "io/atomic_file.h"
#include "ir/text.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"

namespace rlx {
namespace {

std::string beside(const std::string& path) {
  return (path.ends_with(".rlx") ? path.substr(0, path.size() - 4) : path) + ".safetensors";
}

}  // namespace

Graph load_graph(const std::string& path) {
  return with_context([&] { return text_of("loading '", path, "'"); },
                      [&] {
                        auto file = FileBytes::read(path);
                        std::optional<SafetensorsFile> constants;  // opened when the text first names one
                        return parse_graph_file(
                            {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()},
                            [&](std::string_view name) {
                              if (!constants) constants = SafetensorsFile::open(beside(path));
                              return constants->tensor(name);
                            });
                      });
}

Graph parse_graph_text(std::string_view text) { return parse_graph_file(text, nullptr); }

std::string graph_text(const Graph& g) { return text_of("rlx 1\n", text(g)); }

void save_graph(const std::string& path, const Graph& g) {
  with_context([&] { return text_of("saving '", path, "'"); },
               [&] {
                 const GraphFile made = graph_file_of(g);
                 // The text is complete, but for its name, before its constants are there: who fails leaves neither.
                 AtomicFile file(path);
                 file.write(made.text);
                 if (!made.constants.empty()) write_safetensors(beside(path), made.constants);
                 file.commit();
               });
}

}  // namespace rlx
