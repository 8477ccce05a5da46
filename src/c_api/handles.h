// What the files of the C ABI share: the objects behind the handles, and `guarded`, where exceptions end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "base/printable_text.h"
#include "rlx/c.h"
#include "rlx/chat_template.h"
#include "rlx/coreml_model.h"
#include "rlx/quantization.h"
#include "rlx/session.h"
#include "rlx/tokenizer.h"
#include "rlx/too_large.h"
#include "rlx/train.h"

struct rlx_error {
  rlx_status status;
  std::string message;
  std::string report = {};        // of a compile that failed
  uint64_t bytes = 0, limit = 0;  // of what is too large; else 0
};
struct rlx_tensor {
  rlx::Tensor tensor;
};
struct rlx_graph {
  rlx::Graph graph;
  std::string text;
};
struct rlx_session {
  rlx::Session session;
};
struct rlx_compiled {
  rlx::CompiledGraph compiled;
  std::string report;
};
struct rlx_device_tensor {
  rlx::DeviceTensor tensor;
  std::string device = tensor.device().name(), why_gone = {};
};
struct rlx_event {
  rlx::Event event;
};
struct rlx_run {
  rlx::PendingRun run;
};
struct rlx_state {
  rlx::GraphState state;
};
struct rlx_coreml {
  rlx::CoremlModel model;
  // Texts that callers hold pointers to: each is made once, under the lock, and stays.
  std::mutex mutex = {};
  std::string text = {}, labels = {};
};
struct rlx_coreml_state {
  rlx::CoremlState values;
};

struct rlx_training {
  rlx::TrainingSession session;
  std::string json;
};
struct rlx_quantization {
  rlx::Quantization made;
  std::string json;
};

struct rlx_tokenizer {
  rlx::Tokenizer tokenizer;
  std::string json = {};
};
struct rlx_chat_template {
  rlx::ChatTemplate chat_template;
};

namespace rlx::c {

inline rlx_status store(rlx_error** error, rlx_status status, const char* message,
                        const DispatchReport* report = nullptr) noexcept {
  if (error) {
    try {
      *error = new rlx_error{status, printable_text(message), report ? report->json() : ""};
    } catch (...) {
      *error = nullptr;  // no memory for the message either: the status has to do
    }
  }
  return status;
}

/// The code of a status that a caller's function ended with; `otherwise` where it is RLX_OK or no status.
inline ErrorCode code_of(rlx_status status, ErrorCode otherwise) {
  return status >= RLX_INVALID_ARGUMENT && status <= RLX_TOO_LARGE ? static_cast<ErrorCode>(status) : otherwise;
}

/// Runs `body`, and turns what it throws into a status and an error.
template <class Body>
rlx_status guarded(rlx_error** error, Body body) noexcept {
  if (error) *error = nullptr;
  try {
    body();
    return RLX_OK;
  } catch (const rlx::CompileError& e) {
    return store(error, static_cast<rlx_status>(e.code()), e.what(), &e.report());
  } catch (const rlx::TooLarge& e) {
    const rlx_status status = store(error, RLX_TOO_LARGE, e.what());
    if (error && *error) (*error)->bytes = e.bytes, (*error)->limit = e.limit;
    return status;
  } catch (const rlx::Error& e) {
    return store(error, static_cast<rlx_status>(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return store(error, RLX_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& e) {
    return store(error, RLX_INTERNAL, e.what());
  } catch (...) {
    return store(error, RLX_INTERNAL, "an unknown exception");
  }
}

template <class T>
T& required(T* pointer, const char* what) {
  if (!pointer) fail(ErrorCode::invalid_argument, what, " is NULL");
  return *pointer;
}
inline std::string required_text(const char* text, const char* what) {
  if (!text) fail(ErrorCode::invalid_argument, what, " is NULL");
  return text;
}

/// Fails for a number of elements that no array has: it came from a negative one, or from memory that is none.
inline void check_count(size_t count, size_t element_bytes, const char* what) {
  if (count > static_cast<size_t>(PTRDIFF_MAX) / element_bytes)
    fail(ErrorCode::invalid_argument, what, " are ", count, " by the count that is given; no memory holds so many");
}
/// The elements of an array of the caller, which may be NULL if there are none.
template <class T>
std::span<T> array_from(T* elements, size_t count, const char* what) {
  check_count(count, sizeof(T), what);
  if (count) required(elements, what);
  return {elements, count};
}

/// An options struct as the library knows it: members that an older caller does not have keep their defaults.
template <class Options>
Options options_of(const Options* given) {
  Options options{};
  if (!given) return options;
  if (given->struct_size < sizeof(size_t) || given->struct_size > 4096)
    fail(ErrorCode::invalid_argument, "struct_size is ", given->struct_size, "; set it to sizeof the struct");
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  return options;
}

/// The device of a name; that of the environment for "".
inline rlx::Device device_from(const char* name) {
  const std::string text = required_text(name, "device");
  return text.empty() ? rlx::Device::from_environment() : rlx::Device::parse(text);
}

inline rlx::Shape shape_from(const int64_t* dims, size_t rank) {
  if (rank > 64) fail(ErrorCode::invalid_argument, "a rank of ", rank);
  if (rank && !dims) fail(ErrorCode::invalid_argument, "dims is NULL");
  return {dims, dims + rank};
}
inline std::span<const std::byte> bytes_from(const void* data, size_t size) {
  return array_from(static_cast<const std::byte*>(data), size, "data");
}
/// Fails for a byte that is no bool: in C++ whoever reads it as one may do anything, and `bitwise_not` of 2 would be 3.
inline void check_bools(const rlx::Type& type, std::span<const std::byte> bytes) {
  if (type.dtype != rlx::boolean) return;
  auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad != bytes.end())
    fail(ErrorCode::invalid_argument, "element ", bad - bytes.begin(), " of ", type, " is ", std::to_integer<int>(*bad),
         "; a bool is 0 or 1: give x != 0, or an array of u8");
}
inline rlx::Type type_from(const char* text) {
  std::string source = required_text(text, "type");
  rlx::Scanner in(source);
  rlx::Type type;
  parse(in, type);
  if (!in.at_end()) in.unexpected("the end of the type");
  return type;
}
/// `text`, in the form of attributes, read over the defaults that `into` holds.
template <class A>
A read_over(A into, const std::string& text, const std::string& what) {
  return rlx::with_context([&] { return "reading the " + what; },
                           [&] {
                             rlx::Scanner in(text);
                             parse(in, into);
                             if (!in.at_end()) in.unexpected("the end of the text");
                             return into;
                           });
}
inline std::vector<rlx::NamedTensor> named(const char* const* names, const rlx_tensor* const* values, size_t count) {
  array_from(names, count, "names"), array_from(values, count, "values");
  std::vector<rlx::NamedTensor> all;
  for (size_t i = 0; i < count; ++i)
    all.emplace_back(required_text(names[i], "a name"), required(values[i], "a value").tensor);
  return all;
}
/// None of them twice; `what` each is, for messages.
inline rlx::NamedTensors values_from(const char* const* names, const rlx_tensor* const* values, size_t count,
                                     const char* what = "value") {
  rlx::NamedTensors all;
  for (auto& [name, value] : named(names, values, count))
    if (!all.emplace(name, std::move(value)).second)
      fail(ErrorCode::invalid_argument, "the ", what, " '", name, "' is given twice");
  return all;
}
inline rlx::NamedTensors params_from(const char* const* names, const rlx_tensor* const* values, size_t count) {
  return values_from(names, values, count, "param");
}
/// Stores named tensors where there is room for them; `kept` holds their names from then on, one behind the other.
inline void store_named(const rlx::NamedTensors& values, std::string& kept, const char** made_names, rlx_tensor** made,
                        size_t room, size_t* count) {
  if (count) *count = values.size();
  if (room == 0) return;
  if (room < values.size())
    fail(ErrorCode::invalid_argument, "there are ", values.size(), " values, got room for ", room);
  required(made_names, "made_names"), required(made, "made");
  kept.clear();
  std::vector<size_t> starts;
  std::vector<std::unique_ptr<rlx_tensor>> tensors;
  for (const auto& [name, value] : values) {
    starts.push_back(kept.size());
    kept += name + '\0';
    tensors.push_back(std::make_unique<rlx_tensor>(rlx_tensor{value}));
  }
  for (size_t i = 0; i < tensors.size(); ++i) made_names[i] = kept.c_str() + starts[i], made[i] = tensors[i].release();
}
/// Stores what a run in the background gives, and the run itself if it is asked for.
inline void hand_out(const rlx::PendingRun& begun, rlx_device_tensor** outputs, rlx_run** run) {
  std::vector<std::unique_ptr<rlx_device_tensor>> made;
  for (const rlx::DeviceTensor& t : begun.outputs())
    made.push_back(std::make_unique<rlx_device_tensor>(rlx_device_tensor{t}));
  if (run) *run = new rlx_run{begun};
  for (size_t i = 0; i < made.size(); ++i) outputs[i] = made[i].release();
}
/// "B=1 S=128", by spaces or commas; NULL is none.
rlx::Bindings bindings_from(const char* text);
/// `options` may be null.
rlx::CoremlOptions coreml_options_from(const rlx_coreml_options* options);
/// With what the environment asks for; `options` may be null.
rlx::CompileOptions compile_options_from(const rlx_compile_options* options);
/// {"predicted", "ops"}, as rlx_compiled_placement describes it.
std::string placement_json(const rlx::PlacementReport& report);
/// A text that rlx_text_free frees.
inline char* own_text(const std::string& text, size_t* size = nullptr) {
  auto* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  if (size) *size = text.size();
  return copy;
}
inline rlx::Value value_in(rlx::Graph& g, rlx_value v) {
  bool known = v.node >= 0 && static_cast<size_t>(v.node) < g.nodes().size() && v.result >= 0 &&
               static_cast<size_t>(v.result) < g.nodes()[static_cast<size_t>(v.node)].types.size();
  if (!known) fail(ErrorCode::invalid_argument, "value ", v.node, ".", v.result, " is not of graph '", g.name(), "'");
  return g.value({v.node, v.result});
}
inline rlx_value handle_of(rlx::Value v) { return {v.ref().node, v.ref().result}; }

inline void write_text(const std::string& text, char* buffer, size_t room, size_t* size) {
  if (size) *size = text.size() + 1;
  if (!buffer || room == 0) return;
  size_t n = std::min(room - 1, text.size());
  std::memcpy(buffer, text.data(), n);
  buffer[n] = '\0';
}

}  // namespace rlx::c
