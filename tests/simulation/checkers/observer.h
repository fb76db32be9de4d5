// Observer: follows every request that a broker accepts and every answer that it gives, and tells
// the checkers, which have models of their own of leases, tuples and trust and say what contradicts
// what was promised. It is told of messages in the order in which the broker handled them; it never
// looks inside.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "checkers/check_context.h"
#include "checkers/lead_checker.h"
#include "checkers/lease_checker.h"
#include "checkers/trust_checker.h"
#include "checkers/tuple_checker.h"
#include "envelope.h"

namespace acan::simulation {

class Observer {
 public:
  Observer(Results& results, std::function<void(const std::string&)> report)
      : context_{std::move(report), nullptr}, tuples_(context_, results) {}
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // These clients have a key, and with it these limits; the others have none.
  void SetLimits(std::function<bool(const tuplespace::ClientId&)> have_key,
                 const tuplespace::ClientLimits& limits) {
    context_.have_key = std::move(have_key);
    context_.limits_of_key = limits;
  }
  void SetHostile(std::function<bool(const tuplespace::ClientId&)> is_hostile) {
    context_.is_hostile = std::move(is_hostile);
  }

  // Before the broker acts on it.
  void OnRequest(const tuplespace::ClientId& client, std::uint64_t session,
                 const tuplespace::Request& request);
  // One turn of the broker: `active` is whose requests it handled, "" if it was only time. Its
  // answers come in the order in which it was served; others were woken by that.
  void OnAnswers(
      const tuplespace::ClientId& active,
      const std::vector<std::pair<tuplespace::ClientId, const tuplespace::ToClient*>>& answers,
      std::int64_t now_us);
  // Its session has ended. What it asked for last may have been done: the answer went with it.
  void OnLost(const tuplespace::ClientId& client, std::int64_t now_us);
  // The broker has done all that was due by now.
  void OnTime(std::int64_t now_us) { trust_.OnTime(now_us); }

  // Whether the answers since the last call tell this client that it leads a job, or does not; if
  // they say nothing about that, nullopt.
  std::optional<bool> TakeLead(const tuplespace::ClientId& client) { return lead_.Take(client); }

  const TupleChecker& tuples() const { return tuples_; }
  const LeaseChecker& leases() const { return leases_; }

 private:
  struct Asked {
    std::variant<std::monostate, tuplespace::Put, tuplespace::Complete, tuplespace::Supply,
                 tuplespace::LeaseRef, tuplespace::Retire>
        what;  // payloads are dropped, see `hashes`
    std::vector<std::uint64_t> hashes;
    std::int64_t extend_us = -1;
  };
  static std::optional<Asked> Note(const tuplespace::RequestBody& body);
  void OnMessage(const tuplespace::ClientId& client, const tuplespace::BrokerMessage& message,
                 std::int64_t now_us);
  void OnWelcome(const tuplespace::ClientId& client, const tuplespace::Welcome& welcome,
                 std::int64_t now_us);
  void OnDone(const tuplespace::ClientId& client, tuplespace::RequestId id, std::int64_t now_us);
  void OnReply(const tuplespace::ClientId& client, const tuplespace::Reply& reply,
               std::int64_t now_us);
  void OnAnswer(const tuplespace::ClientId& client, const Asked& asked,
                const tuplespace::ReplyBody& body, std::int64_t now_us);
  void OnLeaseAnswer(const tuplespace::ClientId& client, const Asked& asked,
                     const tuplespace::LeaseRef& ref, tuplespace::LeaseStatus status,
                     std::int64_t now_us);
  void OnGrants(const tuplespace::ClientId& client, tuplespace::RequestId id,
                const tuplespace::Grants& grants, std::int64_t now_us);
  // Whose answers show that a Tick served it, as its requests had waited; else "".
  tuplespace::ClientId ServedLate(
      const std::vector<std::pair<tuplespace::ClientId, const tuplespace::ToClient*>>& answers)
      const;

  CheckContext context_;
  TupleChecker tuples_;
  LeaseChecker leases_{context_, tuples_};
  TrustChecker trust_{context_};
  LeadChecker lead_;
  std::map<std::pair<tuplespace::ClientId, tuplespace::RequestId>, Asked> asked_;
  std::set<std::pair<tuplespace::ClientId, tuplespace::RequestId>> late_;  // of earlier sessions
  // Asked in this session.
  std::map<tuplespace::ClientId, std::set<tuplespace::RequestId>> current_;
  std::map<tuplespace::ClientId, std::uint64_t> sessions_;
  std::map<tuplespace::ClientId, std::uint64_t> nonces_;  // of the latest Hello that was welcomed
};

}  // namespace acan::simulation
