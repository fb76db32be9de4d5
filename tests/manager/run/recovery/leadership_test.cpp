// Leadership with a real broker in this process.
#include "acan/manager/leadership.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "acan/core/names.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

constexpr const char* kEndpoint = "inproc://leadership";

RunSettings Settings() {
  RunSettings settings;
  settings.endpoint = kEndpoint;
  return settings;
}

// The objects that lead a job, without a run.
struct Manager {
  Manager(tuplespace::ClientOptions client, const Job& job, const Data& data,
          RunSettings settings = Settings(), std::function<void()> alive = nullptr)
      : context(std::move(settings), std::move(client), job, BuildModel(job), data),
        stop(context.client, std::move(alive)) {}

  RunContext context;
  StopRequest stop;
  FolderClaim folder{context, nullptr};
  Leadership leadership{context, stop, folder};
};

class LeadershipTest : public ::testing::Test {
 protected:
  LeadershipTest() {
    tuplespace::BrokerOptions options;
    options.listen = {kEndpoint};
    options.context = &zmq_;
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    thread_ = std::thread([this] { broker_->Run(); });
    job_.perceptron().layers = {2, 2};
  }
  ~LeadershipTest() override {
    broker_->Stop();
    thread_.join();
    broker_.reset();
  }

  tuplespace::ClientOptions ClientNamed(const std::string& name) {
    return {.endpoint = kEndpoint, .name = name, .id = {}, .context = &zmq_};
  }

  zmq::context_t zmq_;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread thread_;
  Job job_;
  Data data_;
};

// The manager's requests may arrive after another manager has finished the job.
TEST_F(LeadershipTest, WhatAManagerPutsOrRetiresCountsOnlyWhileItLeads) {
  Manager manager(ClientNamed("manager"), job_, data_);
  RunContext& context = manager.context;
  Leadership& leadership = manager.leadership;
  leadership.Connect();
  leadership.Take();
  const auto put = [&](int step) {
    tuplespace::Tuple tuple;
    tuple.key = {context.run, step};
    return context.client.Put({tuple}).value().at(0);
  };
  tuplespace::Client other(ClientNamed("another manager"));
  tuplespace::Tuple kept;
  kept.key = {"of the other", 1};
  other.Put({kept});
  const auto retire = [&] {
    return context.client.RetireAll(tuplespace::Pattern::Of(kept.key), false);
  };
  EXPECT_EQ(put(1), tuplespace::PutStatus::kStored);
  EXPECT_TRUE(leadership.GiveUp());
  EXPECT_EQ(put(2), tuplespace::PutStatus::kRefused);
  EXPECT_EQ(retire(), 0u);
  leadership.Take();
  EXPECT_EQ(put(3), tuplespace::PutStatus::kStored);
  EXPECT_EQ(retire(), 1u);
}

// A manager whose connection breaks while it puts the name of its run repeats the Put when it is
// back. Another manager may lead by then and have looked for such names.
TEST_F(LeadershipTest, NoNameOfARunIsLeftWhenTheJobIsDone) {
  Manager manager(ClientNamed("manager"), job_, data_);
  RunContext& context = manager.context;
  Leadership& leadership = manager.leadership;
  leadership.Connect();
  leadership.Take();
  tuplespace::Client other(ClientNamed("another manager"));
  const auto put_run = [&](const std::string& job, const std::string& run) {
    tuplespace::Tuple tuple;
    tuple.key = RunKey(job, run);
    other.Put({tuple});
  };
  put_run(context.job_id, context.run);
  put_run(context.job_id, context.job_id + "-late");
  put_run("another-job", "another-job-1");
  EXPECT_TRUE(leadership.GiveUp());
  EXPECT_EQ(other.CountOf(AllRuns(context.job_id)), 0u);
  EXPECT_EQ(other.CountOf(AllRuns("another-job")), 1u);
}

// A manager may be stopped for longer than its lease, with an unread answer.
TEST_F(LeadershipTest, OnlyTheNewestAnswerConfirmsTheLead) {
  Manager manager(ClientNamed("manager"), job_, data_);
  RunContext& context = manager.context;
  Leadership& leadership = manager.leadership;
  leadership.Connect();
  leadership.Take();  // asks once
  tuplespace::Tuple after;
  after.key = {"asked once", 1};
  context.client.Submit(tuplespace::Put{{after}}, [](tuplespace::ReplyBody&&) {});
  context.client.Flush();
  tuplespace::Client other(ClientNamed("another manager"));
  ASSERT_FALSE(other.ReadAll({tuplespace::Pattern::Of(after.key)}).empty());
  ASSERT_EQ(other.RetireAll(tuplespace::Pattern::Of(LeaderKey(context.job_id)), false), 1u);
  EXPECT_THROW(leadership.Confirm(), RunLost);
}

// The broker retires nothing for a manager whose lead has ended, so it must lead again first.
TEST_F(LeadershipTest, AManagerHearsThatItsLeadEndedBeforeAllWasRemoved) {
  Manager manager(ClientNamed("manager"), job_, data_);
  RunContext& context = manager.context;
  Leadership& leadership = manager.leadership;
  leadership.Connect();
  leadership.Take();
  EXPECT_TRUE(leadership.GiveUp());
  tuplespace::Client other(ClientNamed("another manager"));
  tuplespace::Tuple run;
  run.key = RunKey(context.job_id, context.run);
  other.Put({run});
  EXPECT_FALSE(leadership.GiveUp());
  EXPECT_EQ(other.CountOf(AllRuns(context.job_id)), 1u);
  leadership.Take();
  EXPECT_TRUE(leadership.GiveUp());
  EXPECT_EQ(other.CountOf(AllRuns(context.job_id)), 0u);
}

TEST_F(LeadershipTest, ABrokerThatAdmitsNobodyForTheMomentIsThere) {
  constexpr const char* kBusyEndpoint = "inproc://leadership-busy";
  tuplespace::BrokerOptions options;
  options.listen = {kBusyEndpoint};
  options.context = &zmq_;
  options.limits.clients = 1;
  tuplespace::Broker broker(std::move(options));
  std::thread thread([&broker] { broker.Run(); });
  tuplespace::ClientOptions client = ClientNamed("the only client");
  client.endpoint = kBusyEndpoint;
  auto only = std::make_unique<tuplespace::Client>(client);
  only->CountOf(tuplespace::Pattern::Of({"anything", 1}));  // so it is admitted
  std::string log;
  RunSettings settings = Settings();
  settings.log = [&log](const std::string& line) { log += line + "\n"; };
  const std::int64_t begin_us = tuplespace::MonotonicUs();
  client.name = "manager";
  {
    Manager manager(client, job_, data_, settings, [&] {  // later than it says that nobody answers
      if (tuplespace::MonotonicUs() - begin_us > 4'000'000) only.reset();
    });
    manager.leadership.Connect();
  }
  broker.Stop();
  thread.join();
  EXPECT_NE(log.find("it admits no further client for the moment"), std::string::npos) << log;
  EXPECT_EQ(log.find("no broker answers"), std::string::npos) << log;
}

}  // namespace
}  // namespace acan
