// A graph of one node with the strangest numbers in its attributes and extents is reported, compiled or refused in
// little time and memory: what is done for it is bounded by its nodes, not by what they say. Every op is tried, in a
// child process whose memory has a limit and which is ended where it takes too long.
#include <doctest/doctest.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <new>
#include <thread>

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"
#include "rlx/compile.h"
#include "rlx/ops.h"
#include "rlx/scanner.h"
#include "support/laws.h"
#include "support/sanitized.h"

using namespace rlx;
using Clock = std::chrono::steady_clock;

namespace {

struct Hostile {
  const OpDef* op;
  std::vector<Type> types;
  std::string attrs;  // as text; empty for the op's own
};

std::string text_of_case(const Hostile& h) {
  std::string text = std::string(h.op->name) + "(";
  for (size_t i = 0; i < h.types.size(); ++i) text += text_of(i ? ", " : "", h.types[i]);
  return text + ") " + h.attrs;
}

/// Where integers begin and end in the text of attributes; those in names and in texts are none.
std::vector<std::pair<size_t, size_t>> integers_in(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> all;
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i])) || (i > 0 && is_word(text[i - 1]))) continue;
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end == text.size() || !is_word(text[end])) all.emplace_back(i > 0 && text[i - 1] == '-' ? i - 1 : i, end);
    i = end;
  }
  return all;
}

/// Of the first sample of each op, or of the first three (RLX_CHECK_ALL); sanitized, where it is overflow and memory
/// that are looked at and not time, without the number that most ops do take.
std::vector<Hostile> hostile_cases() {
  const bool few = test::sanitized();
  const size_t most = test::checks_all() ? 3 : 1;
  std::vector<int64_t> numbers = {0, 1'000'003, int64_t{1} << 31, 4'294'967'295, int64_t{1} << 62};
  if (few) std::erase(numbers, 1'000'003);
  std::vector<Hostile> all;
  for (const OpDef* op : all_ops()) {
    if (!op->samples) continue;
    size_t samples = 0;
    for (const Sample& sample : op->samples()) {
      if (samples++ == most) break;
      laws::Case c = laws::case_of(sample);
      for (Type& t : c.types)
        if (t.dtype == f64) t.dtype = f32;
      std::string attrs;
      if (!c.attrs.empty()) {
        std::ostringstream out;
        print(out, c.attrs);
        attrs = out.str();
      }
      const auto places = integers_in(attrs);
      const auto with = [&](size_t place, int64_t number) {
        std::string changed = attrs;
        return changed.replace(places[place].first, places[place].second - places[place].first, std::to_string(number));
      };
      constexpr size_t kMaxPixels = 12;  // of lists that are longer the rest is like these
      for (size_t p = 0; p < std::min(places.size(), kMaxPixels); ++p)
        for (const int64_t number : numbers) all.push_back({op, c.types, with(p, number)});
      for (size_t i = 0; i < c.types.size(); ++i)
        for (size_t d = 0; d < c.types[i].rank(); ++d)
          for (const int64_t number : numbers) {
            auto types = c.types;
            types[i].dims[d] = number;
            all.push_back({op, types, attrs});
            if (number != 1'000'003 || samples > 1) continue;
            for (size_t p = 0; p < std::min(places.size(), kMaxPixels); ++p)
              all.push_back({op, types, with(p, number)});
          }
      // Of operands that belong together all are as long.
      for (const int64_t number : numbers) {
        auto types = c.types;
        for (Type& t : types)
          if (t.rank() > 0) t.dims.back() = number;
        all.push_back({op, types, attrs});
        for (Type& t : types)
          if (t.rank() > 0) t.dims.front() = number;
        all.push_back({op, types, attrs});
      }
    }
  }
  return all;
}

void compile(const Hostile& h, bool coreml) {
  Attrs attrs;
  if (!h.attrs.empty()) {
    Scanner in(h.attrs);
    attrs = h.op->parse_attrs(in);
  }
  const Graph g = trace(h.types, [&](Graph& to, Values in) { return to.emit(*h.op, {in.begin(), in.end()}, attrs); });
  if (!coreml) {
    dispatch_report(g, Device::cpu());
    return;
  }
  dispatch_report(g, Device::coreml());
  coreml::Options options;
  const Pipelined legal = run_pipeline(g, coreml::target(options), {});
  if (legal.report.count(Verdict::missing) == 0) coreml::translate(legal.graph, options, {});
}

/// What parent and child both see.
struct Progress {
  std::atomic<size_t> at;
  std::atomic<size_t> done;
  char said[1 << 16];
  std::atomic<size_t> said_bytes;
  void say(const std::string& line) {
    const size_t bytes = std::min(line.size(), sizeof said - said_bytes);
    std::memcpy(said + said_bytes, line.data(), bytes);
    said_bytes += bytes;
  }
};

const double kMostSeconds = test::sanitized() ? 200 : 20;  // of the processor's time: a machine may have other work
constexpr rlim_t kMostMemory = rlim_t{3} << 30;            // beside what the process has

void run_cases(const std::vector<Hostile>& all, bool coreml, Progress& progress) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMostMemory;
  const rlimit limit{most, most};
  if (!test::sanitized()) setrlimit(RLIMIT_AS, &limit);
  for (; progress.at < all.size(); ++progress.at) {
    const Hostile& h = all[progress.at];
    const std::clock_t begin = std::clock();
    try {
      compile(h, coreml);
    } catch (const Error& e) {
      if (std::string_view(e.what()).starts_with("no memory for"))
        progress.say(text_of_case(h) + ": " + e.what() + "\n");
      if (e.code() == ErrorCode::internal) progress.say(text_of_case(h) + ": internal: " + e.what() + "\n");
    } catch (const std::bad_alloc&) {
      progress.say(text_of_case(h) + ": out of memory\n");
    } catch (const std::exception& e) {
      progress.say(text_of_case(h) + ": " + e.what() + "\n");
    }
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > kMostSeconds) progress.say(text_of_case(h) + text_of(": ", seconds, " s\n"));
  }
  progress.done = 1;
}

std::string found_by(bool coreml) {
  const std::vector<Hostile> all = hostile_cases();
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  auto& progress = *new (shared) Progress{};
  while (!progress.done) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      run_cases(all, coreml, progress);
      _exit(0);
    }
    size_t seen = progress.at;
    auto since = Clock::now();
    for (int status = 0;;) {
      if (waitpid(child, &status, WNOHANG) == child) {
        if (!progress.done) {
          progress.say(text_of_case(all[progress.at]) + text_of(": ended by signal ", WTERMSIG(status), "\n"));
          ++progress.at;
        }
        break;
      }
      if (progress.at != seen) seen = progress.at, since = Clock::now();
      if (Clock::now() - since > std::chrono::duration<double>(9 * kMostSeconds)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        progress.say(text_of_case(all[seen]) + ": no end\n");
        ++progress.at;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  std::string said(progress.said, progress.said_bytes);
  MESSAGE(all.size(), " graphs for ", coreml ? "Core ML" : "the CPU");
  munmap(shared, sizeof(Progress));
  return said;
}

}  // namespace

TEST_CASE("no number in an attribute or an extent makes compiling for the CPU long or large") {
  CHECK(found_by(false) == "");
}

TEST_CASE("no number in an attribute or an extent makes compiling for Core ML long or large") {
  CHECK(found_by(true) == "");
}

TEST_CASE("many nodes that each make a table do not fill the memory together") {
  // 200 nodes, 16 kB as text. Each table alone is far below what one node may make; together they took 2.9 GiB.
  std::vector<Type> types = {{f32, {1, 1, 5}}};
  const Graph g = trace(types, [&](Graph&, Values in) {
    std::vector<Value> all;
    for (int64_t i = 0; i < 200; ++i) all.push_back(resize_linear(in[0], {1'400'000 + i}));
    return all;
  });
  std::string why;
  try {
    dispatch_report(g, Device::cpu());
  } catch (const Error& e) {
    why = e.what();
    CHECK(e.code() == ErrorCode::out_of_memory);
  }
  CHECK(why.find("at most 1073741824 are made of it") != std::string::npos);
}
