// Metrics are written and read back, and missing steps are detected.
#include "acan/manager/metrics_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "descriptor_limit.h"
#include "file_size_limit.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

using nlohmann::json;

TEST(MetricsLogTest, ALineAStepReadableAtOnce) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  log.Step({7, 1, 0.5, 0.1, 1000.0, 2, 3});
  EXPECT_EQ(json::parse(ReadWhole(path)),
            json::parse(R"({"step": 7, "epoch": 1, "loss": 0.5, "learning_rate": 0.1,
                            "samples_per_s": 1000.0, "handlers": 2, "reissued": 3})"));
  log.Step({8, 1, std::numeric_limits<double>::infinity(), 0.1, 1000.0, 2, 3});
  log.Evaluation({8, 1, 0.25, 0.75});
  log.Step({9, 1, 0.5, 0.1, 1000.0, 2, 3, 1.5});
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_FALSE(json::parse(line).contains("grad_norm"));
  std::getline(file, line);
  EXPECT_TRUE(json::parse(line).at("loss").is_null());
  std::getline(file, line);
  EXPECT_EQ(json::parse(line),
            json::parse(R"({"step": 8, "epoch": 1, "test_loss": 0.25, "test_accuracy": 0.75})"));
  std::getline(file, line);
  EXPECT_EQ(json::parse(line).at("grad_norm"), 1.5);
}

TEST(MetricsLogTest, BeginsAnewOrGoesOn) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  {
    MetricsLog log(path);
    for (std::int64_t step = 0; step < 5; ++step) log.Step({step, 0, 1.0, 0.1, 1.0, 1, 0});
  }
  const std::string all = ReadWhole(path);
  folder.Write("metrics.jsonl", all + "{\"step\": 5, \"ep");
  { MetricsLog log(path, 6); }
  EXPECT_EQ(ReadWhole(path), all) << "the torn line is cut off";
  {
    MetricsLog log(path, 3);
    log.Step({3, 0, 2.0, 0.1, 1.0, 1, 0});
  }
  std::ifstream file(path);
  std::vector<double> losses;
  for (std::string line; std::getline(file, line);) losses.push_back(json::parse(line)["loss"]);
  EXPECT_EQ(losses, (std::vector<double>{1, 1, 1, 2}));
  { MetricsLog log(path); }
  EXPECT_EQ(ReadWhole(path), "");
}

// Whatever happened to the file, a later run knows which steps are missing in it.
TEST(MetricsLogTest, KnowsWhichStepsAreMissing) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  const auto line = [](std::int64_t step) {
    return json{{"step", step}, {"loss", 1.0}, {"learning_rate", 0.1}}.dump() + "\n";
  };
  const auto missing = [&](const std::string& bytes, std::int64_t first_step) {
    folder.Write("metrics.jsonl", bytes);
    const MetricsLog log(path, first_step);
    return RangesText(log.missing());
  };
  const std::string whole = line(0) + line(1) + line(2) + line(3) + line(4);
  EXPECT_EQ(missing(whole, 5), "");
  EXPECT_EQ(missing(whole, 3), "");
  EXPECT_EQ(missing(whole, 6), "5");
  EXPECT_EQ(missing(whole.substr(0, whole.size() - 1), 5), "4") << "it is torn";
  EXPECT_EQ(missing("", 1000), "0 to 999");
  EXPECT_EQ(missing(line(0) + "{\"step\": 1, \"lo\x01\n" + line(2), 3), "1");
  EXPECT_EQ(ReadWhole(path), line(0) + line(2)) << "what is whole stays";
  EXPECT_EQ(missing(line(0) + std::string(1 << 17, ' ') + line(1) + line(2), 3), "1")
      << "no line of a run is so long";
  EXPECT_EQ(ReadWhole(path), line(0) + line(2));
  EXPECT_EQ(missing(line(2) + line(1) + line(4), 9), "0 to 1, 3 and 5 to 8");
  EXPECT_EQ(missing(line(1) + line(3) + line(5) + line(7) + line(9), 20), "0, 2, 4 and 3 more");
  std::filesystem::remove(path);
  EXPECT_EQ(RangesText(MetricsLog(path, 7).missing()), "0 to 6");
  EXPECT_EQ(RangesText(MetricsLog(path).missing()), "") << "a new one lacks nothing";
}

// Like logrotate with copytruncate: the inode stays the same.
TEST(MetricsLogTest, WhatIsCutWhileItIsWrittenIsMissing) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  std::int64_t next = 0;
  const auto write = [&](int steps) {
    for (int i = 0; i < steps; ++i) log.Step({next++, 0, 1.0, 0.1, 1.0, 1, 0});
  };
  write(3);
  EXPECT_FALSE(log.TakeCut());
  std::filesystem::resize_file(path, 0);
  write(2);
  EXPECT_TRUE(log.TakeCut());
  EXPECT_FALSE(log.TakeCut());
  EXPECT_EQ(RangesText(log.missing()), "0 to 2");
  EXPECT_EQ(log.WhereItLeads(), MetricsLog::Leads::kHere);
  // In the middle of the line of step 4; the line of step 5 must be complete.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  write(1);
  EXPECT_EQ(RangesText(log.missing()), "0 to 2 and 4");
  EXPECT_EQ(RangesText(MetricsLog(path, next).missing()), "0 to 2 and 4");
}

// Otherwise an empty file would take its place.
TEST(MetricsLogTest, AFileThatCannotBeReadIsNotTakenForAnEmptyOne) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  for (MetricsLog log(path); log.lines().bytes() < 200;) log.Step({0, 0, 1.0, 0.1, 1.0, 1, 0});
  const std::string before = ReadWhole(path);
  {
    const DescriptorLimit for_the_copy(1);
    ExpectError([&] { MetricsCopy(path, {.first_step = 3}); }, {path, "Too many open files"},
                Error::Kind::kFailure);
    ExpectError(
        [&] {
          const DescriptorLimit none;
          CountSteps(path, {});
        },
        {path, "Too many open files"}, Error::Kind::kFailure);
  }
  EXPECT_EQ(ReadWhole(path), before);
}

TEST(MetricsLogTest, WhatIsCutAfterTheLastLineIsMissing) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  log.Step({0, 0, 1.0, 0.1, 1.0, 1, 0});
  log.LookForCut();
  EXPECT_FALSE(log.TakeCut());
  std::filesystem::resize_file(path, 0);
  log.LookForCut();
  EXPECT_TRUE(log.TakeCut());
  EXPECT_EQ(RangesText(log.missing()), "0");
}

TEST(MetricsLogTest, KnowsTheFirstLossThatWasNotFinite) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  const double none = std::numeric_limits<double>::quiet_NaN();
  {
    MetricsLog log(path);
    log.Step({0, 0, 1.0, 0.1, 1.0, 1, 0});
    log.Evaluation({1, 0, none, std::nullopt});
    log.Step({1, 0, none, 0.25, 1.0, 1, 0});
    log.Step({2, 0, none, 0.5, 1.0, 1, 0});
  }
  EXPECT_FALSE(MetricsLog(path, 3).first_not_finite() == std::nullopt);
  EXPECT_EQ(MetricsLog(path, 3).first_not_finite()->step, 1);
  EXPECT_EQ(MetricsLog(path, 3).first_not_finite()->learning_rate, 0.25);
  EXPECT_FALSE(MetricsLog(path, 1).first_not_finite()) << "that step is done anew";
}

TEST(MetricsLogTest, LinesFromElsewhereFillWhatTheFileLacks) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  const auto line = [](int step, const char* from) {
    return "{\"step\":" + std::to_string(step) + ",\"loss\":1,\"from\":\"" + from + "\"}\n";
  };
  const std::string file = line(0, "file") + line(1, "file") + line(2, "file") + line(7, "file");
  const MetricsLines carried = {{2, "{\"step\":2,\"test_loss\":1}\n" + line(2, "space")},
                                {3, line(3, "space")},
                                {5, line(5, "space")},
                                {6, line(6, "space")}};
  folder.Write("metrics.jsonl", file);
  {
    const MetricsLog log(MetricsCopy(path, {.first_step = 6, .carried = carried}));
    EXPECT_EQ(RangesText(log.missing()), "4");
  }
  EXPECT_EQ(ReadWhole(path),
            line(0, "file") + line(1, "file") + carried.at(2) + carried.at(3) + carried.at(5));
  folder.Write("metrics.jsonl", file);
  {
    const MetricsLog log(
        MetricsCopy(path, {.first_step = 4, .carried = carried, .keep_file = false}));
    EXPECT_EQ(RangesText(log.missing()), "0 to 1");
  }
  EXPECT_EQ(ReadWhole(path), carried.at(2) + carried.at(3)) << "the file was of another run";
  EXPECT_EQ(LastLines(path, 1 << 20), (MetricsLines{{2, carried.at(2)}, {3, carried.at(3)}}));
  EXPECT_EQ(LastLines(path, carried.at(3).size() + 45), (MetricsLines{{3, carried.at(3)}}));
}

// The lines of months: the manager keeps its lead meanwhile, and may lose it.
TEST(MetricsLogTest, LongFilesCanBeGoneOnWithOrEnded) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  std::string whole;
  std::int64_t steps = 0;
  for (; whole.size() < (3 << 20) + 1000; ++steps) {
    whole += json{{"step", steps}, {"loss", 0.25}, {"more", 1234567}}.dump() + "\n";
  }
  folder.Write("metrics.jsonl", whole);
  int calls = 0;
  const auto count = [&calls] { ++calls; };
  const StepsInFile in = CountSteps(path, count);
  EXPECT_EQ(in.steps, steps);
  EXPECT_EQ(in.last_loss, 0.25);
  EXPECT_GE(calls, 3);
  calls = 0;
  {
    const MetricsCopy copy(path, {.first_step = steps}, count);
    EXPECT_GE(calls, 3);
    EXPECT_EQ(folder.FileCount(), 2u);
  }
  EXPECT_EQ(folder.FileCount(), 1u) << "the lead was lost";
  struct Ended {};
  EXPECT_THROW(MetricsCopy(path, {.first_step = steps}, [] { throw Ended{}; }), Ended);
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(ReadWhole(path), whole);
  const MetricsLog log(MetricsCopy(path, {.first_step = steps}));
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(ReadWhole(path), whole);
  EXPECT_TRUE(log.missing().empty());
}

TEST(MetricsLogTest, StepsCountUpToTheFirstThatHasNoWholeLine) {
  const TestFolder folder;
  const auto count = [&](const std::string& bytes) {
    return CountSteps(folder.Write("metrics.jsonl", bytes), {});
  };
  const std::string first = "{\"step\":0,\"loss\":1.5}\n{\"step\":1,\"test_loss\":9}\n";
  EXPECT_EQ(count("").steps, 0);
  EXPECT_FALSE(count("").last_loss);
  EXPECT_EQ(count(first + "{\"step\":1,\"loss\":null}\n{\"step\":2,\"loss\":3}").steps, 2);
  EXPECT_EQ(count(first).last_loss, 1.5);
  EXPECT_FALSE(count(first + "{\"step\":1,\"loss\":null}\n").last_loss);
  EXPECT_EQ(count(first + "\n{\"step\":2,\"loss\":3}\n").steps, 1);
  EXPECT_EQ(CountSteps(folder.Path("none"), {}).steps, 0);
}

// As LinesByStep should read the line; nullopt: it has no step.
std::optional<std::uint64_t> StepByJsonLibrary(const std::string& text) {
  const json value = json::parse(text, nullptr, false);
  if (!value.is_object() || !value.contains("step")) return std::nullopt;
  if (!value["step"].is_number_unsigned()) return std::nullopt;
  if (!value.contains("loss") && !value.contains("test_loss")) return std::nullopt;
  const json& loss = value[value.contains("loss") ? "loss" : "test_loss"];
  if (!loss.is_number() && !loss.is_null()) return std::nullopt;
  const auto step = value["step"].get<std::uint64_t>();
  return step <= INT64_MAX ? std::optional(step) : std::nullopt;
}

// Lines that are almost metrics, and metrics that are written in another way.
std::vector<std::string> OddLines() {
  std::vector<std::string> lines = {R"({"loss":null,"step":3})",
                                    R"({ "loss":1,"step":3})",
                                    R"({"loss":1,"step":3} )",
                                    R"({"test_loss":1,"step":3})",
                                    R"({"loss":1,"step":3}})",
                                    R"({"loss":1,"step":3,})",
                                    R"({"loss":1,"loss":"a","step":3})",
                                    R"({"loss":1,"step":4,"step":3})",
                                    R"({"loss":1,"lo\u0073s":"a","step":3})",
                                    R"({"loss":1,"more":[{}],"step":3})",
                                    R"({"loss":1,"step":3,"step":null})",
                                    R"({"step":3})",
                                    R"({})",
                                    R"([])"};
  for (const char* number : {"0",
                             "-0",
                             "7",
                             "-7",
                             "07",
                             "+7",
                             "7.",
                             ".7",
                             "7.0",
                             "1e2",
                             "1e",
                             "1e+",
                             "1E-2",
                             "1e400",
                             "-1e400",
                             "1e-400",
                             "5e-324",
                             "1e-310",
                             "0x7",
                             "inf",
                             "nan",
                             "nul",
                             "null",
                             "nulll",
                             "",
                             "-",
                             "18446744073709551615",
                             "18446744073709551616",
                             "9223372036854775807",
                             "9223372036854775808",
                             "1_0"}) {
    lines.push_back(std::string(R"({"loss":1,"step":)") + number + "}");
    lines.push_back(std::string(R"({"loss":)") + number + R"(,"step":3})");
    lines.push_back(std::string(R"({"a_b":)") + number + R"(,"loss":1,"step":3})");
  }
  return lines;
}

// Lines in the form of this class are read without the JSON library, which must not show.
TEST(MetricsLogTest, AcceptsTheLinesThatTheJsonLibraryAccepts) {
  const std::vector<std::string> lines = OddLines();
  std::size_t accepted = 0;
  for (const std::string& line : lines) {
    const std::optional<std::uint64_t> step = StepByJsonLibrary(line);
    MetricsLines expected;
    if (step) expected[static_cast<std::int64_t>(*step)] = line + "\n";
    EXPECT_EQ(LinesByStep(line), expected) << line;
    accepted += expected.size();
  }
  EXPECT_GE(accepted, 20u);
  EXPECT_LE(accepted, lines.size() - 20);
}

TEST(MetricsLogTest, KnowsThatAnotherOneWasBegun) {
  TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  EXPECT_EQ(log.WhereItLeads(), MetricsLog::Leads::kHere);
  const MetricsLog successor(path);
  EXPECT_EQ(log.WhereItLeads(), MetricsLog::Leads::kElsewhere);
  EXPECT_EQ(successor.WhereItLeads(), MetricsLog::Leads::kHere);
  EXPECT_EQ(log.PresentPath(), "") << "there is another one";
  EXPECT_EQ(successor.PresentPath(), std::filesystem::canonical(path));
  const std::string moved = folder.Path("moved.jsonl");
  std::filesystem::rename(path, moved);
  EXPECT_EQ(successor.WhereItLeads(), MetricsLog::Leads::kNowhere);
  EXPECT_EQ(successor.PresentPath(), std::filesystem::canonical(moved));
  // So clients of file servers remove a file that is open.
  for (const char* name : {".nfs0000000000000007", ".fuse_hidden00000007"}) {
    std::filesystem::rename(moved, folder.Path(name));
    EXPECT_EQ(successor.PresentPath(), "");
    std::filesystem::rename(folder.Path(name), moved);
  }
  std::filesystem::remove(moved);
  EXPECT_EQ(successor.PresentPath(), "");
}

TEST(MetricsLogTest, LinesOfAFullDiskWaitAndAreContinued) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  std::string all;
  for (std::int64_t step = 0; step < 2; ++step) all += log.Step({step, 0, 1.0, 0.1, 1.0, 1, 0});
  {
    const FileSizeLimit limit(all.size() + 5);
    for (std::int64_t step = 2; step < 4; ++step) all += log.Step({step, 0, 1.0, 0.1, 1.0, 1, 0});
    EXPECT_EQ(log.lines().Problem().find("File too large"), 0u);
    // No snapshot may be visible without the lines of its steps.
    ExpectError([&] { log.Sync(); }, {path, "cannot write", "File too large"},
                Error::Kind::kFailure);
  }
  EXPECT_EQ(ReadWhole(path), all.substr(0, all.size() / 2 + 5)) << "a part of the third";
  all += log.Step({4, 0, 1.0, 0.1, 1.0, 1, 0});
  EXPECT_EQ(ReadWhole(path), all);
  EXPECT_EQ(log.lines().Problem(), "");
  log.Sync();
  EXPECT_FALSE(log.TakeCut());
  EXPECT_TRUE(log.missing().empty());
}

TEST(MetricsLogTest, LinesThatWaitAreNotLostWhereTheFileIsCut) {
  const TestFolder folder;
  const std::string path = folder.Path("metrics.jsonl");
  MetricsLog log(path);
  const std::string first = log.Step({0, 0, 1.0, 0.1, 1.0, 1, 0});
  std::string second;
  {
    const FileSizeLimit limit(first.size() + 5);
    second = log.Step({1, 0, 1.0, 0.1, 1.0, 1, 0});
  }
  std::filesystem::resize_file(path, 3);
  const std::string third = log.Step({2, 0, 1.0, 0.1, 1.0, 1, 0});
  EXPECT_TRUE(log.TakeCut());
  EXPECT_EQ(RangesText(log.missing()), "0");
  EXPECT_EQ(ReadWhole(path), second + third);
}

TEST(MetricsLogTest, FullDisksAreNamed) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  MetricsLog log("/dev/full");
  log.Step({});
  EXPECT_EQ(log.lines().Problem(), "No space left on device");
  ExpectError([&] { log.lines().CheckWritten(); }, {"/dev/full", "No space left on device"},
              Error::Kind::kFailure);
  // A run that continued after this would finally fill the memory.
  const std::string line(1 << 20, 'x');
  const auto add_too_many = [&] {
    for (std::size_t bytes = 0; bytes <= LineFile::kMaxWaitingBytes; bytes += line.size()) {
      log.lines().Add(line);
    }
  };
  ExpectError(add_too_many, {"/dev/full", "No space left on device"}, Error::Kind::kFailure);
  const TestFolder folder;
  ExpectError([&] { MetricsLog(folder.Path("no/m.jsonl")); }, {"no/m.jsonl"},
              Error::Kind::kFailure);
}

}  // namespace
}  // namespace acan
