// Metrics files, curves and early stopping.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "rlx/metrics.h"
#include "support/io_files.h"

using namespace rlx;

TEST_CASE("metrics are a JSON object a line, and a resumed run takes out what it writes again") {
  test::TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  {
    MetricsLog log(path);
    for (int64_t step = 1; step <= 4; ++step)
      log.write({{"step", step}, {"loss", step == 2 ? std::nan("") : 1.0 / static_cast<double>(step)}});
    log.write({{"note", std::string("line\nend \"quoted\"")}});
  }
  std::string text = test::file_content(path);
  CHECK(text.starts_with("{\"step\":1,\"loss\":1.0}\n{\"step\":2,\"loss\":null}\n"));
  CHECK(text.ends_with("{\"note\":\"line\\nend \\\"quoted\\\"\"}\n"));
  Curve curve = read_curve(path, "loss");
  CHECK(curve.x == std::vector<double>{1, 2, 3, 4});
  CHECK(std::isnan(curve.y[1]));
  CHECK(curve.y[3] == 0.25);
  { MetricsLog(path, 2).write({{"step", int64_t{3}}, {"loss", 5.0}}); }
  CHECK(read_curve(path, "loss").x == std::vector<double>{1, 2, 3});
  CHECK(read_curve(path, "loss").y[2] == 5);
  test::put_file(path, "{\"step\":1}\n[2]\n");
  CHECK_THROWS_WITH_AS(MetricsLog(path, 2), doctest::Contains("line 2 is no JSON object"), Error);
  CHECK_THROWS_WITH_AS(MetricsLog("/nonexistent/m.jsonl"), doctest::Contains("/nonexistent/m.jsonl"), Error);
}

TEST_CASE("a last line that its writer did not end is none, whole as it may look") {
  test::TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  for (const char* torn : {"{\"step\":3,\"lo", "{\"step\":3,\"loss\":9}"}) {
    test::put_file(path, std::string("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n") + torn);
    CHECK(read_curve(path, "loss").x == std::vector<double>{1, 2});
    { MetricsLog(path, 5).write({{"step", int64_t{3}}, {"loss", 1.0}}); }
    CHECK(read_curve(path, "loss").y == std::vector<double>{3, 2, 1});
  }
}

TEST_CASE("training stops after as many measurements without gain as it has patience for") {
  EarlyStop stop(2, 0.1);
  CHECK(stop.improves(1.0));
  CHECK_FALSE(stop.improves(0.95));
  CHECK_FALSE(stop.should_stop());
  EarlyStop resumed(2, 0.1);
  resumed.restore(stop.state());
  CHECK(resumed.improves(0.8));
  CHECK(resumed.best() == 0.8);
  CHECK_FALSE(resumed.improves(std::nan("")));
  CHECK_FALSE(resumed.improves(0.79));
  CHECK(resumed.should_stop());
  CHECK_FALSE(stop.improves(2));
  CHECK(stop.should_stop());
  CHECK_THROWS_WITH_AS(stop.restore("1 x"), doctest::Contains("no state"), Error);
  CHECK_FALSE(EarlyStop(0).should_stop());
}

TEST_CASE("curves are drawn where their numbers are") {
  // 0 to 10 on 70 ... 700, 0 to 4 on 370 ... 40.
  std::vector<Curve> curves = {{"a < b", {0, 5, 6, 10}, {0, 4, std::nan(""), 1}}, {"second", {0, 10}, {2, 2}}};
  std::string svg = curves_svg(curves, {.title = "T & U"});
  CHECK(svg.find("70,370 385,40 ") != std::string::npos);
  CHECK(svg.find("points=\"700,287.5 \"") != std::string::npos);  // behind the gap
  CHECK(svg.find("70,205 700,205 ") != std::string::npos);
  CHECK(svg.find("a &lt; b") != std::string::npos);
  CHECK(svg.find("T &amp; U") != std::string::npos);
  std::vector<Curve> falling = {{"loss", {0, 1, 2}, {1000, 10, 0.1}}};
  std::string log = curves_svg(falling, {.log_y = true});
  CHECK(log.find("70,40 385,205 700,370 ") != std::string::npos);
  CHECK(curves_svg({}).ends_with("</svg>\n"));
  std::vector<Curve> flat = {{"flat", {3}, {7}}};
  CHECK(curves_svg(flat).find("385,205") != std::string::npos);
}
