// A job that is written as TOML or JSON and read again is the same.
#include <gtest/gtest.h>

#include "acan/core/text/size_text.h"
#include "acan/manager/job.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

const std::vector<std::string>& Jobs() {
  static const std::vector<std::string> jobs = {
      "[model]\nlayers = [4, 3]\n[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n",
      "[model]\nlayers = [4, 5, 3]\nactivation = \"clipped_relu\"\nclip_bound = 0.1\n"
      "initial_weights = \"w \\\"quoted\\\" \\u00e9.st\"\n"
      "[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\ntest_inputs = \"t\"\n"
      "test_labels = \"u\"\nshuffle = false\n"
      "[train]\noptimizer = \"adamw\"\nlearning_rate = 1\nepsilon = 1e-8\nbeta2 = 0.1\n"
      "schedule = \"cosine\"\nfinal_fraction = 1e-3\nstop_if_not_finite = false\n",
      "[model]\nlayers = [4, 3]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\nsamples = 9\n"
      "[train]\noptimizer = \"momentum\"\nmomentum = 0.30000000000000004\nschedule = \"step\"\n"
      "step_every = 10\nseed = 9223372036854775807\n"
      "[tasks]\nsize_bytes = 65536\npouch = 3\nbatch_rows = 64\ntimeout_ms = 5\n"
      "policy = \"gss\"\nrecompute = \"never\"\n"};
  return jobs;
}

TEST(JobTextTest, TomlAndJsonGiveTheSameJob) {
  for (const std::string& toml : Jobs()) {
    SCOPED_TRACE(toml);
    const Job job = ParseJob(toml, "job.toml", "/jobs", {});
    const nlohmann::json json = JobToJson(job);
    const Job again = ParseJob(JobToToml(job), "again", "/elsewhere", {});
    EXPECT_EQ(JobToJson(again).dump(), json.dump());
    EXPECT_EQ(again.training.learning_rate, job.training.learning_rate);
    EXPECT_EQ(again.training.momentum, job.training.momentum);
    EXPECT_EQ(again.perceptron().clip_bound, job.perceptron().clip_bound);
    EXPECT_EQ(again.initial_weights, job.initial_weights);
    EXPECT_EQ(again.training.seed, job.training.seed);
    EXPECT_EQ(again.tasks.policy, job.tasks.policy);
    EXPECT_EQ(again.tasks.recompute, job.tasks.recompute);
    EXPECT_EQ(again.stop_if_not_finite, job.stop_if_not_finite);
    const Job third = JobFromJson(nlohmann::json::parse(json.dump()), "receipt.json");
    EXPECT_EQ(JobToJson(third).dump(), json.dump());
  }
}

TEST(JobTextTest, JsonHasEveryDefault) {
  const nlohmann::json json = JobToJson(ParseJob(Jobs()[0], "job.toml", "/jobs", {}));
  EXPECT_EQ(json.at("train").at("batch"), 128);
  EXPECT_EQ(json.at("train").at("block"), 64);
  EXPECT_EQ(json.at("train").at("precision"), "exact");
  EXPECT_EQ(json.at("model").at("activation"), "relu");
  EXPECT_EQ(json.at("tasks").at("size_bytes"), "auto");
  EXPECT_EQ(json.at("data").at("train_labels"), "/jobs/y");
}

TEST(JobTextTest, JsonThatIsNoJobIsRefused) {
  using nlohmann::json;
  const json good = JobToJson(ParseJob(Jobs()[0], "job.toml", "/jobs", {}));
  const auto refused = [](const json& value, const std::vector<std::string>& parts) {
    SCOPED_TRACE(value.dump());
    ExpectError([&] { JobFromJson(value, "receipt.json"); }, parts);
  };
  refused(json(3), {"receipt.json", "must be an object"});
  json changed = good;
  changed["more"] = 1;
  refused(changed, {"unknown section 'more'"});
  changed = good;
  changed["train"] = 1;
  refused(changed, {"job.train must be an object"});
  changed = good;
  changed["train"]["batch"] = json::object();
  refused(changed, {"job.train.batch"});
  changed = good;
  changed["train"]["batch"] = -1;
  refused(changed, {"train.batch = -1"});
  changed = good;
  changed["train"]["b\natch"] = 1;
  refused(changed, {"unknown key"});
}

TEST(SizeTextTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(ParseSize("4096"), 4096u);
  EXPECT_EQ(ParseSize("4096B"), 4096u);
  EXPECT_EQ(ParseSize("64KiB"), 65536u);
  EXPECT_EQ(ParseSize("64 KiB"), 65536u);
  EXPECT_EQ(ParseSize("1.5GiB"), 1610612736u);
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("9223372036854775807"), 9223372036854775807u);
  EXPECT_EQ(ParseSize("2TiB"), std::uint64_t{2} << 40);
  for (const char* bad : {"", "KiB", "-1", "64KB", "64 kib", "1.5", "0.3B", "64KiB!", "1e3",
                          "99999999TiB", "nan", "inf", " 5", "0x10", "5 5"}) {
    EXPECT_FALSE(ParseSize(bad).has_value()) << bad;
  }
}

TEST(SizeTextTest, WritesWhatItReads) {
  EXPECT_EQ(SizeText(0), "0B");
  EXPECT_EQ(SizeText(65536), "64KiB");
  EXPECT_EQ(SizeText(1000), "1000B");
  for (const std::uint64_t bytes : {1ull, 1023ull, 1024ull, 1025ull, 3ull << 30, 5ull << 40}) {
    EXPECT_EQ(ParseSize(SizeText(bytes)), bytes);
  }
}

TEST(SizeTextTest, RoundsToFourDigits) {
  EXPECT_EQ(RoundedSizeText(0), "0B");
  EXPECT_EQ(RoundedSizeText(1000), "1000B");
  EXPECT_EQ(RoundedSizeText(65536), "64KiB");
  EXPECT_EQ(RoundedSizeText(378'148), "369.3KiB");
  EXPECT_EQ(RoundedSizeText(11'877'850ull << 10), "11.33GiB");
  EXPECT_EQ(RoundedSizeText(3ull << 40), "3TiB");
}

}  // namespace
}  // namespace acan
