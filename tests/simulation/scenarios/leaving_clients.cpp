#include "scenarios/leaving_clients.h"

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/access_roles.h"
#include "acan/core/names.h"
#include "access_list.h"
#include "broker_core.h"
#include "checkers/check_context.h"
#include "envelope.h"

namespace acan::simulation {
namespace {

using tuplespace::AccessList;
using tuplespace::AllowedPeer;
using tuplespace::BrokerCore;
using tuplespace::BrokerCoreOptions;
using tuplespace::ClientId;
using tuplespace::ClientMessage;
using tuplespace::LeaseRef;

constexpr const char* kTaskOwner = "manager";
constexpr const char* kOtherTaker = "handler";
constexpr const char* kUntriedKey = "untried";
constexpr const char* kTriedKey = "tried";
constexpr std::int64_t kLeavingTasks = 8;
constexpr std::int64_t kLeavingLeaseUs = 10'000'000;
constexpr std::int64_t kAlmostItsLeaseUs = 9'000'000;
constexpr std::int64_t kBeyondItsLeaseUs = 6'000'000;  // and after the time above
constexpr std::int64_t kNobodyIsSilentUs = 3'600'000'000;

class LeavingClients {
 public:
  std::string Run();

 private:
  static BrokerCoreOptions Options() {
    BrokerCoreOptions options;
    options.client_silence_us = kNobodyIsSilentUs;
    return options;
  }
  const AccessList::Entry* KeyOf(const ClientId& client) const;
  void Advance(std::int64_t duration_us);
  void Say(const ClientId& client, ClientMessage&& message);
  void Ask(const ClientId& client, tuplespace::RequestBody body);
  void Hear();
  void PutTasks();
  // Takes a task now; nullopt: it gets none.
  std::optional<LeaseRef> Take(const ClientId& client);
  void CompleteTask(const ClientId& client, const LeaseRef& lease);

  const std::string untried_ = std::string(40, '0');  // public keys
  const std::string tried_ = std::string(40, '1');
  const AccessList access_{AccessRoles(),
                           {AllowedPeer{kUntriedKey, untried_, kHandlerRole},
                            AllowedPeer{kTriedKey, tried_, kHandlerRole}}};
  BrokerCore core_{Options()};
  std::int64_t now_us_ = 1'000'000;
  std::map<ClientId, std::uint64_t> sessions_;
  tuplespace::RequestId next_request_ = 1;
  std::vector<LeaseRef> granted_;  // by the last Get
  int benches_ = 0;                // of which the owner of the tasks was told
};

const AccessList::Entry* LeavingClients::KeyOf(const ClientId& client) const {
  if (client.starts_with(tuplespace::ClientIdPrefix(kUntriedKey))) return access_.Find(untried_);
  if (client.starts_with(tuplespace::ClientIdPrefix(kTriedKey))) return access_.Find(tried_);
  return nullptr;
}

void LeavingClients::Advance(std::int64_t duration_us) {
  now_us_ += duration_us;
  core_.Tick(now_us_);
  Hear();
}

void LeavingClients::Say(const ClientId& client, ClientMessage&& message) {
  tuplespace::ToBroker envelope;
  envelope.session = sessions_[client];
  envelope.messages.push_back(std::move(message));
  core_.Receive(client, std::move(envelope), now_us_, KeyOf(client));
  Hear();
  Advance(1);
}

void LeavingClients::Ask(const ClientId& client, tuplespace::RequestBody body) {
  Say(client, tuplespace::Request{next_request_++, std::move(body)});
}

void LeavingClients::Hear() {
  while (core_.HasOutput()) {
    for (const BrokerCore::Delivery& delivery : core_.TakeOutput()) {
      for (const tuplespace::BrokerMessage& message : delivery.envelope.messages) {
        if (const auto* welcome = std::get_if<tuplespace::Welcome>(&message)) {
          sessions_[delivery.client] = welcome->session;
        } else if (const auto* notice = std::get_if<tuplespace::Notice>(&message)) {
          if (notice->text.find("receives no tasks") != std::string::npos) ++benches_;
        } else if (const auto* reply = std::get_if<tuplespace::Reply>(&message)) {
          const auto* grants = std::get_if<tuplespace::Grants>(&reply->body);
          if (grants == nullptr) continue;
          for (const auto& grant : grants->grants) granted_.push_back({grant.key, grant.fence});
        }
      }
    }
  }
}

void LeavingClients::PutTasks() {
  tuplespace::Put put;
  for (std::int64_t i = 0; i < kLeavingTasks; ++i) {
    tuplespace::Tuple& tuple = put.tuples.emplace_back();
    tuple.key = tuplespace::Key{"run", std::int64_t{0}, "task", "exact", i};
    tuple.task.emplace().lease_us = kLeavingLeaseUs;
    tuple.task->results.push_back(tuplespace::Key{"run", std::int64_t{0}, "loss", i});
  }
  Ask(kTaskOwner, std::move(put));
}

std::optional<LeaseRef> LeavingClients::Take(const ClientId& client) {
  granted_.clear();
  tuplespace::Get get;
  get.pattern = RunnableTasks(/*exact=*/true, /*fast=*/true);
  get.wait_us = 0;
  Ask(client, std::move(get));
  if (granted_.empty()) return std::nullopt;
  return granted_.front();
}

void LeavingClients::CompleteTask(const ClientId& client, const LeaseRef& lease) {
  tuplespace::Complete complete{lease, {}};
  complete.results.emplace_back().key = tuplespace::Key{
      "run", std::int64_t{0}, "loss", std::get<std::int64_t>(lease.key.Fields().back())};
  Ask(client, std::move(complete));
}

std::string LeavingClients::Run() {
  for (const char* client : {kTaskOwner, kOtherTaker}) Say(client, tuplespace::Hello{1, client});
  Take(kOtherTaker);  // there is none, but now the space knows that this client takes tasks
  PutTasks();
  for (std::uint32_t i = 0; i < kLimits.tasks_in_vain; ++i) {
    const ClientId client = tuplespace::ClientIdPrefix(kUntriedKey) + std::to_string(i);
    Say(client, tuplespace::Hello{1, client});
    if (!Take(client)) return client + " gets no task";
    Advance(kAlmostItsLeaseUs);
    Say(client, tuplespace::Bye{});
  }
  if (benches_ != 1) return "clients that have done nothing leave with tasks, and none is benched";
  const ClientId next = tuplespace::ClientIdPrefix(kUntriedKey) + "next";
  Say(next, tuplespace::Hello{1, next});
  if (Take(next)) return "the next client of a benched key gets a task at once";
  for (int i = 0; i < 2; ++i) {
    const ClientId client = tuplespace::ClientIdPrefix(kTriedKey) + std::to_string(i);
    Say(client, tuplespace::Hello{1, client});
    const std::optional<LeaseRef> first = Take(client);
    if (!first) return client + " gets no task";
    CompleteTask(client, *first);
    const std::optional<LeaseRef> kept = Take(client);
    if (!kept) return client + " gets no other task";
    Advance(kAlmostItsLeaseUs);
    Ask(client, tuplespace::Extend{*kept, kLeavingLeaseUs});
    Advance(kBeyondItsLeaseUs);
    Say(client, tuplespace::Bye{});
  }
  if (benches_ != 2) return "clients leave with tasks that they have kept on, and none is benched";
  return "";
}

}  // namespace

std::string RunLeavingClients() {
  return LeavingClients().Run();
}

}  // namespace acan::simulation
