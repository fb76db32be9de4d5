// SpaceActions with a real broker in this process.
#include "space_actions.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Pattern;

constexpr const char* kSpaceEndpoint = "inproc://space-actions";

class SpaceActionsTest : public ::testing::Test {
 protected:
  SpaceActionsTest() {
    leadership_.Connect();
    leadership_.Take();
  }

  static Job TinyJob() {
    Job job;
    job.perceptron().layers = {2, 2};
    return job;
  }
  tuplespace::ClientOptions ClientNamed(const std::string& name) {
    return {.endpoint = kSpaceEndpoint, .name = name, .id = {}, .context = &broker_.zmq};
  }
  static RunSettings SettingsOfTest() {
    RunSettings settings;
    settings.endpoint = kSpaceEndpoint;
    return settings;
  }

  struct RunningBroker {
    RunningBroker() {
      tuplespace::BrokerOptions options;
      options.listen = {kSpaceEndpoint};
      options.context = &zmq;
      broker = std::make_unique<tuplespace::Broker>(std::move(options));
      thread = std::thread([this] { broker->Run(); });
    }
    ~RunningBroker() {
      broker->Stop();
      thread.join();
      broker.reset();
    }
    zmq::context_t zmq;
    std::unique_ptr<tuplespace::Broker> broker;
    std::thread thread;
  };

  RunningBroker broker_;
  Job job_ = TinyJob();
  Data data_;
  RunContext context_{SettingsOfTest(), ClientNamed("manager"), job_, BuildModel(job_), data_};
  StopRequest stop_{context_.client, nullptr};
  FolderClaim folder_{context_, nullptr};
  Leadership leadership_{context_, stop_, folder_};
  std::vector<ManagerEvent> posted_;
  RunStatistics statistics_{context_, [](ManagerEvent) {}};
  AuditTrail audits_{context_, "", {}, [](const AuditTrail::Handlers&) {}};
  SpaceActions space_{context_, leadership_, statistics_, audits_,
                      [this](ManagerEvent event) { posted_.push_back(std::move(event)); }};
};

PutVote VoteNumber(int number) {
  PutVote put;
  put.vote.audit = 1;
  PlannedTask& task = put.vote.task;
  task.key = Key{"run", 5, "task", "exact", "audit", 1, number};
  task.task.buffers = {{4, 4}};
  task.task.outputs.push_back({Key{"run", 5, "audit", 1, number, 0}, {0, 0, 0, 4, 4}, false});
  return put;
}

// Such an answer must not count for the next vote of the same case; nobody could then cancel that
// vote's Read.
TEST_F(SpaceActionsTest, ALateAnswerToADroppedVoteLeavesTheNextVoteAlone) {
  const PutVote first = VoteNumber(1), second = VoteNumber(2);
  space_.Do(first);
  context_.client.Flush();
  tuplespace::Client other(ClientNamed("handler"));
  ASSERT_TRUE(other.ReadOne(Pattern::Of(first.vote.task.key)));  // so the Read arrives soon, too
  tuplespace::Tuple result;
  result.key = first.vote.task.task.outputs[0].key;
  other.Put({result});
  space_.Do(DropVote{1, first.vote.task.key});
  space_.Do(second);
  while (posted_.empty()) context_.client.Poll(std::chrono::milliseconds(10));
  ASSERT_TRUE(std::holds_alternative<VoteDone>(posted_.front()));
  space_.Do(DropVote{1, second.vote.task.key});
  context_.client.CountOf(Pattern::Of(first.vote.task.key));  // answers earlier requests
  EXPECT_EQ(context_.client.unanswered(), 0u);
}

// As a handler with faulty memory may put it.
TEST_F(SpaceActionsTest, ALossThatIsDamagedIsComputedAgainAFewTimes) {
  tuplespace::Client other(ClientNamed("handler"));
  tuplespace::Tuple loss;
  loss.key = Key{"run", 5, "loss"};
  loss.payload = tuplespace::Payload::Copy("loss").WithHash(
      tuplespace::HashOf(tuplespace::Payload::Copy("others").bytes()));
  ASSERT_TRUE(other.Put({loss}));
  const ReadLosses read{1, 0, {loss.key}};
  for (std::size_t times = 1; times <= 2; ++times) {
    space_.Do(read);
    while (posted_.size() < times) context_.client.Poll(std::chrono::milliseconds(10));
    const auto* lost = std::get_if<ResultsLost>(&posted_.back());
    ASSERT_NE(lost, nullptr);
    EXPECT_NE(lost->why.find(other.id()), std::string::npos) << lost->why;
  }
  space_.Do(read);
  const auto await = [this] {
    while (posted_.size() == 2) context_.client.Poll(std::chrono::milliseconds(10));
  };
  EXPECT_THROW(await(), tuplespace::SpaceError);
}

}  // namespace
}  // namespace acan
