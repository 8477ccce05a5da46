// Kernels from outside the library (rlx/kernel.h): the list of them, and the step that calls one. The list is
// searched for every node that is compiled, and is empty in most processes.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "backends/cpu/lowerings.h"
#include "base/user_code.h"

namespace rlx {
namespace cpu {
namespace {

using Kernel = std::shared_ptr<const CpuKernel>;

struct Registry {
  std::shared_mutex mutex;  // guards all other members but `count`
  std::vector<Kernel> kernels;
  size_t changes = 0;
  std::atomic<size_t> count = 0;  // read without the lock: most processes register nothing
};
Registry& registry() {
  static Registry all;
  return all;
}

/// The kernels of an op, the latest first. They are copied, because a kernel's `refusal` is a user's code and may
/// register another kernel while the list is read.
std::vector<Kernel> kernels_of(const OpDef& op) {
  Registry& all = registry();
  std::vector<Kernel> found;
  if (all.count.load(std::memory_order_acquire) == 0) return found;
  std::shared_lock lock(all.mutex);
  std::copy_if(all.kernels.rbegin(), all.kernels.rend(), std::back_inserter(found),
               [&](const Kernel& k) { return k->op == &op; });
  return found;
}

}  // namespace

Kernel registered_kernel(const Question& q, std::string& refusals) {
  for (Kernel& kernel : kernels_of(*q.node.op)) {
    std::string why_not = when::is_byte_sized(q);
    if (why_not.empty() && kernel->refusal)
      why_not =
          with_context([&] { return text_of("asking whether it takes '", q.node.op->name, "'"); },
                       [&] {
                         return user_code([&] { return text_of("the kernel '", kernel->name, "'"); },
                                          [&] { return kernel->refusal(q.operands, q.node.types, q.node.attrs); });
                       });
    if (why_not.empty()) return kernel;
    refusals += text_of(refusals.empty() ? "" : "; ", "not by the kernel '", kernel->name, "': ", why_not);
  }
  return nullptr;
}

bool has_registered_kernel(const OpDef& op) { return !kernels_of(op).empty(); }

std::vector<KernelInUse> registered_kernels_in(const Graph& g) {
  std::vector<KernelInUse> found;
  if (registry().count.load(std::memory_order_acquire) == 0) return found;
  for (const Node& node : g.nodes()) {
    std::vector<Type> operands;
    for (Ref r : node.operands) operands.push_back(g.type(r));
    std::string refusals;
    if (Kernel kernel = registered_kernel({node, operands}, refusals))
      found.push_back({kernel, std::string(node.op->name), kernel->name});
    if (node.attrs.empty()) continue;
    node.attrs.mapped({[](const Dim& d) { return d; },
                       [&](const Subgraph& body) {
                         if (!body) return body;
                         auto inside = registered_kernels_in(*body);
                         found.insert(found.end(), inside.begin(), inside.end());
                         return body;
                       }});
  }
  return found;
}

void require_registered(std::span<const KernelInUse> kernels) {
  if (kernels.empty()) return;
  Registry& all = registry();
  std::shared_lock lock(all.mutex);
  for (const KernelInUse& used : kernels) {
    Kernel kernel = used.kernel.lock();
    if (!kernel || std::find(all.kernels.begin(), all.kernels.end(), kernel) == all.kernels.end())
      fail(ErrorCode::unsupported, "the kernel '", used.name, "' for '", used.op,
           "' with which this graph was compiled has been unregistered; compile the graph again");
  }
}

size_t registered_kernels_hash() {
  Registry& all = registry();
  std::shared_lock lock(all.mutex);
  if (all.kernels.empty()) return 0;
  // Names do not suffice: a kernel may have been replaced by one that refuses other nodes.
  size_t h = all.changes;
  for (const Kernel& kernel : all.kernels)
    h = mix(mix(h, hash_of(std::string(kernel->op->name))), hash_of(kernel->name));
  return h;
}

std::vector<std::string> registered_kernel_names(const Graph* g) {
  std::set<std::string> names;
  if (g) {
    for (const KernelInUse& used : registered_kernels_in(*g)) names.insert(text_of(used.op, " by '", used.name, "'"));
  } else {
    Registry& all = registry();
    std::shared_lock lock(all.mutex);
    for (const Kernel& kernel : all.kernels) names.insert(text_of(kernel->op->name, " by '", kernel->name, "'"));
  }
  return {names.begin(), names.end()};
}

Prepared lower_registered(const LoweringContext& c) {
  KernelSite site{*c.node.op, c.node.attrs, {}, {}, c.threads};
  std::vector<Type> types;
  for (const View& v : c.operands) {
    site.operands.push_back({v.dtype, v.shape});
    types.push_back({v.dtype, Dims(v.shape.begin(), v.shape.end())});
  }
  UserCode user{"", std::string(c.node.op->name), c.node.name};
  for (const View& v : c.results) site.results.push_back({v.dtype, v.shape});
  std::string refusals;
  Kernel kernel = registered_kernel({c.node, types}, refusals);
  if (!kernel) fail(ErrorCode::unsupported, "the kernel for '", c.node.op->name, "' has just been unregistered");
  user.what = text_of("the kernel '", kernel->name, "'");
  PreparedKernel prepared = user_code(user.what, [&] { return kernel->prepare(site); });
  if (!prepared.run) fail(ErrorCode::invalid_argument, user.what, " prepared nothing to run");
  return make_step(kernel->name, prepared.scratch_bytes,
                   [run = std::move(prepared.run), user = std::move(user)](const StepArgs& args) {
                     run_user_code(user, args,
                                   [&] { run(KernelRun(args.operands, args.results, args.scratch, args.width)); });
                   });
}

}  // namespace cpu

int64_t KernelTensor::count() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

void KernelRun::call_parts(int64_t parts, const std::function<void(int64_t)>& part) const {
  std::mutex mutex;
  std::exception_ptr first;
  kernels::ThreadPool::shared().parallel_for(threads_, parts, [&](int64_t p) {
    try {
      part(p);
    } catch (...) {
      std::scoped_lock lock(mutex);
      if (!first) first = std::current_exception();
    }
  });
  if (first) std::rethrow_exception(first);
}

void register_cpu_kernel(CpuKernel kernel) {
  if (!kernel.op || !kernel.prepare || kernel.name.empty())
    fail(ErrorCode::invalid_argument, "a kernel needs an op, a name and `prepare`; ",
         kernel.name.empty() ? "this one has no name"
                             : text_of("'", kernel.name, "' has no ", kernel.op ? "`prepare`" : "op"));
  cpu::Registry& all = cpu::registry();
  std::unique_lock lock(all.mutex);
  for (const cpu::Kernel& other : all.kernels)
    if (other->op == kernel.op && other->name == kernel.name)
      fail(ErrorCode::invalid_argument, "'", kernel.op->name, "' has a kernel '", kernel.name,
           "' already; choose another name, or unregister that one");
  all.kernels.push_back(std::make_shared<const CpuKernel>(std::move(kernel)));
  ++all.changes;
  all.count.store(all.kernels.size(), std::memory_order_release);
}

void unregister_cpu_kernel(const OpDef& op, std::string_view name) {
  cpu::Registry& all = cpu::registry();
  std::unique_lock lock(all.mutex);
  if (std::erase_if(all.kernels, [&](const cpu::Kernel& k) { return k->op == &op && k->name == name; }) == 0)
    fail(ErrorCode::not_found, "'", op.name, "' has no registered kernel '", name, "'");
  ++all.changes;
  all.count.store(all.kernels.size(), std::memory_order_release);
}

}  // namespace rlx
