// The fixture of the tests that kill processes of a training.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "disturbed_job.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {

inline constexpr int kSteps = 1090;

inline std::string HashOf(const Program& program) {
  const auto receipt = nlohmann::json::parse(LastLine(program.out()), nullptr, false);
  return receipt.is_object() ? receipt["weights_sha256"].get<std::string>() : program.err();
}

class KillTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TestFolder folder;
    const Result result = RunAcan({"train", WriteDisturbedJob(folder, "job.toml", 20), "--handlers",
                                   "cpu:1", "--out", folder / "out", "--json"});
    undisturbed_ = nlohmann::json::parse(LastLine(result.out))["weights_sha256"];
    undisturbed_receipt_ = ReadFile(folder / "out/receipt.json");
  }
  std::vector<std::string> TrainWords() const {
    return {"train", job_, "--handlers", "2xcpu:1@4MiB", "--out", out_, "--json"};
  }
  std::vector<std::string> ManagerWords(const std::vector<std::string>& more = {}) const {
    return ManagerWordsFor(out_, more);
  }
  std::vector<std::string> ManagerWordsFor(const std::string& out,
                                           const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"manager", "--connect", endpoint_, job_,
                                      "--out",   out,         "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> HandlerWords() const {
    return {"handler", "--connect", endpoint_, "--device", "cpu:1", "--memory", "4MiB"};
  }
  // Checks that each step has its line in the metrics, once and in order.
  void ExpectWholeMetrics() const { EXPECT_EQ(StepsIn(out_), kSteps); }
  // The lines of the metrics in this folder.
  static std::vector<nlohmann::json> MetricsIn(const std::string& out) {
    std::vector<nlohmann::json> metrics;
    std::istringstream lines(ReadFile(out + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      metrics.push_back(nlohmann::json::parse(line));
    }
    return metrics;
  }
  // Returns one more than the last step in the metrics. REQUIRES: the first line is that of step
  // `next`.
  static int StepsIn(const std::string& out, int next = 0) {
    for (const nlohmann::json& line : MetricsIn(out)) {
      if (!line.contains("loss")) continue;
      EXPECT_EQ(line.at("step"), next++);
    }
    return next;
  }
  // The step after which a manager said that it continued; -1: it did not say so.
  static int BeganAfter(const std::string& err, const std::string& from) {
    const std::string text = "after step ";
    const std::size_t line = err.find("continuing from " + from);
    if (line == std::string::npos) return -1;
    return std::stoi(err.substr(err.find(text, line) + text.size()));
  }

  inline static std::string undisturbed_;          // the weights' hash
  inline static std::string undisturbed_receipt_;  // the file's text
  TestFolder folder_;
  std::string job_ = WriteDisturbedJob(folder_, "job.toml", 20);
  std::string out_ = folder_ / "out";
  std::string endpoint_ = "ipc://" + (folder_ / "space");
};

}  // namespace acan::testing
