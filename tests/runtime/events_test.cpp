// Events: they end once, wake who waits, tell the first cause, and call users' functions on a thread of their own.
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "base/event_source.h"
#include "rlx/error.h"

using namespace rlx;
using namespace std::chrono_literals;

namespace {

std::exception_ptr error_saying(const char* text) { return std::make_exception_ptr(Error(ErrorCode::io, text)); }

}  // namespace

TEST_CASE("an event that nobody made is done") {
  const Event done;
  CHECK(done.is_done());
  CHECK(done.error() == nullptr);
  done.wait();
  CHECK(done.wait_for(0s));
  CHECK(done.device().empty());
}

TEST_CASE("an event ends once: what is said later does not count") {
  const EventSource source("d", "work");
  const Event event = source.event();
  CHECK_FALSE(event.is_done());
  CHECK_FALSE(event.wait_for(1ms));
  CHECK(event.device() == "d");
  source.finish();
  source.fail(error_saying("too late"));
  CHECK(event.is_done());
  CHECK(event.error() == nullptr);
  event.wait();
}

TEST_CASE("a failed event throws its cause to everyone who waits, each with a text of its own") {
  const EventSource source("d", "work");
  const Event event = source.event();
  std::vector<std::future<std::string>> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(std::async(std::launch::async, [event, i] {
      try {
        with_context([&] { return text_of("waiting ", i); }, [&] { event.wait(); });
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string("no error");
    }));
  std::this_thread::sleep_for(2ms);
  source.fail(error_saying("the cause"));
  for (int i = 0; i < 4; ++i) CHECK(waiting[size_t(i)].get() == text_of("the cause\n  while waiting ", i));
  CHECK_THROWS_WITH_AS(event.wait_for(1s), "the cause", Error);
}

TEST_CASE("an event whose work was dropped fails, so that nobody waits for ever") {
  Event event;
  { event = EventSource("d", "a run of 'g'").event(); }
  CHECK(event.is_done());
  CHECK_THROWS_WITH_AS(event.wait(), "a run of 'g' on d was dropped before it had ended", Error);
}

TEST_CASE("what waits for several events begins after the last, with the first cause in its list") {
  const EventSource a("d", "a"), b("d", "b"), c("d", "c");
  int calls = 0;
  std::exception_ptr cause;
  EventSource::when_all_done({a.event(), Event(), b.event(), c.event()}, [&](std::exception_ptr error) {
    ++calls;
    cause = std::move(error);
  });
  c.fail(error_saying("of c"));
  b.fail(error_saying("of b"));
  CHECK(calls == 0);
  a.finish();
  CHECK(calls == 1);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(cause), "of b", Error);
  CHECK_THROWS_WITH_AS(wait_for_all(std::vector{a.event(), c.event(), b.event()}), "of c", Error);
}

TEST_CASE("a chain of a hundred thousand events ends without as many calls within each other") {
  const EventSource first("d", "first");
  std::vector<EventSource> chain = {first};
  for (int i = 0; i < 100000; ++i) {
    const EventSource next("d", "next");
    EventSource::when_done(chain.back().event(), [next](std::exception_ptr error) { next.fail(std::move(error)); });
    chain.push_back(next);
  }
  first.fail(error_saying("the cause"));
  CHECK_THROWS_WITH_AS(chain.back().event().wait(), "the cause", Error);
}

TEST_CASE("functions of users are called off the thread that ends the event, and what they throw harms nothing") {
  const EventSource source("d", "work");
  std::promise<std::thread::id> called, called_again;
  source.event().on_done([](std::exception_ptr) { throw std::runtime_error("a user's own mistake (expected here)"); });
  source.event().on_done([&](std::exception_ptr error) {
    CHECK(error == nullptr);
    called.set_value(std::this_thread::get_id());
  });
  source.finish();
  CHECK(called.get_future().get() != std::this_thread::get_id());
  source.event().on_done([&](std::exception_ptr) { called_again.set_value(std::this_thread::get_id()); });
  CHECK(called_again.get_future().get() != std::this_thread::get_id());
  CHECK_THROWS_WITH_AS(source.event().on_done(nullptr), "on_done was given no function", Error);
}
