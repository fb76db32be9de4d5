// Limits of control groups, from folders like those of Linux.
#include "control_groups.h"

#include "gtest/gtest.h"
#include "machine.h"
#include "program.h"

namespace acan::cli {
namespace {

using testing::TestFolder;

class ControlGroups : public ::testing::Test {
 protected:
  void Mounted2(const std::string& shows = "/") {
    folder_.Write("proc/self/mountinfo",
                  "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                  "30 22 0:26 " +
                      shows + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void Mounted1(const std::string& shows = "/") {
    folder_.Write("proc/self/mountinfo",
                  "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                  "32 30 0:28 " +
                      shows + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  void Group2(const std::string& path, const std::string& limit, const std::string& used,
              const std::string& stat = "") {
    const std::string at = "sys/fs/cgroup" + path + "/";
    folder_.Write(at + "memory.max", limit + "\n");
    folder_.Write(at + "memory.current", used + "\n");
    if (!stat.empty()) folder_.Write(at + "memory.stat", stat);
  }
  void Group1(const std::string& path, const std::string& limit, const std::string& used,
              const std::string& stat = "") {
    const std::string at = "sys/fs/cgroup/memory" + path + "/";
    folder_.Write(at + "memory.limit_in_bytes", limit + "\n");
    folder_.Write(at + "memory.usage_in_bytes", used + "\n");
    if (!stat.empty()) folder_.Write(at + "memory.stat", stat);
  }
  void Quota2(const std::string& path, const std::string& quota) {
    folder_.Write("sys/fs/cgroup" + path + "/cpu.max", quota + "\n");
  }
  void Quota1(const std::string& path, const std::string& quota_us, const std::string& period_us) {
    const std::string at = "sys/fs/cgroup/cpu" + path + "/";
    folder_.Write(at + "cpu.cfs_quota_us", quota_us + "\n");
    folder_.Write(at + "cpu.cfs_period_us", period_us + "\n");
  }
  std::optional<std::uint64_t> Free() const { return FreeInControlGroups(folder_.path()); }
  std::optional<std::uint64_t> Limit() const { return MemoryLimitOfControlGroups(folder_.path()); }
  std::optional<double> Quota() const { return ProcessorQuotaOfControlGroups(folder_.path()); }

  const TestFolder folder_;
};

TEST_F(ControlGroups, NoneOrNoLimitIsNoLimit) {
  EXPECT_EQ(Free(), std::nullopt);
  Mounted2();
  EXPECT_EQ(Free(), std::nullopt);
  folder_.Write("proc/self/cgroup", "0::/job\n");
  EXPECT_EQ(Free(), std::nullopt);
  Group2("/job", "max", "1000");
  EXPECT_EQ(Free(), std::nullopt);
}

TEST_F(ControlGroups, OfVersion2AreThoseOfTheProcessAndNotTheTopOne) {
  Mounted2();
  folder_.Write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  Group2("/slurm/job_7/step_0", "max", "10");
  Group2("/slurm/job_7", "5000", "1000");
  Group2("/slurm", "100000", "0");
  EXPECT_EQ(Free(), 4000u);
  Group2("/slurm", "3000", "1000");  // a smaller rest further up
  EXPECT_EQ(Free(), 2000u);
  Group2("", "1500", "1000");  // or at the top of a container
  EXPECT_EQ(Free(), 500u);
  Group2("", "1500", "1700");  // after a limit is lowered, the kernel lets groups exceed it
  EXPECT_EQ(Free(), 0u);
}

TEST_F(ControlGroups, TheCacheThatTheKernelGivesBackIsFree) {
  Mounted2();
  folder_.Write("proc/self/cgroup", "0::/a\n");
  Group2("/a", "5000", "4900", "anon 900\nfile 4000\ninactive_file 3000\nactive_file 1000\n");
  EXPECT_EQ(Free(), 3100u);
  Mounted1();
  folder_.Write("proc/self/cgroup", "7:memory:/a\n0::/b\n");
  Group1("/a", "5000", "4900", "inactive_file 1\ntotal_inactive_file 2000\n");
  EXPECT_EQ(Free(), 2100u);
}

TEST_F(ControlGroups, OfVersion1HaveNumbersForNoLimit) {
  Mounted1();
  folder_.Write("proc/self/cgroup",
                "9:cpu,cpuacct:/other\n7:memory:/batch/job\n1:name=systemd:/x\n");
  Group1("/batch/job", "9223372036854771712", "1000");
  EXPECT_EQ(Free(), std::nullopt);
  Group1("/batch", "8000", "2000");
  EXPECT_EQ(Free(), 6000u);
  Group1("/batch/job", "3000", "1000");
  EXPECT_EQ(Free(), 2000u);
}

TEST_F(ControlGroups, InAContainerAreWhereTheirGroupIsMounted) {
  folder_.Write("proc/self/cgroup", "0::/docker/abc/inner\n");
  Mounted2("/docker/abc");
  Group2("", "4000", "1000");
  EXPECT_EQ(Free(), 3000u);
  Group2("/inner", "2000", "1000");
  EXPECT_EQ(Free(), 1000u);
  // The process was moved out of its visible group. The visible group is still above or beside it.
  folder_.Write("proc/self/cgroup", "0::/elsewhere\n");
  EXPECT_EQ(Free(), 3000u);
  // A path that only begins like the container's.
  folder_.Write("proc/self/cgroup", "0::/docker/abcd/inner\n");
  EXPECT_EQ(Free(), 3000u);
}

TEST_F(ControlGroups, OfBothVersionsTheSmallerCounts) {
  folder_.Write("proc/self/mountinfo",
                "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                "32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  folder_.Write("proc/self/cgroup", "7:memory:/a\n0::/b\n");
  Group1("/a", "5000", "1000");
  EXPECT_EQ(Free(), 4000u);
  Group2("/unified/b", "2000", "1000");
  EXPECT_EQ(Free(), 1000u);
}

// The broker's default would be larger than its control group if it depended on the machine alone.
TEST_F(ControlGroups, LimitMemoryWhateverIsInUse) {
  EXPECT_EQ(Limit(), std::nullopt);
  Mounted2();
  folder_.Write("proc/self/cgroup", "0::/pod/broker\n");
  Group2("/pod/broker", "max", "1000");
  EXPECT_EQ(Limit(), std::nullopt);
  Group2("/pod", "8589934592", "1000");
  EXPECT_EQ(Limit(), 8ull << 30);
  Group2("/pod/broker", "4294967296", "4294967000");
  EXPECT_EQ(Limit(), 4ull << 30);
  Mounted1();
  folder_.Write("proc/self/cgroup", "7:memory:/batch/job\n");
  Group1("/batch/job", "9223372036854771712", "1000");
  EXPECT_EQ(Limit(), std::nullopt);
  Group1("/batch", "8000", "7000");
  EXPECT_EQ(Limit(), 8000u);
  EXPECT_EQ(DefaultPayloadBytes(8ull << 30), 6ull << 30);
}

// One hostile client could otherwise make a small broker exceed its memory.
TEST(Memory, OfABrokerIsEnoughForAllThatItHoldsByDefault) {
  for (const std::uint64_t gib : {2, 3, 8, 64, 1024}) {
    const std::uint64_t memory_bytes = gib << 30;
    const ReceiveBytes receive = DefaultReceiveBytes(memory_bytes);
    const std::uint64_t waiting_of_all = 2 * receive.waiting;
    EXPECT_LT(
        DefaultPayloadBytes(memory_bytes) + receive.unfinished + receive.unread + waiting_of_all,
        memory_bytes)
        << gib;
  }
  const ReceiveBytes usual = DefaultReceiveBytes(64ull << 30);
  EXPECT_EQ(usual.unfinished, 4ull << 30);
  EXPECT_EQ(usual.unread, 4ull << 30);
  EXPECT_EQ(usual.waiting, 2ull << 30);
  EXPECT_EQ(DefaultReceiveBytes(1 << 20).unread, 64ull << 20);
}

TEST_F(ControlGroups, OfVersion2HaveQuotasOfProcessorTime) {
  Mounted2();
  folder_.Write("proc/self/cgroup", "0::/pod/one\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Quota2("/pod/one", "max 100000");
  EXPECT_EQ(Quota(), std::nullopt);
  Quota2("/pod/one", "200000 100000");
  EXPECT_EQ(Quota(), 2.0);
  Quota2("/pod", "150000 100000");  // a smaller quota further up
  EXPECT_EQ(Quota(), 1.5);
  Quota2("", "50000 100000");  // or at the top of a container
  EXPECT_EQ(Quota(), 0.5);
}

TEST_F(ControlGroups, OfVersion1HaveQuotasOfProcessorTime) {
  Mounted1();
  folder_.Write("proc/self/cgroup", "9:cpu,cpuacct:/batch/job\n7:memory:/other\n");
  EXPECT_EQ(Quota(), std::nullopt);
  Quota1("/batch/job", "-1", "100000");
  EXPECT_EQ(Quota(), std::nullopt);
  Quota1("/batch", "300000", "100000");
  EXPECT_EQ(Quota(), 3.0);
  Quota1("/batch/job", "25000", "50000");
  EXPECT_EQ(Quota(), 0.5);
}

TEST(Cores, AreTheProcessorsOrFewerByAQuota) {
  EXPECT_EQ(CoresWithin(64, std::nullopt), 64);
  EXPECT_EQ(CoresWithin(64, 2.0), 2);
  EXPECT_EQ(CoresWithin(64, 1.5), 2);
  EXPECT_EQ(CoresWithin(64, 0.1), 1);
  EXPECT_EQ(CoresWithin(2, 7.0), 2);
  EXPECT_EQ(CoresWithin(2, 1e18), 2);
}

}  // namespace
}  // namespace acan::cli
