// AuditTrail: whose results the weights may contain, and what a quarantine bars.
#include "audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "acan/core/names.h"
#include "acan/manager/contributors.h"
#include "test_files.h"
#include "tuplespace/broker.h"

namespace acan {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class AuditTrailTest : public ::testing::Test {
 protected:
  AuditTrail& Trail(double audit) {
    job_.model = Perceptron{{2, 2}};
    job_.tasks.audit = audit;
    trail_.reset();
    context_ = std::make_unique<RunContext>(
        RunSettings(),
        tuplespace::ClientOptions{.endpoint = "ipc:///nobody-is-there", .name = "test", .id = {}},
        job_, BuildModel(job_), data_);
    trail_ = std::make_unique<AuditTrail>(*context_, "", AuditTrail::Handlers(),
                                          [](const AuditTrail::Handlers&) {});
    return *trail_;
  }

  Job job_;
  Data data_;
  std::unique_ptr<RunContext> context_;
  std::unique_ptr<AuditTrail> trail_;
};

// A later life may have audits, and must know which snapshots depend on a handler that it finds.
TEST_F(AuditTrailTest, NamesAllContributorsWithoutAudits) {
  AuditTrail& trail = Trail(0);
  trail.OnContributors({"b", "a"});
  trail.OnContributors({"b"});
  EXPECT_THAT(trail.contributors(), ElementsAre("a", "b"));
  EXPECT_FALSE(trail.has_unnamed_contributors());
}

TEST_F(AuditTrailTest, NamesAllContributorsIfAShareIsAudited) {
  AuditTrail& trail = Trail(0.5);
  trail.OnContributors({"a"});
  EXPECT_THAT(trail.contributors(), ElementsAre("a"));
}

TEST_F(AuditTrailTest, NamesOnlyThoseOfEarlierLivesIfAllIsAudited) {
  AuditTrail& trail = Trail(1);
  RunState past;
  past.version = 3;
  past.contributors = {"earlier"};
  past.unnamed_contributors = true;
  trail.Begin(past);
  trail.OnContributors({"a"});
  EXPECT_THAT(trail.contributors(), ElementsAre("earlier"));
  EXPECT_TRUE(trail.has_unnamed_contributors());
}

// A handler has a new name after each restart, and every snapshot has the names.
TEST_F(AuditTrailTest, NamesALimitedNumberOfEachKey) {
  constexpr int kMany = 100'000;
  RunState past;  // of an earlier release, which had no limit with audits
  past.version = 3;
  for (int i = 0; i < kMany; ++i) past.contributors.push_back("old/" + std::to_string(i));
  for (const double audit : {0.0, 0.5}) {
    AuditTrail& trail = Trail(audit);
    trail.Begin(past);
    for (int i = 0; i < kMany; ++i) trail.OnContributors({"evil/" + std::to_string(i)});
    trail.OnContributors({"a/1", "without a key"});
    EXPECT_FALSE(trail.has_unnamed_contributors());
    EXPECT_THAT(trail.contributors(),
                ElementsAre("a/1", Contributors::AllClientsOf("evil/0"),
                            Contributors::AllClientsOf("old/0"), "without a key"));
  }
  EXPECT_THAT(Trail(0).contributors(), IsEmpty());
}

// ---- the quarantine, with a real broker in this process -----------------------------------------

constexpr const char* kTrailEndpoint = "inproc://audit-trail";

struct Life {
  Life(zmq::context_t* zmq, const Job& job, const Data& data, AuditTrail::Handlers quarantined = {})
      : context(Settings(),
                {.endpoint = kTrailEndpoint, .name = "manager", .id = {}, .context = zmq}, job,
                BuildModel(job), data),
        trail(context, "", std::move(quarantined),
              [this](const AuditTrail::Handlers& handlers) { kept = handlers; }) {}

  RunSettings Settings() {
    RunSettings settings;
    settings.endpoint = kTrailEndpoint;
    settings.log = [this](const std::string& line) { said.push_back(line); };
    return settings;
  }

  std::vector<std::string> said;
  AuditTrail::Handlers kept;  // what goes to quarantine.jsonl
  RunContext context;
  AuditTrail trail;
};

class QuarantineTest : public ::testing::Test {
 protected:
  QuarantineTest() {
    job_.model = Perceptron{{2, 2}};
    job_.tasks.audit = 1;
    tuplespace::BrokerOptions options;
    options.listen = {kTrailEndpoint};
    options.context = &zmq_;
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    thread_ = std::thread([this] { broker_->Run(); });
  }
  ~QuarantineTest() override {
    lives_.clear();
    broker_->Stop();
    thread_.join();
    broker_.reset();
  }

  Life& NewLife(AuditTrail::Handlers quarantined = {}) {
    lives_.push_back(std::make_unique<Life>(&zmq_, job_, data_, std::move(quarantined)));
    return *lives_.back();
  }
  static void Quarantine(Life& life, std::int64_t failures, const std::string& wrong,
                         const std::set<std::string>& present) {
    RunState past;
    past.failures = failures;
    life.trail.Begin(past);
    AuditVerdict verdict;
    verdict.wrong = {wrong};
    verdict.text = "a wrong result";
    EXPECT_THROW(life.trail.Quarantine(verdict, {}, present), HandlersWrong);
  }
  SnapshotFolder Snapshots(const Life& life) const {
    const RunContext& context = life.context;
    return {folder_.Path("snapshots"), context.job_id, context.model, context.OptimizerStates()};
  }
  void WriteSnapshot(const Life& life, std::int64_t version,
                     const std::vector<std::string>& contributors) const {
    RunState state;
    state.version = version;
    state.contributors = contributors;
    const std::unique_ptr<ModelWriter> writer = Snapshots(life).Begin(state);
    const RunContext& context = life.context;
    std::size_t index = 0;
    for (const TensorInfo& tensor : ModelTensors(*context.model, context.OptimizerStates())) {
      const std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols), 0.5F);
      writer->Write(index++, 0, 0, tensor.rows, tensor.cols, values);
    }
    writer->Finish();
  }

  zmq::context_t zmq_;
  TestFolder folder_;
  Job job_;
  Data data_;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread thread_;
  std::vector<std::unique_ptr<Life>> lives_;
};

// A key confirmed its own results. Then others came, and one of its clients was caught.
TEST_F(QuarantineTest, LaterLivesKnowWhichKeyIsInDoubt) {
  Life& first = NewLife();
  Quarantine(first, 3, "evil/0", {"evil/1", "a/0"});
  Life& standby = NewLife();
  const BarredSnapshots barred = standby.trail.FindQuarantined(nullptr, {});
  EXPECT_THAT(barred.wrong, ElementsAre("evil/0"));
  EXPECT_THAT(barred.in_doubt, ElementsAre(Pair("evil/", 3)));
  EXPECT_THAT(standby.trail.quarantined(), ElementsAre(Pair("evil/0", _)))
      << "its other clients get tasks";
  Quarantine(standby, 5, "evil/2", {"evil/1", "a/0"});
  EXPECT_THAT(NewLife().trail.FindQuarantined(nullptr, {}).in_doubt, ElementsAre(Pair("evil/", 5)));
  // At another broker only the file of the folder is left.
  standby.context.client.RetireAll(QuarantinedIn(standby.context.job_id), false);
  Life& resumed = NewLife();
  const BarredSnapshots recorded = resumed.trail.FindQuarantined(nullptr, first.kept);
  EXPECT_THAT(recorded.wrong, ElementsAre("evil/0"));
  EXPECT_THAT(recorded.in_doubt, ElementsAre(Pair("evil/", 3)));
  Receipt receipt;
  resumed.trail.Finish(&receipt);
  ASSERT_EQ(receipt.audits.quarantined.size(), 1u);
  EXPECT_EQ(receipt.audits.quarantined.front().id, "evil/0");
}

TEST_F(QuarantineTest, SnapshotsInDoubtAreRemoved) {
  Life& first = NewLife();
  WriteSnapshot(first, 1, {});
  WriteSnapshot(first, 2, {"evil/"});
  Quarantine(first, 0, "evil/0", {"evil/1", "a/0"});
  Life& next = NewLife();
  const SnapshotFolder snapshots = Snapshots(next);
  EXPECT_THAT(next.trail.FindQuarantined(&snapshots, {}).in_doubt,
              Contains(::testing::Key("evil/")));
  EXPECT_EQ(folder_.Names("snapshots").size(), 1u);
}

// The same handlers would compute everything again.
TEST_F(QuarantineTest, WhereAllHaveOneKeyItIsNotInDoubt) {
  Quarantine(NewLife(), 3, "lab/0", {"lab/1", "lab/2"});
  EXPECT_THAT(NewLife().trail.FindQuarantined(nullptr, {}).in_doubt, IsEmpty());
}

TEST_F(QuarantineTest, SnapshotsOfAKeyThatIsOutForItsNumberStay) {
  AuditTrail::Handlers many;
  for (int i = 0; i < 65; ++i) many.emplace("lab/" + std::to_string(i), "a wrong result");
  Life& life = NewLife(many);
  WriteSnapshot(life, 1, {"lab/"});
  WriteSnapshot(life, 2, {"lab/", "lab/3"});
  const SnapshotFolder snapshots = Snapshots(life);
  const BarredSnapshots barred = life.trail.FindQuarantined(&snapshots, {});
  EXPECT_THAT(life.trail.quarantined(), Contains(::testing::Key("lab/")));
  EXPECT_THAT(barred.wrong, Not(Contains("lab/")));
  EXPECT_EQ(folder_.Names("snapshots").size(), 1u) << "but that of a wrong handler is removed";
  EXPECT_THAT(life.said, Contains(HasSubstr("resume with a new broker")));
}

}  // namespace
}  // namespace acan
