// See the header. Constants of more than a few elements are left out of a dump: it is there to be read.
#include "compile/dump.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "io/atomic_file.h"
#include "ir/text.h"

namespace rlx {

StageDump::StageDump(const Graph& g, const PipelineTrace& trace) : part_(trace.part) {
  const char* folder = trace.is_silent ? nullptr : std::getenv("RLX_DUMP");
  if (!folder || !*folder) return;
  folder_ = folder;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  stage("given", g);
}

void StageDump::stage(std::string_view name, const Graph& g) {
  if (folder_.empty()) return;
  std::string number = std::to_string(count_++);
  std::filesystem::path path = std::filesystem::path(folder_) /
                               (part_ + (number.size() < 2 ? "0" : "") + number + "_" + std::string(name) + ".rlx");
  std::ostringstream out;
  {
    ConstantsElsewhere left_out(out, 256, [](const Tensor&) { return "left out of this dump"; });
    print(out, g);
  }
  out << "\n";
  with_context("writing a stage for RLX_DUMP", [&] {
    AtomicFile file(path.string());
    file.write(out.str());
    file.commit(AtomicFile::Flush::no);  // there are dozens, made again by the next compile
  });
}

}  // namespace rlx
