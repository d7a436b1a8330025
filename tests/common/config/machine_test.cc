#include "common/config/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.h"

namespace tercet::config {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  // Stands for /sys/fs/cgroup and /proc/self/cgroup.
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::path path = directory.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double Cpus() { return CgroupCpuQuota(directory.path(), directory.file("self")); }
  uint64_t Memory() { return CgroupMemoryLimit(directory.path(), directory.file("self")); }

  TemporaryDirectory directory;
};

TEST_F(CgroupTest, NoFilesMeanNoLimit) {
  EXPECT_EQ(Cpus(), 0);
  EXPECT_EQ(Memory(), 0u);
}

TEST_F(CgroupTest, Version2ReadsQuotaOverPeriod) {
  Write("self", "0::/\n");
  Write("cpu.max", "150000 100000\n");
  Write("memory.max", "1073741824\n");
  EXPECT_EQ(Cpus(), 1.5);
  EXPECT_EQ(Memory(), 1073741824u);
}

TEST_F(CgroupTest, MaxIsNoLimit) {
  Write("self", "0::/\n");
  Write("cpu.max", "max 100000\n");
  Write("memory.max", "max\n");
  EXPECT_EQ(Cpus(), 0);
  EXPECT_EQ(Memory(), 0u);
}

TEST_F(CgroupTest, TheTightestGroupOnThePathCounts) {
  Write("self", "0::/kubepods/pod1/container\n");
  Write("kubepods/cpu.max", "800000 100000\n");
  Write("kubepods/pod1/cpu.max", "200000 100000\n");
  Write("kubepods/pod1/container/cpu.max", "max 100000\n");
  Write("kubepods/memory.max", "4000000000\n");
  Write("kubepods/pod1/container/memory.max", "max\n");
  EXPECT_EQ(Cpus(), 2);
  EXPECT_EQ(Memory(), 4000000000u);
}

TEST_F(CgroupTest, APathOutsideTheContainersMountFallsBackToItsRoot) {
  Write("self", "0::/system.slice/docker-12ab.scope\n");
  Write("cpu.max", "300000 100000\n");
  EXPECT_EQ(Cpus(), 3);
}

TEST_F(CgroupTest, Version1ReadsItsOwnFiles) {
  Write("self", "4:cpu,cpuacct:/job\n7:memory:/job\n");
  Write("cpu/job/cpu.cfs_quota_us", "400000\n");
  Write("cpu/job/cpu.cfs_period_us", "100000\n");
  Write("memory/job/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(Cpus(), 4);
  EXPECT_EQ(Memory(), 2147483648u);
}

TEST_F(CgroupTest, Version1WithoutALimitIsNone) {
  Write("self", "4:cpu:/\n7:memory:/\n");
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Cpus(), 0);
  EXPECT_EQ(Memory(), 0u);
}

TEST_F(CgroupTest, GarbageIsNoLimit) {
  Write("self", "::::\n\nx\n0::/\n");
  Write("cpu.max", "abc\n");
  Write("memory.max", "-5\n");
  EXPECT_EQ(Cpus(), 0);
  EXPECT_EQ(Memory(), 0u);
}

TEST(Machine, HasAtLeastOneCpuAndSomeMemory) {
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_GT(MemoryLimitBytes(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace tercet::config
