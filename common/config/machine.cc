#include "common/config/machine.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace tercet::config {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The path of this process in the hierarchy that has `controller` (version 1), or in the only one (version 2, "").
std::string CgroupPath(const std::string& self, absl::string_view controller) {
  for (absl::string_view line : absl::StrSplit(ReadFile(self), '\n')) {
    std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) return std::string(fields[2]);
  }
  return "";
}

// Calls `visit` with each directory from `path` up to the root of a hierarchy. Inside a container the path may not exist
// below the mount, whose root is then the container's own group.
void WalkUp(const std::string& mount, std::string path, const std::function<void(const std::string&)>& visit) {
  while (true) {
    visit(mount + path);
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) break;
    path.resize(slash);
  }
}

}  // namespace

double CgroupCpuQuota(const std::string& root, const std::string& self) {
  double smallest = 0;
  auto take = [&](double cpus) {
    if (cpus > 0 && (smallest == 0 || cpus < smallest)) smallest = cpus;
  };
  WalkUp(root, CgroupPath(self, ""), [&](const std::string& directory) {
    std::vector<std::string> fields = absl::StrSplit(ReadFile(directory + "/cpu.max"), absl::ByAnyChar(" \n"), absl::SkipEmpty());
    double quota, period;
    if (fields.size() == 2 && absl::SimpleAtod(fields[0], &quota) && absl::SimpleAtod(fields[1], &period) && period > 0) {
      take(quota / period);
    }
  });
  WalkUp(root + "/cpu", CgroupPath(self, "cpu"), [&](const std::string& directory) {
    double quota, period;
    if (absl::SimpleAtod(ReadFile(directory + "/cpu.cfs_quota_us"), &quota) &&
        absl::SimpleAtod(ReadFile(directory + "/cpu.cfs_period_us"), &period) && quota > 0 && period > 0) {
      take(quota / period);
    }
  });
  return smallest;
}

uint64_t CgroupMemoryLimit(const std::string& root, const std::string& self) {
  uint64_t smallest = 0;
  auto take = [&](const std::string& file) {
    uint64_t bytes;
    // Version 1 writes "no limit" as a number near 2^63.
    if (absl::SimpleAtoi(ReadFile(file), &bytes) && bytes > 0 && bytes < (uint64_t{1} << 60) &&
        (smallest == 0 || bytes < smallest)) {
      smallest = bytes;
    }
  };
  WalkUp(root, CgroupPath(self, ""), [&](const std::string& directory) { take(directory + "/memory.max"); });
  WalkUp(root + "/memory", CgroupPath(self, "memory"),
         [&](const std::string& directory) { take(directory + "/memory.limit_in_bytes"); });
  return smallest;
}

int UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  double quota = CgroupCpuQuota("/sys/fs/cgroup", "/proc/self/cgroup");
  if (quota > 0) cpus = std::min(cpus, static_cast<int>(std::floor(quota)));
  return std::max(cpus, 1);
}

uint64_t MemoryLimitBytes() {
  uint64_t physical = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  uint64_t limit = CgroupMemoryLimit("/sys/fs/cgroup", "/proc/self/cgroup");
  return limit == 0 ? physical : std::min(limit, physical);
}

}  // namespace tercet::config
