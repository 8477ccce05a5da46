// The loader; see rlx/data.h. A batch follows from the options and its position alone, so the thread that makes batches
// ahead shares nothing with its user but a queue.
#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/user_code.h"
#include "io/names_in_messages.h"
#include "rlx/data.h"

namespace rlx {
namespace {

// What streams are for: the order of an epoch, and the transforms of an example.
constexpr uint32_t kOrder = 1, kTransforms = 2;

}  // namespace

struct Loader::State {
  std::shared_ptr<const Dataset> data;
  LoaderOptions options;
  int64_t batches = 0;
  Position position;  // of the batch that `next` gives

  // The order of the epoch that the maker is in. Only the maker's thread touches it.
  int64_t order_epoch = -1;
  std::vector<int64_t> order;

  struct Made {
    Batch batch;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Made> ahead;
  bool stop = false;
  std::thread thread;

  ~State() { end_thread(); }

  Position after(Position p) const {
    if (++p.batch == batches) ++p.epoch, p.batch = 0;
    return p;
  }
  Batch make(Position p) {
    if (order_epoch != p.epoch) {
      RandomStream random(options.seed, kOrder, static_cast<uint32_t>(p.epoch));
      if (options.shuffle) order = shuffled(data->size(), random);
      else if (order.empty())
        for (int64_t i = 0; i < data->size(); ++i) order.push_back(i);
      order_epoch = p.epoch;
    }
    auto begin = static_cast<size_t>(p.batch * options.batch_size);
    size_t count = std::min(static_cast<size_t>(options.batch_size), order.size() - begin);
    auto examples = std::span(order).subspan(begin, count);
    Batch batch{user_code("the data set", [&] { return data->gather(examples); }), p, p.batch + 1 == batches};
    if (!options.transforms.empty()) {
      std::vector<RandomStream> random;
      for (int64_t example : examples)
        random.emplace_back(options.seed, kTransforms, static_cast<uint32_t>(p.epoch), static_cast<uint32_t>(example));
      for (size_t t = 0; t < options.transforms.size(); ++t)
        user_code([&] { return text_of("transform ", t, " of the loader"); },
                  [&] { options.transforms[t](batch.tensors, random); });
    }
    return batch;
  }
  void make_ahead(Position p) {
    for (;; p = after(p)) {
      Made made;
      try {
        made.batch = make(p);
      } catch (...) {
        made.error = std::current_exception();
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stop || ahead.size() < static_cast<size_t>(options.prefetch); });
      if (stop) return;
      bool failed = made.error != nullptr;
      ahead.push_back(std::move(made));
      changed.notify_all();
      if (failed) return;
    }
  }
  void end_thread() {
    if (!thread.joinable()) return;
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
    ahead.clear();
    stop = false;
  }
  Batch taken() {
    if (!thread.joinable()) thread = std::thread([this, p = position] { make_ahead(p); });
    Made made;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !ahead.empty(); });
      made = std::move(ahead.front());
      ahead.pop_front();
    }
    changed.notify_all();
    if (made.error) {
      end_thread();  // asked again, it is tried again
      std::rethrow_exception(made.error);
    }
    return std::move(made.batch);
  }
};

Loader::Loader(std::shared_ptr<const Dataset> data, LoaderOptions options) : state_(new State) {
  State& s = *state_;
  s.data = std::move(data), s.options = std::move(options);
  if (s.options.batch_size < 1)
    fail(ErrorCode::invalid_argument, "a batch has at least 1 example, not ", s.options.batch_size);
  if (s.options.prefetch < 0)
    fail(ErrorCode::invalid_argument, "at least 0 batches are made ahead, not ", s.options.prefetch);
  int64_t size = s.data->size(), each = s.options.batch_size;
  if (size > int64_t{UINT32_MAX})
    fail(ErrorCode::unsupported, "a loader takes at most ", UINT32_MAX, " examples, not ", size);
  s.batches = size / each + (!s.options.drop_last && size % each ? 1 : 0);
  if (s.batches == 0)
    fail(ErrorCode::invalid_argument, "of ", size, " examples no whole batch of ", each,
         " can be made; take smaller batches, or keep the last one");
}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

Loader::Batch Loader::next() {
  State& s = *state_;
  Batch batch = s.options.prefetch > 0 ? s.taken() : s.make(s.position);
  s.position = s.after(s.position);
  return batch;
}
int64_t Loader::batches_per_epoch() const { return state_->batches; }
Loader::Position Loader::position() const { return state_->position; }

void Loader::seek(Position position) {
  State& s = *state_;
  if (position.epoch < 0 || position.epoch > int64_t{UINT32_MAX} || position.batch < 0 || position.batch >= s.batches)
    fail(ErrorCode::invalid_argument, "epoch ", position.epoch, ", batch ", position.batch,
         " is no position: an epoch has ", s.batches, " batches");
  s.end_thread();
  s.position = position;
}

std::string Loader::state() const {
  const State& s = *state_;
  return text_of("epoch=", s.position.epoch, " batch=", s.position.batch, " examples=", s.data->size(),
                 " batch_size=", s.options.batch_size, " shuffle=", s.options.shuffle,
                 " drop_last=", s.options.drop_last, " seed=", s.options.seed);
}

void Loader::restore(std::string_view state) {
  // The words of both, one beside the other; all but the first two must be equal.
  std::istringstream theirs{std::string(state)}, ours(this->state());
  Position position;
  std::string their_word, our_word;
  for (int i = 0; ours >> our_word; ++i) {
    if (!(theirs >> their_word)) their_word.clear();
    size_t equals = our_word.find('=') + 1;
    std::string_view value = std::string_view(their_word).substr(std::min(equals, their_word.size()));
    if (i > 1 && their_word != our_word)
      fail(ErrorCode::invalid_argument, "the position was taken of a loader with ", quoted_name(their_word),
           "; this one has ", quoted_name(our_word));
    if (i > 1) continue;
    int64_t& to = i == 0 ? position.epoch : position.batch;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
    if (their_word.substr(0, equals) != our_word.substr(0, equals) || error != std::errc() ||
        end != value.data() + value.size())
      fail(ErrorCode::parse, "no position of a loader: '", std::string(state.substr(0, 60)), "'");
  }
  seek(position);
}

}  // namespace rlx
