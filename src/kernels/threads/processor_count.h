// How many processors this process may use.
#pragma once

#include <filesystem>
#include <string_view>

namespace rlx::kernels {

/// The processors of the calling thread's affinity mask, or as many as the quotas of the process's control groups let
/// it use at a time, a part of one counting whole: the number that is less. At least 1. Quotas are read once in a
/// process.
int processor_count();

/// The least number of processors that the quota of a control group permits, among the groups of a process whose
/// /proc/self/cgroup has this text and the groups above those; infinity where there is no quota. `mounted` is where the
/// groups lie, usually /sys/fs/cgroup: those of version 2 have a file cpu.max ("150000 100000": one and a half
/// processors), those of version 1 have cpu.cfs_quota_us and cpu.cfs_period_us (Linux,
/// Documentation/admin-guide/cgroup-v2.rst and Documentation/scheduler/sched-bwc.rst).
double control_group_processors(std::string_view membership, const std::filesystem::path& mounted);

}  // namespace rlx::kernels
