// Backends by name, and what of a device's name they allow.
#include "backends/registry.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>

#include "rlx/error.h"
#include "rlx/machine.h"

namespace rlx {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<BackendEntry> entries = built_in_backends();
  std::map<std::string, std::shared_ptr<const Backend>> opened;  // by the device's name
};
Registry& registry() {
  static Registry all;
  return all;
}

/// The entries, copied: a backend that is opened may ask for others.
std::vector<BackendEntry> entries() {
  Registry& all = registry();
  std::scoped_lock lock(all.mutex);
  return all.entries;
}

std::string joined(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

BackendEntry entry_of(const std::string& backend, std::string_view text) {
  std::vector<std::string> known;
  for (BackendEntry& entry : entries()) {
    if (entry.name == backend) return std::move(entry);
    if (entry.is_for_tests) continue;
    known.push_back(entry.name);
    for (const std::string& option : entry.options) known.push_back(entry.name + ":" + option);
  }
  fail(ErrorCode::not_found, "there is no device '", text, "'; there are ", joined(known));
}

}  // namespace

Device::Device(std::string backend, int ordinal, std::vector<std::string> options)
    : backend_(std::move(backend)), ordinal_(ordinal), options_(std::move(options)) {
  const BackendEntry entry = entry_of(backend_, name());
  if (ordinal_ < 0 || ordinal_ >= entry.devices)
    fail(ErrorCode::not_found, "there is no device '", name(), "': '", backend_, "' has ",
         entry.devices == 1 ? std::string("one device, 0") : text_of("the devices 0 to ", entry.devices - 1));
  for (const std::string& option : options_)
    if (std::find(entry.options.begin(), entry.options.end(), option) == entry.options.end())
      fail(ErrorCode::not_found, "there is no device '", name(), "': '", backend_, "' has ",
           entry.options.empty() ? std::string("no options") : "the options " + joined(entry.options));
}

std::string Device::name() const {
  std::string text = backend_;
  if (ordinal_ != 0) text += text_of(':', ordinal_);
  for (const std::string& option : options_) text += ":" + option;
  return text;
}
std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.name(); }

Device Device::parse(std::string_view text) {
  std::vector<std::string> words;
  for (std::string_view rest = text;;) {
    const size_t colon = rest.find(':');
    words.emplace_back(rest.substr(0, colon));
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  const std::string backend = words.front();
  words.erase(words.begin());
  int ordinal = 0;
  if (!words.empty()) {
    const std::string& first = words.front();
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), ordinal);
    if (error == std::errc() && end == first.data() + first.size()) words.erase(words.begin());
    else ordinal = 0;  // it is an option
  }
  return Device(backend, ordinal, std::move(words));
}

Device Device::from_environment() {
  if (const char* text = std::getenv("RLX_DEVICE"); text && *text)
    return with_context([] { return std::string("reading RLX_DEVICE"); }, [&] { return parse(text); });
  return Device(entries().front().name);
}

void register_backend(BackendEntry entry) {
  const auto in_a_word = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  if (entry.name.empty() || !std::all_of(entry.name.begin(), entry.name.end(), in_a_word))
    fail(ErrorCode::invalid_argument, "a backend is to be called '", entry.name,
         "'; a name is made of letters, digits and underscores");
  if (!entry.open)
    fail(ErrorCode::invalid_argument, "the backend '", entry.name, "' has no function that opens a device");
  Registry& all = registry();
  std::scoped_lock lock(all.mutex);
  for (BackendEntry& there : all.entries)
    if (there.name == entry.name) {
      if (there.open) fail(ErrorCode::invalid_argument, "there is a backend '", entry.name, "' already");
      there = std::move(entry);  // so far a name without a backend
      return;
    }
  all.entries.push_back(std::move(entry));
}

std::shared_ptr<const Backend> find_backend(const Device& device) {
  Registry& all = registry();
  const std::string name = device.name();
  std::function<std::shared_ptr<const Backend>(const Device&)> open;
  {
    std::scoped_lock lock(all.mutex);
    if (auto found = all.opened.find(name); found != all.opened.end()) return found->second;
    for (const BackendEntry& entry : all.entries)
      if (entry.name == device.backend()) open = entry.open;
  }
  if (!open) return nullptr;
  auto backend = open(device);  // without the lock: a device may be made of others
  std::scoped_lock lock(all.mutex);
  return all.opened.emplace(name, std::move(backend)).first->second;
}

std::shared_ptr<const Backend> backend_of(const Device& device) {
  if (auto backend = find_backend(device)) return backend;
  std::vector<std::string> available;
  for (const BackendEntry& entry : entries())
    for (int ordinal = 0; ordinal < entry.devices && !entry.is_for_tests; ++ordinal)
      if (const Device other(entry.name, ordinal); is_available(other)) available.push_back(other.name());
  fail(ErrorCode::not_found, "device '", device,
       "' is not available: this build has no backend for it; available: ", joined(available));
}

std::shared_ptr<const Backend> backend_with(const Device& device, const std::string& isa) {
  auto backend = backend_of(device);
  if (isa.empty()) return backend;
  auto held = backend->with_instruction_set(isa);
  return held ? held : backend;
}

std::unique_ptr<HostExecutable> load_on_host(const Program& program, const LoadOptions& options) {
  std::unique_ptr<Executable> loaded = program.load(options);
  auto* on_host = dynamic_cast<HostExecutable*>(loaded.get());
  if (!on_host) fail(ErrorCode::internal, "a program that was to run in the host's memory is of a device with its own");
  loaded.release();
  return std::unique_ptr<HostExecutable>(on_host);
}

std::vector<std::shared_ptr<const Backend>> all_backends() {
  std::vector<std::shared_ptr<const Backend>> all;
  for (const BackendEntry& entry : entries())
    if (auto backend = entry.is_for_tests ? nullptr : find_backend(Device(entry.name)))
      all.push_back(std::move(backend));
  return all;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> all;
  for (const BackendEntry& entry : entries())
    for (int ordinal = 0; ordinal < std::max(1, entry.devices); ++ordinal) {
      const Device device(entry.name, ordinal);
      const auto backend = find_backend(device);
      if (!backend) all.push_back({device, false, "this build has no backend for it", false, entry.is_for_tests});
      else if (auto why = backend->unavailable(); !why.empty())
        all.push_back({device, false, why, false, entry.is_for_tests});
      else all.push_back({device, true, backend->description(), backend->accelerates(), entry.is_for_tests});
    }
  return all;
}
Device pick_best_device() {
  std::optional<Device> first;
  for (const DeviceInfo& d : devices()) {
    if (d.available && d.accelerates) return d.device;
    if (d.available && !first) first = d.device;
  }
  return first ? *first : Device(entries().front().name);
}
bool is_available(const Device& device) {
  const auto backend = find_backend(device);
  return backend && backend->unavailable().empty();
}

}  // namespace rlx
