// What this process may use of the machine: the container's limits, not the machine's size.
// Thread-safe: every call reads the system anew.
#pragma once

#include <cstdint>
#include <string>

namespace tercet::config {

// CPUs on which threads can run at the same time without being throttled: the smaller of the affinity mask and the cgroup
// quota, rounded down (one thread too many throttles all of them); at least 1.
int UsableCpus();

// Bytes this process may use: the smallest memory.max on its cgroup's path, else the machine's physical memory.
uint64_t MemoryLimitBytes();

// The same from given files, for tests: `root` stands for /sys/fs/cgroup and `self` for /proc/self/cgroup.
// 0 means that no limit is set.
double CgroupCpuQuota(const std::string& root, const std::string& self);
uint64_t CgroupMemoryLimit(const std::string& root, const std::string& self);

}  // namespace tercet::config
