// A broker, with or without keys, and clients that use TCP and share no memory with it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker_fixture.h"
#include "tuplespace/access.h"

namespace tuplespace {

class DirectFixture : public ::testing::TestWithParam<bool> {
 protected:
  DirectFixture() {
    BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
    if (GetParam()) {
      options.access = {broker_keys_, AllRoles(), {}};
      for (const auto& [name, keys] : keys_) {
        options.access->peers.push_back(
            {name, keys.public_key, name == "watcher" ? "watcher" : "all"});
      }
    }
    broker_ = std::make_unique<BrokerThread>(options);
  }
  // A role that may do everything, and one that may only read keys that begin with "open".
  static std::vector<Role> AllRoles() {
    const std::vector<Operation> all{Operation::kRead, Operation::kPut,      Operation::kPutTask,
                                     Operation::kGet,  Operation::kComplete, Operation::kRetire};
    return {{"all", {{all, {{FieldPattern::Any()}, true}, {}}}},
            {"watcher", {{{Operation::kRead}, {{FieldPattern::Exact("open")}, true}, {}}}}};
  }
  ClientOptions OptionsOf(const std::string& name, bool direct = true) const {
    ClientOptions options = ClientAt(broker_->endpoint());
    options.name = name;
    options.id = GetParam() ? name + "/1" : name;
    options.shared_memory = false;
    options.direct = direct;
    if (GetParam()) options.access = {name, keys_.at(name), broker_keys_.public_key};
    return options;
  }
  // A client that has joined, and that listens if `direct`.
  std::unique_ptr<Client> Make(const std::string& name, bool direct = true) const {
    auto client = std::make_unique<Client>(OptionsOf(name, direct));
    EXPECT_TRUE(client->GetStatistics(kGenerous));
    return client;
  }
  static Tuple Staying(const Key& key, std::uint64_t bytes) {
    Tuple tuple;
    tuple.key = key;
    tuple.resident_bytes = bytes;
    return tuple;
  }
  // Puts a tuple whose payload stays with `holder`.
  void Keep(Client& holder, const Key& key, const std::string& payload) {
    const Payload kept = Payload::Copy(payload);
    holder.OnAsked([this, kept, key](const Key& asked) {
      ++asked_;
      return asked == key ? kept : Payload();
    });
    const auto status = holder.Put({Staying(key, payload.size())}, kGenerous);
    ASSERT_TRUE(status && status->front() == PutStatus::kStored);
  }
  // Returns the result of a ReadDirectly by `reader` while the `others` are polled; nullopt: an
  // error, or too late.
  static std::optional<FoundTuple> Fetch(Client& reader, std::vector<Client*> others,
                                         std::vector<FoundTuple> wanted,
                                         std::int64_t wait_us = 60'000'000) {
    std::optional<ReplyBody> answer;
    reader.ReadDirectly(std::move(wanted), wait_us,
                        [&](ReplyBody&& reply) { answer = std::move(reply); });
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!answer && std::chrono::steady_clock::now() < deadline) {
      reader.Poll(std::chrono::milliseconds(1));
      for (Client* other : others) other->Poll(std::chrono::milliseconds(1));
    }
    const auto* found = answer ? std::get_if<Found>(&*answer) : nullptr;
    if (found == nullptr || found->tuples.empty()) return std::nullopt;
    return found->tuples.front();
  }
  static FoundTuple Named(const Key& key) {
    FoundTuple found;
    found.key = key;
    return found;
  }
  Stats StatsOf(Client& client) const { return *client.GetStatistics(kGenerous); }

  const KeyPair broker_keys_ = MakeKeyPair();
  const std::map<std::string, KeyPair> keys_{{"holder", MakeKeyPair()},
                                             {"reader", MakeKeyPair()},
                                             {"owner", MakeKeyPair()},
                                             {"thief", MakeKeyPair()},
                                             {"watcher", MakeKeyPair()}};
  std::unique_ptr<BrokerThread> broker_;
  int asked_ = 0;
};

inline std::string KeysOrNot(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "keys" : "clear";
}

}  // namespace tuplespace
