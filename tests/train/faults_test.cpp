// What may go wrong around a checkpoint: the disk is full, the process is killed, the file is of another model.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rlx/kernel.h"
#include "support/io_files.h"
#include "train/problems.h"

using namespace rlx;
using test::LinearRegression;

namespace {

/// Batches that differ: x and t of step i are scaled by one of five numbers.
std::vector<NamedTensor> batch_of(const LinearRegression& problem, int64_t step) {
  auto batch = problem.batch();
  for (NamedTensor& named : batch)
    for (size_t i = 0; i < named.second.element_count(); ++i)
      store<double>(named.second, i, load_number(named.second, i) * (1 + 0.1 * static_cast<double>(step % 5)));
  return batch;
}
TrainingSession session_of(const LinearRegression& problem) {
  TrainConfig config;
  config.optimizer = Optimizer::adamw(), config.learning_rate = LearningRate::cosine(0.1, 60, {.warmup = 5});
  config.ema = 0.9;
  return {LinearRegression::loss(), problem.initial(0.1), config, Session(Device::cpu(), {1})};
}
Graph two_layers(int64_t width) {
  Graph g("two");
  Value x = g.input("x", f32, {4, 3});
  Value hidden = tanh(matmul(x, g.param("up", f32, {3, width})));
  g.output(reduce_sum(square(matmul(hidden, g.param("down", f32, {width, 1}))), {0, 1}), "loss");
  return g;
}
TrainingSession two_layer_session(int64_t width) {
  return {two_layers(width), {{"up", Tensor(f32, {3, width})}, {"down", Tensor(f32, {width, 1})}}};
}

}  // namespace

TEST_CASE("a checkpoint that finds no room leaves the one that was there") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  TrainingSession session = session_of(problem);
  for (int64_t i = 0; i < 3; ++i) session.step(batch_of(problem, i));
  session.save(path);
  const std::string before = test::file_content(path);
  session.step(batch_of(problem, 3));
  // A limit on the size of files stands for the full disk: writing beyond it fails.
  auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit was{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
  rlimit small = was;
  small.rlim_cur = 100;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string message = test::message_of([&] { session.save(path); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
  signal(SIGXFSZ, ignored);
  CHECK_MESSAGE(message.find(path) != std::string::npos, message);
  CHECK(test::file_content(path) == before);
  CHECK(folder.file_count() == 1);
  TrainingSession resumed = session_of(problem);
  resumed.load(path);
  CHECK(resumed.steps() == 3);
  session.save(path);  // and with room again it is written
  CHECK(test::file_content(path) != before);
}

TEST_CASE("a run that is killed goes on from its last checkpoint as if nothing had happened") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {  // saves after each step, until it is killed, wherever it then is
    try {
      TrainingSession session = session_of(problem);
      for (int64_t i = 0;; ++i) {
        session.step(batch_of(problem, i));
        session.save(path, {{"next", std::to_string(i + 1)}});
        if (write(pipe_ends[1], "x", 1) != 1) break;
      }
    } catch (...) {
    }
    _exit(1);
  }
  close(pipe_ends[1]);
  char byte = 0;
  int64_t seen = 0;
  while (seen < 9 && read(pipe_ends[0], &byte, 1) == 1) ++seen;
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(pipe_ends[0]);
  REQUIRE(WIFSIGNALED(status));

  TrainingSession resumed = session_of(problem);
  int64_t next = std::stoll(resumed.load(path).at("next"));
  CHECK(next >= 9);
  CHECK(resumed.steps() == next);
  TrainingSession whole = session_of(problem);
  for (int64_t i = 0; i < next + 20; ++i) {
    double loss = whole.step(batch_of(problem, i)).loss;
    if (i >= next) CHECK(resumed.step(batch_of(problem, i)).loss == loss);
  }
  CHECK(whole.param("w") == resumed.param("w"));
  CHECK(whole.averaged_params().at("w") == resumed.averaged_params().at("w"));
}

TEST_CASE("a checkpoint of another model is refused with the difference named") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  const std::string path = folder / "other.safetensors";
  two_layer_session(8).save(path);
  TrainingSession wider = two_layer_session(16);
  std::string message = test::message_of([&] { wider.load(path); });
  CHECK_MESSAGE(message.find("[3, 8]") != std::string::npos, message);
  CHECK_MESSAGE(message.find("[3, 16]") != std::string::npos, message);
  CHECK_MESSAGE(message.find("'up'") != std::string::npos, message);
  TrainingSession other = session_of(problem);
  message = test::message_of([&] { other.load(path); });
  CHECK_MESSAGE(message.find("it was trained as 'up: adam_update") != std::string::npos, message);
  CHECK_MESSAGE(message.find("this session as 'w: adam_update") != std::string::npos, message);
  CHECK(other.steps() == 0);

  std::string whole = test::file_content(path);
  test::put_file(path, whole.substr(0, whole.size() - 7));
  TrainingSession same = two_layer_session(8);
  CHECK(test::message_of([&] { same.load(path); }).find(path) != std::string::npos);
}

TEST_CASE("a session whose step broke off while it wrote is given to nobody, until it loads a checkpoint") {
  static bool fails = false;
  register_cpu_kernel({&op::cumsum, "fails when told", {}, [](const KernelSite& site) -> PreparedKernel {
                         return {[count = site.results[0].count()](const KernelRun& run) {
                           if (fails) throw std::runtime_error("it was told to");
                           std::fill_n(run.out<float>(), count, 0.0F);
                         }};
                       }});
  Graph g("sums");
  Value x = g.input("x", f32, {4}), w = g.param("w", f32, {4});
  g.output(reduce_sum(cumsum(x * w), {0}), "loss");
  test::TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  TrainingSession session(g, {{"w", full(f32, {4}, 1)}}, {}, Session(Device::cpu(), {1}));
  std::vector<NamedTensor> batch = {{"x", full(f32, {4}, 2)}};
  session.step(batch);
  session.save(path);
  const std::string before = test::file_content(path);
  Tensor trained = session.param("w");
  fails = true;
  CHECK(test::message_of([&] { session.step(batch); }).find("it was told to") != std::string::npos);
  fails = false;
  const std::string damaged = "an earlier step failed while it wrote";
  CHECK(test::message_of([&] { session.step(batch); }).starts_with(damaged));
  CHECK(test::message_of([&] { session.save(path); }).starts_with(damaged));
  CHECK(test::message_of([&] { session.param("w"); }).starts_with(damaged));
  CHECK(test::message_of([&] { session.params(); }).starts_with(damaged));
  CHECK(test::message_of([&] { session.evaluate(batch); }).starts_with(damaged));
  CHECK(test::file_content(path) == before);
  session.load(path);
  CHECK(session.param("w") == trained);
  CHECK(session.step(batch).step == 2);
  unregister_cpu_kernel(op::cumsum, "fails when told");
}

TEST_CASE("numbers that no session writes are refused in a checkpoint") {
  LinearRegression problem;
  test::TemporaryFolder folder;
  TrainConfig config;
  config.precision = PrecisionPolicy::auto_mixed(f16);
  TrainingSession session(LinearRegression::loss(), problem.initial(0.1), config);
  session.step(problem.batch());
  session.save(folder / "whole.safetensors");
  auto file = SafetensorsFile::open(folder / "whole.safetensors");
  NamedTensors tensors;
  for (const std::string& name : file.names()) tensors[name] = file.tensor(name);
  const std::string path = folder / "changed.safetensors";
  auto load_changed = [&](const std::string& key, const std::string& value) {
    auto metadata = file.metadata();
    metadata[key] = value;
    write_safetensors(path, tensors, metadata);
    session.load(path);
  };
  auto refusal = [&](const std::string& key, const std::string& value) {
    return test::message_of([&] { load_changed(key, value); });
  };
  for (const char* steps : {"9223372036854775807", "2147483647", "-1", "1e3", ""})
    CHECK(refusal("steps", steps).starts_with("its steps"));
  for (const char* scale : {"inf", "nan", "0", "-2", "x"})
    CHECK(refusal("loss_scale", scale).starts_with("its loss_scale"));
  CHECK(refusal("since_overflow", "-5").starts_with("its since_overflow"));
  load_changed("steps", "2147483646");
  CHECK(session.steps() == 2147483646);
  config.precision.loss_scale = std::numeric_limits<double>::infinity();
  CHECK(test::message_of([&] {
          TrainingSession(LinearRegression::loss(), problem.initial(0.1), config);
        }).starts_with("a loss scale is finite and above 0"));
}
