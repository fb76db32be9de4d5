// Observer: follows every request that a broker accepts and every answer that it gives, and passes
// them to checkers. These have their own models of leases, tuples and trust, and report what
// contradicts the promises of the protocol. The observer sees the messages in the order in which
// the broker handled them. It never looks inside the broker.
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

  // `have_key` tells which clients have the key, to which these limits apply; others have no key.
  void SetLimits(std::function<bool(const tuplespace::ClientId&)> have_key,
                 const tuplespace::ClientLimits& limits) {
    context_.have_key = std::move(have_key);
    context_.limits_of_key = limits;
  }
  void SetHostile(std::function<bool(const tuplespace::ClientId&)> is_hostile) {
    context_.is_hostile = std::move(is_hostile);
  }
  void SetJudgedApart(std::function<bool(const tuplespace::Key&)> is_judged_apart) {
    context_.is_judged_apart = std::move(is_judged_apart);
  }

  // Call this before the broker handles the request.
  void OnRequest(const tuplespace::ClientId& client, std::uint64_t session,
                 const tuplespace::Request& request);
  // Reports one turn of the broker. `active` is the client whose requests it handled; "" if only
  // time has passed. The answers to `active` come in the order in which the broker served it; other
  // clients were woken by them.
  void OnAnswers(
      const tuplespace::ClientId& active,
      const std::vector<std::pair<tuplespace::ClientId, const tuplespace::ToClient*>>& answers,
      std::int64_t now_us);
  // The client's session has ended. Its last requests may have been done, with their answers lost.
  void OnLost(const tuplespace::ClientId& client, std::int64_t now_us);
  // The broker has done everything that was due.
  void OnTime(std::int64_t now_us) { trust_.OnTime(now_us); }

  // Returns whether the answers since the last call tell this client that it leads a job, or that
  // it does not; nullopt: they say nothing about that.
  std::optional<bool> TakeLead(const tuplespace::ClientId& client) { return lead_.Take(client); }

  const TupleChecker& tuples() const { return tuples_; }
  const LeaseChecker& leases() const { return leases_; }

 private:
  struct Asked {
    std::variant<std::monostate, tuplespace::Put, tuplespace::Complete, tuplespace::Supply,
                 tuplespace::LeaseRef, tuplespace::Retire>
        what;  // without payloads, see `hashes`
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
  // Returns the client that a Tick served because its requests had waited; "" if there is none.
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
  // Requests of the present session.
  std::map<tuplespace::ClientId, std::set<tuplespace::RequestId>> current_;
  std::map<tuplespace::ClientId, std::uint64_t> sessions_;
  std::map<tuplespace::ClientId, std::uint64_t> nonces_;  // of the latest Hello that was welcomed
};

}  // namespace acan::simulation
