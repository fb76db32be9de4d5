// Data that stays with a manager: handlers fetch it, or get it through the broker if they cannot,
// and it is removed when nobody needs it.
#include "acan/manager/kept_data.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "tuplespace/broker.h"

namespace acan {
namespace {

using tuplespace::Client;
using tuplespace::FoundTuple;
using tuplespace::Key;
using tuplespace::Pattern;
using tuplespace::Payload;
using tuplespace::PutStatus;
using tuplespace::ReplyBody;

constexpr std::chrono::seconds kGenerousWait{60};
const Key kBatch{"run", 1, "batch"};
const Key kLabels{"run", 1, "labels"};

class KeptDataTest : public ::testing::Test {
 protected:
  KeptDataTest() : broker_(Options()), thread_([this] { broker_.Run(); }) {
    Begin(manager_);
    manager_->OnNotice([this](tuplespace::Notice&& notice) { kept_->On(notice); });
    kept_ = std::make_unique<KeptData>(*manager_);
  }
  ~KeptDataTest() override {
    broker_.Stop();
    thread_.join();
  }
  static tuplespace::BrokerOptions Options() {
    tuplespace::BrokerOptions options;
    options.listen = {"tcp://127.0.0.1:*"};
    return options;
  }
  void Begin(std::unique_ptr<Client>& client) {
    tuplespace::ClientOptions options;
    options.endpoint = broker_.endpoints().front();
    options.shared_memory = false;
    options.direct = true;
    client = std::make_unique<Client>(options);
    ASSERT_TRUE(client->GetStatistics(kGenerousWait));
    ASSERT_TRUE(client->listens());
  }
  // Puts a batch and its labels; returns the statuses.
  std::vector<PutStatus> Put() {
    std::vector<tuplespace::Tuple> tuples(2);
    tuples[0].key = kBatch;
    tuples[0].payload = Payload::Copy(std::string(100'000, 'b'));
    tuples[1].key = kLabels;
    tuples[1].payload = Payload::Copy("labels");
    std::optional<ReplyBody> reply;
    kept_->Put(std::move(tuples), [&](ReplyBody&& answer) { reply = std::move(answer); });
    while (!reply) manager_->Poll(std::chrono::milliseconds(10));
    return std::get<tuplespace::PutReply>(*reply).status;
  }
  // Returns the result of `read` while the manager is polled.
  FoundTuple Await(Client& reader, const std::function<void(Client::ReplyHandler)>& read) {
    std::optional<ReplyBody> reply;
    read([&](ReplyBody&& answer) { reply = std::move(answer); });
    while (!reply) {
      reader.Poll(std::chrono::milliseconds(1));
      manager_->Poll(std::chrono::milliseconds(1));
    }
    return std::get<tuplespace::Found>(*reply).tuples.at(0);
  }

  tuplespace::Broker broker_;
  std::thread thread_;
  std::unique_ptr<Client> manager_;
  std::unique_ptr<KeptData> kept_;
};

TEST_F(KeptDataTest, HandlersFetchWhatIsLarge) {
  EXPECT_EQ(Put(), (std::vector<PutStatus>{PutStatus::kStored, PutStatus::kStored}));
  EXPECT_EQ(kept_->size(), 1u) << "labels are sent with a grant as soon";
  std::unique_ptr<Client> handler;
  Begin(handler);
  FoundTuple wanted;
  wanted.key = kBatch;
  const FoundTuple found = Await(*handler, [&](Client::ReplyHandler on_reply) {
    handler->ReadDirectly({wanted}, 60'000'000, std::move(on_reply));
  });
  EXPECT_EQ(found.payload.text(), std::string(100'000, 'b'));
  EXPECT_EQ(handler->direct_counts().fetched_bytes, 100'000u);
  EXPECT_EQ(manager_->GetStatistics()->counters.wanted, 0u);
}

TEST_F(KeptDataTest, WhoCannotFetchGetsItThroughTheBroker) {
  Put();
  std::unique_ptr<Client> reader;
  Begin(reader);
  const FoundTuple found = Await(*reader, [&](Client::ReplyHandler on_reply) {
    tuplespace::Read read{{Pattern::Of(kBatch)}};
    read.wait_us = 60'000'000;
    reader->Submit(std::move(read), std::move(on_reply));
  });
  EXPECT_EQ(found.payload.size(), 100'000u);
  while (kept_->size() > 0) manager_->Poll(std::chrono::milliseconds(1));
}

TEST_F(KeptDataTest, WhatIsRetiredOrThereAlreadyIsNotKept) {
  Put();
  ASSERT_TRUE(manager_->RetireAll(Pattern::Of(kBatch), /*watermark=*/false, kGenerousWait));
  while (kept_->size() > 0) manager_->Poll(std::chrono::milliseconds(1));
  std::unique_ptr<Client> other;
  Begin(other);
  tuplespace::Tuple tuple;
  tuple.key = kBatch;
  tuple.payload = Payload::Copy(std::string(100'000, 'b'));
  ASSERT_TRUE(other->Put({tuple}, kGenerousWait));
  EXPECT_EQ(Put()[0], PutStatus::kDuplicate);
  EXPECT_EQ(kept_->size(), 0u);
}

}  // namespace
}  // namespace acan
