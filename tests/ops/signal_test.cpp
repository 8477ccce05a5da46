// What the builders of signals make, against SciPy and PyTorch (tests/golden/generate/signals.py), and the hard cases
// of the ops.
#include "autodiff/transforms.h"
#include "ops/hard_cases.h"
#include "rlx/io.h"
#include "rlx/session.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const NpzFile& golden() {
  static const NpzFile file = NpzFile::open("tests/golden/signals/signals.npz");
  return file;
}
/// The names between `prefix` and `suffix`.
std::vector<std::string> cases_of(std::string_view prefix, std::string_view suffix) {
  std::vector<std::string> names;
  for (const std::string& name : golden().names())
    if (name.starts_with(prefix) && name.ends_with(suffix))
      names.push_back(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  REQUIRE(!names.empty());
  return names;
}
Tensor array(const std::string& name) { return golden().array(name); }
Tensor narrow(const Tensor& x) {
  return run_op(op::convert, ConvertAttrs{x.dtype() == f64 ? f32 : c64}, std::array{x})[0];
}
/// How the graph's result differs in f64, and on the CPU in f32 as well.
std::string off(const Build& build, const std::vector<Tensor>& inputs, const Tensor& wanted, double slack = 1) {
  static Session cpu(Device::cpu(), {2});
  for (bool single : {false, true}) {
    std::vector<Tensor> in;
    std::vector<Type> types;
    for (const Tensor& t : inputs) in.push_back(single ? narrow(t) : t), types.push_back(in.back().type());
    Graph g = trace(types, build);
    Tensor want = single ? narrow(wanted) : wanted;
    double largest = 1;
    for (size_t i = 0; i < wanted.element_count(); ++i)
      largest = std::max(
          largest, is_complex(wanted.dtype()) ? std::abs(load<Complex>(wanted, i)) : std::abs(load<double>(wanted, i)));
    // Sums of some hundred terms are as exact as the largest of them.
    double tolerance = slack * largest * (single ? 4e-6 : 1e-11);
    if (auto why = difference(interpret(g, in)[0], want, tolerance); !why.empty()) return "reference: " + why;
    if (auto why = difference(cpu.compile(g).run_ordered(in)[0], want, tolerance); !why.empty()) return "CPU: " + why;
  }
  return "";
}
Window named(const std::string& name) {
  auto names = names_of(Window{});
  return static_cast<Window>(std::find(names.begin(), names.end(), name) - names.begin());
}
Tensor constant_made(const std::function<Value(Graph&)>& build) {
  Graph g;
  g.output(build(g));
  return interpret(g, {})[0];
}

}  // namespace

TEST_CASE("windows are those of scipy.signal.get_window") {
  for (const std::string& name : cases_of("window/", "")) {
    size_t first = name.find('_'), second = name.rfind('_');
    int64_t n = std::stoll(name.substr(first + 1, second - first - 1));
    bool periodic = name.ends_with("periodic");
    Tensor got = constant_made([&](Graph& g) { return window(g, named(name.substr(0, first)), n, periodic, f64); });
    CHECK_MESSAGE(difference(got, array("window/" + name), 1e-14) == "", name);
  }
  for (const std::string& name : cases_of("kaiser/", "")) {
    size_t first = name.find('_'), second = name.rfind('_');
    int64_t n = std::stoll(name.substr(0, first));
    double beta = std::stod(name.substr(first + 1, second - first - 1));
    Tensor got = constant_made([&](Graph& g) { return kaiser_window(g, n, beta, name.ends_with("periodic"), f64); });
    CHECK_MESSAGE(difference(got, array("kaiser/" + name), 1e-14) == "", name);
  }
}

TEST_CASE("short-time transforms and their inverses are PyTorch's") {
  struct Case {
    const char* name;
    StftOptions options;
    int64_t length;
  };
  for (const Case& c :
       {Case{"plain", {32, 8, Window::hann}, 195}, Case{"odd", {25, 10, Window::hamming}, 96},
        Case{"not_centered", {20, 7, Window::blackman, false}, 0}, Case{"wide", {16, 16, Window::bartlett}, 0}}) {
    std::string at = std::string("stft/") + c.name;
    CHECK_MESSAGE(off([&](Values v) { return stft(v[0], c.options); }, {array(at + "/x")}, array(at + "/y")) == "", at);
    if (c.length == 0) continue;
    std::string back = std::string("istft/") + c.name;
    auto build = [&](Values v) { return istft(v[0], c.length, c.options); };
    CHECK_MESSAGE(off(build, {array(back + "/x")}, array(back + "/y")) == "", back);
  }
}

TEST_CASE("a signal comes back from its short-time transform") {
  StftOptions o{64, 16};
  auto there_and_back = [&](Values v) { return istft(stft(v[0], o), v[0].dim(-1).value(), o); };
  Tensor x = random_tensor(f64, {2, 331}, 7);
  Graph g = trace(std::array{x.type()}, there_and_back);
  // The last frame ends before the last place: 331 = 20 * 16 + 11.
  CHECK(difference(interpret(g, std::array{x})[0], x, 1e-11) == "");
}

TEST_CASE("power spectral densities are scipy.signal.welch's") {
  struct Case {
    const char* name;
    PsdOptions options;
  };
  for (const Case& c :
       {Case{"plain", {64, {}, Window::hann, 1, true}}, Case{"odd", {51, 20, Window::hamming, 44100, false}},
        Case{"no_overlap", {32, 0, Window::rectangular, 10, true}}}) {
    std::string at = std::string("psd/") + c.name;
    CHECK_MESSAGE(off([&](Values v) { return psd(v[0], c.options); }, {array(at + "/x")}, array(at + "/y")) == "", at);
  }
}

TEST_CASE("filters are scipy.signal.lfilter's") {
  for (const std::string& name : cases_of("filter/", "/x")) {
    std::string at = "filter/" + name;
    std::vector<Tensor> in = {array(at + "/x"), array(at + "/b"), array(at + "/a")};
    CHECK_MESSAGE(off([](Values v) { return iir(v[0], v[1], v[2]); }, in, array(at + "/y")) == "", at);
    if (!name.starts_with("fir")) continue;
    in.pop_back();
    CHECK_MESSAGE(off([](Values v) { return fir(v[0], v[1]); }, in, array(at + "/y")) == "", at);
  }
}
TEST_CASE("a recursive filter has derivatives") {
  Tensor x = random_tensor(f64, {2, 9}, 1), b = random_tensor(f64, {3}, 2), a = tensor(f64, {3}, {2, 0.3, -0.4});
  Graph g = trace(std::array{x.type(), b.type(), a.type()}, [](Values v) {
    return reduce_sum(square(iir(v[0], v[1], v[2])), {0, 1});
  });
  std::vector<Tensor> in = {x, b, a, tensor(f64, {}, {1})};
  auto gradients = interpret(vjp(g, {true, true, true}, {true}), in);
  for (size_t i = 0; i < 3; ++i)
    for (size_t e = 0; e < in[i].element_count(); ++e) {
      auto value_at = [&](double step) {
        std::vector<Tensor> moved(in.begin(), in.begin() + 3);
        moved[i] = Array<double>(in[i]).rounded_to(f64);
        store<double>(moved[i], e, load<double>(in[i], e) + step);
        return load<double>(interpret(g, moved)[0], 0);
      };
      double wanted = (value_at(1e-5) - value_at(-1e-5)) / 2e-5, got = load<double>(gradients[i], e);
      if (std::abs(got - wanted) > 1e-6 * (1 + std::abs(wanted))) FAIL_CHECK("operand ", i, ": ", got, " ", wanted);
    }
}

TEST_CASE("mel filters are those of Slaney and of HTK") {
  auto check = [](const char* name, const std::function<Value(Graph&)>& build) {
    CHECK_MESSAGE(difference(constant_made(build), array(std::string("mel/") + name), 1e-13) == "", name);
  };
  check("whisper", [](Graph& g) { return mel_filters(g, 80, 400, 16000, 0, 8000.0, false, f64); });
  check("htk", [](Graph& g) { return mel_filters(g, 40, 512, 16000, 20, 7600.0, true, f64); });
  check("odd", [](Graph& g) { return mel_filters(g, 13, 255, 22050, 50, {}, false, f64); });
}

TEST_CASE("the log-mel spectrum of a sound is PyTorch's, of each frame and of the whole clip") {
  Tensor sound = array("sound/samples");
  for (MelMaximum maximum : {MelMaximum::frame, MelMaximum::clip}) {
    Tensor wanted = array(maximum == MelMaximum::clip ? "sound/log_mel_clip" : "sound/log_mel_frame");
    Graph g = trace(std::array{sound.type()},
                    [&](Graph& to, Values v) { return log_mel(stft(v[0]), mel_filters(to, 80, 400, 16000), maximum); });
    Session cpu(Device::cpu(), {2});
    // What f32 knows to 1e-7 of a loud amplitude, it knows to 1e-3 of one that is 4 decades, in energy 8, below.
    CHECK(difference(cpu.compile(g).run_ordered(std::array{sound})[0], wanted, 1e-3) == "");
    Tensor wide = run_op(op::convert, ConvertAttrs{f64}, std::array{sound})[0];
    Graph exact = trace(std::array{wide.type()}, [&](Graph& to, Values v) {
      return log_mel(stft(v[0]), mel_filters(to, 80, 400, 16000, 0, {}, false, f64), maximum);
    });
    Tensor got = run_op(op::convert, ConvertAttrs{f32}, std::array{interpret(exact, std::array{wide})[0]})[0];
    CHECK(difference(got, wanted, 1e-6) == "");
  }
}

TEST_CASE("frames overlap, and adding them counts each place as often as it was taken") {
  Tensor x = vector_of(f32, {1, 2, 3, 4, 5, 6, 7});
  CHECK(mismatch([](Values v) { return framed(v[0], 3, 2); }, {x},
                 {tensor(f32, {3, 3}, {1, 2, 3, 3, 4, 5, 5, 6, 7})}) == "");
  CHECK(mismatch([](Values v) { return overlap_added(framed(v[0], 3, 2), 2); }, {x},
                 {vector_of(f32, {1, 2, 6, 4, 10, 6, 7})}) == "");
}

TEST_CASE("a transform in fixed point wraps, clips or halves") {
  auto transformed = [](FftQScale scale) { return [scale](Values v) { return fft_q(v[0], {.scale = scale}); }; };
  Tensor x = vector_of(i32, {2147483647, 1, 0, 0});  // n = 2: both sums are beyond or at the edge
  CHECK(mismatch(transformed(FftQScale::none), {x}, {vector_of(i32, {-2147483648.0, 2147483646, 0, 0})}) == "");
  CHECK(mismatch(transformed(FftQScale::saturating), {x}, {vector_of(i32, {2147483647, 2147483646, 0, 0})}) == "");
  CHECK(mismatch(transformed(FftQScale::per_stage), {x}, {vector_of(i32, {1073741824, 1073741823, 0, 0})}) == "");
}
