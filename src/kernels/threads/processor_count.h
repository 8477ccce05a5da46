// How many processors this process may use.
#pragma once

#include <filesystem>
#include <string_view>

namespace rlx::kernels {

/// The lesser of two numbers, and at least 1: the processors in the calling thread's affinity mask, which is read in
/// each call, and the processors whose time the quotas of the process's control groups permit, rounded up. The quotas
/// are read in the first call only.
int processor_count();

/// The number of processors whose time control groups permit, such as 1.5, or infinity if none has a quota: the minimum
/// over the groups in `membership`, which is the text of /proc/self/cgroup, and all groups above them. `mounted` is the
/// folder of the groups, usually /sys/fs/cgroup. Groups of version 2 have a file cpu.max ("150000 100000": one and a
/// half processors), those of version 1 have cpu.cfs_quota_us and cpu.cfs_period_us (Linux,
/// Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst).
double control_group_processors(std::string_view membership, const std::filesystem::path& mounted);

}  // namespace rlx::kernels
