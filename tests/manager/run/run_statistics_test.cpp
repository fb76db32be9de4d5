// RunStatistics with a real broker in this process.
#include "run_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "transfer/space_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;

class RunStatisticsTest : public SpaceTest {
 protected:
  static Job PerceptronJob() {
    Job job;
    job.perceptron().layers = {2, 2};
    return job;
  }
  static RunSettings Settings() {
    RunSettings settings;
    settings.endpoint = "inproc://space";
    return settings;
  }
  std::unique_ptr<tuplespace::Client> Join(const std::string& id) {
    return std::make_unique<tuplespace::Client>(tuplespace::ClientOptions{
        .endpoint = "inproc://space", .name = id, .id = id, .context = &context_});
  }
  static void PutAboutItself(tuplespace::Client& client, const tuplespace::Key& key,
                             const std::string& text) {
    client.Put(
        {{.key = key, .payload = tuplespace::Payload::Copy(text), .task = {}, .ephemeral = true}});
  }
  void Look() {
    statistics_->Look();
    while (statistics_->looking()) run_->client.Poll(std::chrono::milliseconds(10));
  }

  const Job job_ = PerceptronJob();
  const Data data_;
  std::unique_ptr<RunContext> run_ = std::make_unique<RunContext>(
      Settings(),
      tuplespace::ClientOptions{
          .endpoint = "inproc://space", .name = "manager", .id = {}, .context = &context_},
      job_, BuildModel(job_), data_);
  std::vector<HandlersSeen> seen_;
  std::unique_ptr<RunStatistics> statistics_ =
      std::make_unique<RunStatistics>(*run_, [this](const ManagerEvent& event) {
        if (const auto* handlers = std::get_if<HandlersSeen>(&event)) seen_.push_back(*handlers);
      });
};

TEST_F(RunStatisticsTest, FindHandlersAndWhatTheyReport) {
  const auto handler = Join("a"), other = Join("b");
  Capacity capacity;
  capacity.name = "the first";
  PutAboutItself(*handler, HandlerKey("a"), CapacityToJson(capacity));
  PutAboutItself(*other, HandlerKey("b"), std::string(1 << 20, '0'));
  for (const std::uint64_t peak : {50, 70}) {
    Report report;
    report.peak_bytes = peak;
    PutAboutItself(*handler, ReportKey("a", static_cast<std::int64_t>(peak)), ReportToJson(report));
    client_->RetireAll(ReportsBefore("a", static_cast<std::int64_t>(peak)), false);
    PutAboutItself(*other, ReportKey("b", static_cast<std::int64_t>(peak)),
                   std::string(1 << 20, '0'));
    Look();
    ASSERT_FALSE(seen_.empty());
    EXPECT_THAT(seen_.back().handlers, ElementsAre(::testing::Key("a")));
    EXPECT_EQ(statistics_->handlers().by_id().at("a").peak_bytes, peak);
  }
  EXPECT_EQ(statistics_->progress().handlers, 1);
}

TEST_F(RunStatisticsTest, TellHowFastHandlersAreNow) {
  const auto handler = Join("a");
  Capacity capacity;
  capacity.bytes_travel = true;
  PutAboutItself(*handler, HandlerKey("a"), CapacityToJson(capacity));
  Report report;
  report.speed = 0.25;
  PutAboutItself(*handler, ReportKey("a", 1), ReportToJson(report));
  Look();  // reports are read after the handlers
  Look();
  ASSERT_FALSE(seen_.empty());
  EXPECT_EQ(seen_.back().handlers.at("a").speed, 0.25);
}

TEST_F(RunStatisticsTest, GoOnWhereAnEarlierLifeEnded) {
  RunState past;
  past.handlers.by_id["gone"].tasks = 7;
  past.tasks_reissued = 5;
  past.tasks_duplicated = 3;
  statistics_->GoOnFrom(past);
  Look();
  const tuplespace::Key key{"task"};
  for (int i = 0; i < 2; ++i) PutAboutItself(*client_, key, "the same");  // a duplicate
  Look();
  EXPECT_EQ(statistics_->progress().reissued, 5u);
  EXPECT_EQ(statistics_->tasks_duplicated(), 4);
  EXPECT_EQ(statistics_->handlers().Totals().tasks(), 7);
}

}  // namespace
}  // namespace acan
