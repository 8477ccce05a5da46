// Backends by name. The list of those that are built in is src/devices/list.cpp; more can be registered while a program
// runs.
#pragma once

#include "backends/backend.h"
#include "rlx/device.h"

namespace rlx {

struct BackendEntry {
  std::string name;
  /// The backend for one of its devices, which has passed the checks below. Called once for each device.
  std::function<std::shared_ptr<const Backend>(const Device&)> open = {};
  /// Options that its devices may have, as they are spelled in a device's name.
  std::vector<std::string> options = {};
  /// How many devices it has here; ordinals are below it.
  int devices = 1;
  /// It is there for tests: nobody who asks for another device is told of it.
  bool is_for_tests = false;
};

/// Those of this build, in the order in which they are listed. Defined in the layer `devices`, which alone names
/// backends. An entry without `open` is a name that has no backend in this build.
std::vector<BackendEntry> built_in_backends();

/// Adds a backend; a name that is listed without one gets it. Fails if there is one of that name, or if the name is not
/// a word of letters, digits and underscores.
void register_backend(BackendEntry entry);

/// The backend of a device; null if this build has none.
std::shared_ptr<const Backend> find_backend(const Device& device);
/// The same; fails, naming the devices that there are.
std::shared_ptr<const Backend> backend_of(const Device& device);
/// The same, held to the instruction set `isa` (CompileOptions::isa) if it computes by one; "" holds no device.
std::shared_ptr<const Backend> backend_with(const Device& device, const std::string& isa);
/// One backend for each name that has one, but for those that are there for tests.
std::vector<std::shared_ptr<const Backend>> all_backends();

}  // namespace rlx
