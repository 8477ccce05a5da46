// States: made, kept, and run on the host; see the headers.
#include "runtime/graph_state.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "base/event_source.h"
#include "rlx/io.h"

namespace rlx {
namespace {

using Entry = GraphState::Entry;

std::string text_of_entry(const Entry& e) {
  return text_of("'", e.name, "' (", Type{e.dtype, Dims(e.shape.begin(), e.shape.end())}, ")");
}
/// The first names of a list, for messages.
template <class Entries>
std::string listed(const Entries& entries) {
  std::string list;
  size_t shown = 0;
  for (const auto& entry : entries) {
    if (++shown > 12) return list + ", ...";
    list += (list.empty() ? "'" : ", '") + entry.name + "'";
  }
  return list.empty() ? "none" : list;
}
/// What was wrong, without what was being done.
std::string first_line(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    const std::string text = e.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "an unknown exception";
  }
}

Tensor own_copy(const Tensor& from) {
  Tensor copy = Tensor::uninitialized(from.dtype(), from.shape());
  if (from.byte_count()) std::memcpy(copy.mutable_data(), from.data(), from.byte_count());
  return copy;
}
/// A copy of the value, or zeros without one.
Tensor value_or_zeros(const Entry& entry, const Tensor* value) {
  return value ? own_copy(*value) : Tensor(entry.dtype, entry.shape);
}

/// Copies the elements at the indices that both have, from rows of extents `from_dims` to rows of `to_dims`: of
/// `element` bytes each.
void copy_common(const std::byte* from, std::span<const int64_t> from_dims, std::byte* to,
                 std::span<const int64_t> to_dims, size_t element) {
  if (from_dims.empty()) return void(std::memcpy(to, from, element));
  const auto common = static_cast<size_t>(std::min(from_dims[0], to_dims[0]));
  const auto from_inner = from_dims.subspan(1), to_inner = to_dims.subspan(1);
  const auto bytes = [&](std::span<const int64_t> dims) {
    return std::accumulate(dims.begin(), dims.end(), element,
                           [](size_t product, int64_t d) { return product * static_cast<size_t>(d); });
  };
  const size_t from_step = bytes(from_inner), to_step = bytes(to_inner);
  if (common == 0 || from_step == 0 || to_step == 0) return;
  if (from_step == to_step && std::equal(from_inner.begin(), from_inner.end(), to_inner.begin()))
    return void(std::memcpy(to, from, common * to_step));
  for (size_t i = 0; i < common; ++i)
    copy_common(from + i * from_step, from_inner, to + i * to_step, to_inner, element);
}
/// `from` with other extents: zeros where it has no elements.
Tensor resized(const Tensor& from, const Entry& entry) {
  if (entry.shape == from.shape()) return own_copy(from);
  const DTypeInfo& format = info(entry.dtype);
  if (format.block_elements != 1 && !is_block(entry.dtype))
    fail(ErrorCode::unsupported, "cannot resize ", from.type(), " to ", text_of_entry(entry),
         ": several of its elements share a byte; read the tensors and give them to new_state");
  Tensor to(entry.dtype, entry.shape);
  // Blocks stay what they are: of each row they are the elements that move.
  const auto in_blocks = [&](Shape shape) {
    if (!shape.empty()) shape.back() /= format.block_elements;
    return shape;
  };
  copy_common(from.data(), in_blocks(from.shape()), to.mutable_data(), in_blocks(to.shape()),
              static_cast<size_t>(format.block_bytes));
  return to;
}

// Safetensors has no dtypes of blocks: rows of bytes stand for them in a file, whose metadata tell of which format.
std::string key_of_format(std::string_view name) { return text_of("blocks.", name); }
Tensor bytes_of_blocks(const Tensor& blocks) {
  const DTypeInfo& format = info(blocks.dtype());
  Shape rows = blocks.shape();
  rows.back() = rows.back() / format.block_elements * format.block_bytes;
  return Tensor::borrow(u8, std::move(rows), blocks.bytes(), blocks.owner());
}
Tensor blocks_of_bytes(const Tensor& bytes, const std::string& name, DType dtype,
                       const SafetensorsFile::Metadata& metadata) {
  const auto found = metadata.find(key_of_format(name));
  const std::string_view kept = found == metadata.end() ? std::string_view("no format") : found->second;
  const DTypeInfo& format = info(dtype);
  Shape shape = bytes.shape();
  if (kept != name_of(dtype) || shape.empty() || shape.back() % format.block_bytes != 0)
    fail(ErrorCode::shape_mismatch, "the file has '", name, "' as ", bytes.type(), ", bytes of ", kept,
         ", which are no rows of ", dtype);
  shape.back() = shape.back() / format.block_bytes * format.block_elements;
  return Tensor::borrow(dtype, std::move(shape), bytes.bytes(), bytes.owner());
}

/// Whether a tensor may be an input of that type, by what is a number in it.
bool may_be(const Type& type, DType dtype, const Shape& shape) {
  if (type.dtype != dtype || type.dims.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (type.dims[d].is_static() && type.dims[d].value() != shape[d]) return false;
  return true;
}

/// "'k' (f32[1, C]), 'v' (f32[1, C])".
std::string typed_list(const std::vector<Signature::Entry>& entries) {
  std::string list;
  for (const auto& entry : entries) list += text_of(list.empty() ? "'" : ", '", entry.name, "' (", entry.type, ")");
  return list;
}

std::vector<Signature::Entry> updated_inputs(const CompiledGraph::State& graph) {
  std::vector<Signature::Entry> all;
  for (const auto& pair : graph.pairs) all.push_back(graph.signature.inputs[pair.input]);
  return all;
}

/// The tensors of a new state: their extents from the values and from `extents`.
std::vector<Entry> entries_for(const CompiledGraph::State& graph,
                               const std::map<std::string, Tensor, std::less<>>& values, Bindings extents) {
  const std::vector<Signature::Entry> updated = updated_inputs(graph);
  const std::string& name = graph.graph.name();
  if (updated.empty())
    fail(ErrorCode::invalid_argument, "graph '", name,
         "' updates no input, so that it has no state: donate inputs that are outputs of the same name and type "
         "(CompileOptions::donate)");
  for (const auto& [given, value] : values)
    if (std::none_of(updated.begin(), updated.end(), [&, &wanted = given](const auto& e) { return e.name == wanted; }))
      fail(ErrorCode::not_found, "graph '", name, "' updates no input '", given, "'; it updates ", listed(updated));
  std::set<std::string> symbols;
  for (const auto& entry : updated)
    for (const Dim& dim : entry.type.dims) dim.for_each_symbol([&](const std::string& s) { symbols.insert(s); });
  for (const auto& [symbol, extent] : extents)
    if (!symbols.count(symbol))
      fail(ErrorCode::not_found, "`extents` has ", symbol, " = ", extent, ", but the state of '", name,
           "' has no such symbol: its tensors are ", typed_list(updated));
  // Dims of several symbols wait for others that tell all of them but one.
  for (size_t known = extents.size(), round = 0; round == 0 || extents.size() > known; ++round) {
    known = extents.size();
    for (const auto& entry : updated) {
      const auto at = values.find(entry.name);
      if (at == values.end()) continue;
      const Tensor& value = at->second;
      if (!may_be(entry.type, value.dtype(), value.shape()))
        fail(ErrorCode::shape_mismatch, "input '", entry.name, "' of '", name, "' is ", entry.type, ", got ",
             value.type());
      with_context([&] { return text_of("giving '", entry.name, "' of a state of '", name, "' ", value.type()); },
                   [&] {
                     for (size_t d = 0; d < entry.type.dims.size(); ++d)
                       entry.type.dims[d].solve(value.shape()[d], extents);
                   });
    }
  }
  std::vector<Entry> entries;
  for (const auto& entry : updated) {
    Shape shape;
    for (const Dim& dim : entry.type.dims) {
      const Dim bound = dim.bound(extents);
      if (!bound.is_static())
        fail(ErrorCode::invalid_argument, "the state of '", name, "' has '", entry.name, "' (", entry.type,
             "), whose extent ", bound, " is not known: give a number for it in `extents`, or a value for the tensor");
      shape.push_back(bound.value());
    }
    entries.push_back({entry.name, entry.type.dtype, std::move(shape)});
  }
  return entries;
}

}  // namespace

// ---- what stands behind it ----

void GraphState::Impl::fit(const CompiledGraph::State& g) {
  if (fitted == g.number) return;
  if (device != g.device)
    fail(ErrorCode::invalid_argument, text(), " was given to '", g.graph.name(), "', which was compiled for ",
         g.device);
  const std::vector<Signature::Entry> updated = updated_inputs(g);
  std::vector<size_t> found;
  for (const auto& input : updated) {
    const auto at = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == input.name; });
    if (at == entries.end())
      fail(ErrorCode::invalid_argument, text(), " has no '", input.name, "' (", input.type, "), which '",
           g.graph.name(), "' updates; it has ", listed(entries));
    if (!may_be(input.type, at->dtype, at->shape))
      fail(ErrorCode::shape_mismatch, text(), " has ", text_of_entry(*at), ", which is ", input.type, " in '",
           g.graph.name(), "'");
    found.push_back(static_cast<size_t>(at - entries.begin()));
  }
  for (size_t e = 0; e < entries.size(); ++e)
    if (std::find(found.begin(), found.end(), e) == found.end())
      fail(ErrorCode::invalid_argument, text(), " has ", text_of_entry(entries[e]), ", which '", g.graph.name(),
           "' does not update; it updates ", listed(updated));
  given.assign(g.signature.inputs.size(), Tensor());
  results.assign(g.signature.outputs.size(), Tensor());
  entry_of = std::move(found);
  fitted = g.number;
}

std::string GraphState::Impl::why_torn() const {
  if (!torn.empty()) return torn;
  for (const auto& t : tensors)
    if (const auto error = t->ready.error()) return first_line(error);
  return "";
}
void GraphState::Impl::fail_if_torn(const std::string& why) const {
  if (!why.empty())
    fail(ErrorCode::invalid_argument, text(), " is torn, as a run that was to update it did not end well: ", why,
         "; reset it, or go on with another one");
}
void GraphState::Impl::wait_until_whole() const {
  for (const auto& t : tensors) {
    if (t->ready.is_done()) continue;
    try {
      t->ready.wait();
    } catch (...) {
      fail_if_torn(first_line(std::current_exception()));
    }
  }
  require_whole();
}

Tensor GraphState::Impl::host_copy(size_t entry) const {
  wait_until_whole();
  return backend->memory() ? DeviceTensor(tensors[entry]).to_host() : own_copy(tensors[entry]->host);
}

void GraphState::Impl::run_on_host(const CompiledGraph::State& g, Tensors inputs, std::span<Tensor> outputs,
                                   RunOptions options) {
  std::scoped_lock lock(mutex);
  fit(g);
  wait_until_whole();
  static const Tensor kNone;
  for (size_t i = 0; i < inputs.size(); ++i) given[g.free_inputs[i]] = inputs[i];
  for (size_t p = 0; p < g.pairs.size(); ++p) {
    Tensor &own = tensor_of(p)->host, &input = given[g.pairs[p].input];
    if (!g.updates_in_place) input = own, results[g.pairs[p].output] = kNone;
    else if (input.data() != own.data() || input.dtype() != own.dtype() || input.shape() != own.shape())
      input = Tensor::borrow(own.dtype(), own.shape(), own.bytes());
  }
  try {
    g.bounds.check(g.graph, given);
  } catch (...) {
    std::fill(given.begin(), given.end(), kNone);
    throw;
  }
  // All memory is taken: what is handed out from here on comes back. An output is handed the memory of its input, so
  // that it may be told that it alone has it.
  for (size_t o = 0; o < outputs.size(); ++o) results[g.free_outputs[o]] = std::move(outputs[o]);
  for (size_t p = 0; p < g.pairs.size() && g.updates_in_place; ++p)
    results[g.pairs[p].output] = std::move(tensor_of(p)->host);
  bool is_whole = true;  // all tensors that were handed out came back
  const auto take_back = [&](bool has_run) {
    for (size_t i : g.free_inputs) given[i] = kNone;
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o] = std::move(results[g.free_outputs[o]]);
    for (size_t p = 0; p < g.pairs.size(); ++p) {
      Tensor &own = tensor_of(p)->host, &input = given[g.pairs[p].input], &made = results[g.pairs[p].output];
      is_whole &= has_run || !g.updates_in_place || made.data() == input.data();
      if (has_run || g.updates_in_place) own = std::move(made);
      if (!g.updates_in_place) input = kNone;
    }
  };
  RunNotes notes;
  if (!options.notes) options.notes = &notes;
  try {
    g.on_host->run(given, results, options);
  } catch (...) {
    take_back(false);
    // What is not updated in place still has its old values.
    if ((g.updates_in_place && options.notes->has_begun) || !is_whole) torn = first_line(std::current_exception());
    throw;
  }
  take_back(true);
  if (!g.updates_in_place) options.notes->updates_elsewhere = g.pairs.size();
}

// ---- the state ----

GraphState::GraphState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GraphState::GraphState(GraphState&&) noexcept = default;
GraphState& GraphState::operator=(GraphState&&) noexcept = default;
GraphState::~GraphState() = default;

GraphState::Impl& GraphState::impl() const {
  if (!impl_) fail(ErrorCode::invalid_argument, "a GraphState that was moved away holds nothing");
  return *impl_;
}
const Device& GraphState::device() const { return impl().device; }
const std::vector<Entry>& GraphState::entries() const { return impl().entries; }
size_t GraphState::byte_count() const {
  size_t sum = 0;
  for (const Entry& e : entries()) sum += rlx::byte_count(e.dtype, e.shape);
  return sum;
}

GraphState GraphState::copy() const {
  const Impl& from = impl();
  std::scoped_lock lock(from.mutex);
  const auto memory = from.backend->memory();
  if (memory) from.require_whole();
  else from.wait_until_whole();
  std::unique_ptr<Impl> to(new Impl{from.device, from.backend, from.graph, from.entries});
  for (const auto& t : from.tensors) {
    auto made = std::make_shared<TensorOnDevice>(from.device, from.backend, t->dtype, t->shape);
    if (memory) {
      made->buffer = new_buffer(*memory, from.device, t->buffer.bytes);
      std::scoped_lock tensor_lock(t->mutex);
      made->ready = memory->copy(made->buffer, t->buffer, std::span(&t->ready, 1));
      t->add_reader(made->ready);
    } else {
      made->host = own_copy(t->host);
    }
    to->tensors.push_back(std::move(made));
  }
  return GraphState(std::move(to));
}

Tensor GraphState::tensor(std::string_view name) const {
  const Impl& state = impl();
  std::scoped_lock lock(state.mutex);
  for (size_t e = 0; e < state.entries.size(); ++e)
    if (state.entries[e].name == name) return state.host_copy(e);
  fail(ErrorCode::not_found, "the state of '", state.graph, "' has no '", name, "'; it has ", listed(state.entries));
}
NamedTensors GraphState::tensors() const {
  const Impl& state = impl();
  std::scoped_lock lock(state.mutex);
  NamedTensors all;
  for (size_t e = 0; e < state.entries.size(); ++e) all.emplace(state.entries[e].name, state.host_copy(e));
  return all;
}

void GraphState::reset(const NamedTensors& values) {
  Impl& state = impl();
  std::scoped_lock lock(state.mutex);
  for (const auto& [name, value] : values) {
    const auto at = std::find_if(state.entries.begin(), state.entries.end(),
                                 [&, &given = name](const Entry& e) { return e.name == given; });
    if (at == state.entries.end())
      fail(ErrorCode::not_found, "the state of '", state.graph, "' has no '", name, "'; it has ",
           listed(state.entries));
    if (value.dtype() != at->dtype || value.shape() != at->shape)
      fail(ErrorCode::shape_mismatch, "the state of '", state.graph, "' has ", text_of_entry(*at), ", got ",
           value.type());
  }
  state.torn = "it was being reset, which failed";
  for (size_t e = 0; e < state.entries.size(); ++e) {
    const Entry& entry = state.entries[e];
    const auto at = values.find(entry.name);
    const Tensor* value = at == values.end() ? nullptr : &at->second;
    std::shared_ptr<TensorOnDevice>& t = state.tensors[e];
    if (state.backend->memory()) {
      DeviceTensor(t).write(value_or_zeros(entry, value));
      continue;
    }
    while (!t->ready.is_done()) try {
        t->ready.wait();
      } catch (...) {  // what it was to become does not matter any more
      }
    const bool is_there = t->host.dtype() == entry.dtype && t->host.shape() == entry.shape && t->host.is_unshared();
    if (!is_there) t->host = value_or_zeros(entry, value);
    else if (!value) std::fill_n(t->host.mutable_data(), t->host.byte_count(), std::byte{0});
    else if (value->byte_count()) std::memcpy(t->host.mutable_data(), value->data(), value->byte_count());
    t->ready = Event();
  }
  state.torn.clear();
}

void GraphState::save(const std::string& path) const {
  NamedTensors all = tensors();
  SafetensorsFile::Metadata formats;
  for (auto& [name, value] : all)
    if (is_block(value.dtype())) {
      formats[key_of_format(name)] = name_of(value.dtype());
      value = bytes_of_blocks(value);
    }
  with_context([&] { return text_of("saving the state of '", impl().graph, "' to '", path, "'"); },
               [&] { write_safetensors(path, all, formats); });
}
std::string GraphState::why_torn() const {
  const Impl& state = impl();
  std::scoped_lock lock(state.mutex);
  return state.why_torn();
}

// ---- of compiled graphs ----

GraphState CompiledGraph::new_state(const NamedTensors& values, const Bindings& extents) const {
  state_->compile();
  std::unique_ptr<GraphState::Impl> made(new GraphState::Impl{state_->device, state_->backend, state_->graph.name(),
                                                              entries_for(*state_, values, extents)});
  for (const Entry& entry : made->entries) {
    const auto at = values.find(entry.name);
    const Tensor value = value_or_zeros(entry, at == values.end() ? nullptr : &at->second);
    const std::string doing = text_of("giving '", entry.name, "' of a state of '", made->graph, "' its first value");
    made->tensors.push_back(put_on_device(value, state_->device, nullptr, doing).on_device());
  }
  return GraphState(std::move(made));
}

GraphState CompiledGraph::resized_state(const GraphState& from, const Bindings& extents) const {
  state_->compile();
  GraphState::Impl& old = from.impl();
  std::unique_ptr<GraphState::Impl> made(
      new GraphState::Impl{state_->device, state_->backend, state_->graph.name(), entries_for(*state_, {}, extents)});
  std::scoped_lock lock(old.mutex);
  old.fit(*state_);
  old.wait_until_whole();
  const bool on_host = !old.backend->memory(), is_taken = on_host && old.is_given_up;
  if (is_taken) old.torn = "its tensors became those of a resized state";
  for (size_t p = 0; p < made->entries.size(); ++p) {
    const Entry& entry = made->entries[p];
    const std::string doing = text_of("giving '", entry.name, "' of a resized state of '", made->graph, "' its value");
    // Where the host computes, the old tensor is read where it lies.
    const Tensor before = !on_host   ? old.host_copy(old.entry_of[p])
                          : is_taken ? std::exchange(old.tensor_of(p)->host, Tensor())
                                     : old.tensor_of(p)->host;
    const Tensor grown = resized(before, entry);
    made->tensors.push_back(put_on_device(grown, state_->device, nullptr, doing).on_device());
  }
  return GraphState(std::move(made));
}

GraphState CompiledGraph::load_state(const std::string& path) const {
  return with_context([&] { return text_of("loading a state of '", state_->graph.name(), "' from '", path, "'"); },
                      [&] {
                        const SafetensorsFile file = SafetensorsFile::open(path);
                        const std::vector<Signature::Entry> updated = updated_inputs(*state_);
                        for (const auto& input : updated)
                          if (!file.find(input.name))
                            fail(ErrorCode::not_found, "the file has no '", input.name, "' (", input.type, "), which '",
                                 state_->graph.name(), "' updates; it has ", listed(file.entries()));
                        NamedTensors all = file.tensors();
                        for (const auto& input : updated)
                          if (Tensor& value = all.at(input.name); is_block(input.type.dtype) && value.dtype() == u8)
                            value = blocks_of_bytes(value, input.name, input.type.dtype, file.metadata());
                        return new_state(all);
                      });
}

std::vector<Tensor> CompiledGraph::run(const std::vector<NamedTensor>& inputs, GraphState& state) const {
  return run_ordered(ordered(inputs, true), state);
}
std::vector<Tensor> CompiledGraph::run_ordered(Tensors inputs, GraphState& state) const {
  std::vector<Tensor> outputs(state_->free_outputs.size());
  run_into(inputs, outputs, state);
  return outputs;
}

namespace {

void check_counts(const CompiledGraph::State& g, size_t inputs, size_t outputs) {
  if (inputs != g.free_inputs.size())
    fail(ErrorCode::invalid_argument, "graph '", g.graph.name(), "' has ", g.free_inputs.size(),
         " inputs that are not in its state, got ", inputs);
  if (outputs != g.free_outputs.size())
    fail(ErrorCode::invalid_argument, "graph '", g.graph.name(), "' has ", g.free_outputs.size(),
         " outputs that are not in its state, got room for ", outputs);
}

}  // namespace

void CompiledGraph::run_into(Tensors inputs, std::span<Tensor> outputs, GraphState& state) const {
  state_->begin_run();
  check_counts(*state_, inputs.size(), outputs.size());
  if (state_->on_host)
    return state.impl().run_on_host(*state_, inputs, outputs, {state_->threads.load(std::memory_order_relaxed)});
  run_on_device(state_, inputs, outputs, nullptr, &state.impl());
}

Profile CompiledGraph::profile(const std::vector<NamedTensor>& inputs, GraphState& state) const {
  state_->begin_run();
  const std::vector<Tensor> given = ordered(inputs, true);
  std::vector<Tensor> outputs(state_->free_outputs.size());
  std::vector<StepTime> times;
  return timed_profile(times, [&] {
    if (!state_->on_host) return run_on_device(state_, given, outputs, &times, &state.impl());
    auto record = std::make_shared<RunRecord>();
    RunNotes notes;
    RunOptions options{state_->threads.load(), &times};
    options.notes = &notes;
    options.observer = record;
    state.impl().run_on_host(*state_, given, outputs, options);
    record->count(&Transfers::donated_copies, notes.updates_elsewhere);
    return record;
  });
}

}  // namespace rlx
