// The files that a job reads.
#include "acan/manager/job_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "test_files.h"

namespace acan {
namespace {

TEST(JobFiles, AreAllThatTheJobNames) {
  const TestFolder folder;
  const std::string samples = folder.Write("x.npy", "");
  std::filesystem::resize_file(samples, 5'000'000'000);  // has no blocks on the disk
  folder.Write("y.npy", "12345");
  const Job job = ParseJob(
      "[model]\nlayers = [4, 2]\ninitial_weights = \"w.safetensors\"\n"
      "[data]\ntrain_inputs = \"x.npy\"\ntrain_labels = \"y.npy\"\n",
      "job.toml", folder.path(), {});
  std::vector<std::string> keys;
  for (const JobFile& file : FilesOf(job)) keys.push_back(file.key);
  std::ranges::sort(keys);
  EXPECT_EQ(keys, (std::vector<std::string>{"data.train_inputs", "data.train_labels",
                                            "model.initial_weights"}));
  // The initial weights do not exist.
  EXPECT_EQ(BytesOf(FilesOf(job)), 5'000'000'005u);
}

}  // namespace
}  // namespace acan
