#include "checkers/observer.h"

#include "fmt/format.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

constexpr const char* kCountsAsFailed = "counts as failed";

// The tuples without their bytes, because the tuples themselves go to the broker.
std::vector<Tuple> Outlines(const std::vector<Tuple>& tuples) {
  std::vector<Tuple> outlines;
  for (const Tuple& tuple : tuples) {
    Tuple outline;
    outline.key = tuple.key;
    outline.ephemeral = tuple.ephemeral;
    outline.resident_bytes = tuple.resident_bytes;
    if (tuple.task) {
      outline.task.emplace();
      outline.task->need_bytes = tuple.task->need_bytes;
      outline.task->lease_us = tuple.task->lease_us;
      outline.task->not_by = tuple.task->not_by;
      outline.task->inputs = tuple.task->inputs;
      outline.task->results = tuple.task->results;
      outline.task->due = tuple.task->due;
    }
    outlines.push_back(std::move(outline));
  }
  return outlines;
}

std::vector<std::uint64_t> Hashes(const std::vector<Tuple>& tuples) {
  std::vector<std::uint64_t> hashes;
  for (const Tuple& tuple : tuples) hashes.push_back(HashOf(tuple.payload));
  return hashes;
}

}  // namespace

// ---- requests ----------------------------------------------------------------------------------

// nullopt: the answer to this request changes nothing here.
std::optional<Observer::Asked> Observer::Note(const RequestBody& body) {
  Asked asked;
  if (const auto* put = std::get_if<Put>(&body)) {
    asked.what = Put{Outlines(put->tuples)};
    asked.hashes = Hashes(put->tuples);
  } else if (const auto* complete = std::get_if<Complete>(&body)) {
    asked.what = Complete{complete->lease, Outlines(complete->results)};
    asked.hashes = Hashes(complete->results);
  } else if (const auto* supply = std::get_if<Supply>(&body)) {
    asked.what = Supply{Outlines(supply->tuples)};
    asked.hashes = Hashes(supply->tuples);
  } else if (const auto* extend = std::get_if<Extend>(&body)) {
    asked.what = extend->lease;
    asked.extend_us = extend->lease_us;
  } else if (const auto* release = std::get_if<Release>(&body)) {
    asked.what = release->lease;
  } else if (const auto* fail = std::get_if<Fail>(&body)) {
    asked.what = fail->lease;
  } else if (const auto* retire = std::get_if<Retire>(&body)) {
    asked.what = *retire;
  } else {
    return std::nullopt;
  }
  return asked;
}

void Observer::OnRequest(const ClientId& client, std::uint64_t session, const Request& request) {
  const auto known = sessions_.find(client);
  if (known != sessions_.end() && known->second != session) {
    late_.insert({client, request.id});
    return;
  }
  current_[client].insert(request.id);
  if (const auto* get = std::get_if<Get>(&request.body)) {
    trust_.OnGet(client, request.id, *get);
  }
  if (std::holds_alternative<Fail>(request.body)) trust_.OnFail(client);
  if (const auto* release = std::get_if<Release>(&request.body)) {
    if (tuples_.IsTask(release->lease.key)) trust_.OnReturned(client);
  }
  if (auto asked = Note(request.body)) asked_[{client, request.id}] = std::move(*asked);
}

// ---- answers -----------------------------------------------------------------------------------

ClientId Observer::ServedLate(
    const std::vector<std::pair<ClientId, const ToClient*>>& answers) const {
  for (const auto& [client, envelope] : answers) {
    for (const BrokerMessage& message : envelope->messages) {
      const auto* reply = std::get_if<Reply>(&message);
      if (std::holds_alternative<Done>(message) ||
          (reply != nullptr && asked_.contains({client, reply->id}))) {
        return client;
      }
    }
  }
  return {};
}

void Observer::OnAnswers(const ClientId& asking,
                         const std::vector<std::pair<ClientId, const ToClient*>>& answers,
                         std::int64_t now_us) {
  tuples_.BeginTurn();
  const ClientId active = asking.empty() ? ServedLate(answers) : asking;
  for (const bool of_active : {true, false}) {
    for (const auto& [client, envelope] : answers) {
      if ((client == active) != of_active) continue;
      for (const BrokerMessage& message : envelope->messages) OnMessage(client, message, now_us);
    }
  }
}

void Observer::OnMessage(const ClientId& client, const BrokerMessage& message,
                         std::int64_t now_us) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    OnWelcome(client, *welcome, now_us);
  } else if (const auto* reply = std::get_if<Reply>(&message)) {
    OnReply(client, *reply, now_us);
  } else if (const auto* done = std::get_if<Done>(&message)) {
    for (const RequestId id : done->requests) OnDone(client, id, now_us);
  } else if (const auto* notice = std::get_if<Notice>(&message)) {
    if (notice->kind == Notice::Kind::kMistrusted) trust_.OnMistrusted(*notice, now_us);
    if (notice->kind == Notice::Kind::kReleased) tuples_.OnReleased(client, notice->key);
  }
}

// In a new session the client has lost what it held in the one before.
void Observer::OnWelcome(const ClientId& client, const Welcome& welcome, std::int64_t now_us) {
  if (std::exchange(sessions_[client], welcome.session) == welcome.session) return;
  OnLost(client, now_us);
  current_.erase(client);
  // A late Hello may be welcomed after the session of a later Hello was lost. The client ignores
  // that Welcome and learns only from its next request that its session is over.
  const auto [last, is_first] = nonces_.try_emplace(client, welcome.nonce);
  if (!is_first && welcome.nonce <= last->second) return;
  last->second = welcome.nonce;
  lead_.OnNewSession(client);
}

void Observer::OnDone(const ClientId& client, RequestId id, std::int64_t now_us) {
  ReplyBody reply = Ok{};
  const auto it = asked_.find({client, id});
  if (it != asked_.end()) {
    const auto stored = [](const std::vector<Tuple>& tuples) {
      return std::vector<PutStatus>(tuples.size(), PutStatus::kStored);
    };
    if (const auto* put = std::get_if<Put>(&it->second.what)) {
      reply = PutReply{stored(put->tuples)};
    } else if (const auto* supply = std::get_if<Supply>(&it->second.what)) {
      reply = PutReply{stored(supply->tuples)};
    } else if (const auto* complete = std::get_if<Complete>(&it->second.what)) {
      reply = CompleteReply{LeaseStatus::kOk, stored(complete->results)};
    } else if (std::holds_alternative<LeaseRef>(it->second.what)) {
      reply = LeaseReply{};
    }
  }
  OnReply(client, {id, std::move(reply)}, now_us);
}

void Observer::OnReply(const ClientId& client, const Reply& reply, std::int64_t now_us) {
  if (const auto* grants = std::get_if<Grants>(&reply.body)) {
    return OnGrants(client, reply.id, *grants, now_us);
  }
  trust_.OnReply(client, reply.id);
  const auto it = asked_.find({client, reply.id});
  if (it == asked_.end()) {
    // The second copy of a request may have overtaken the first one.
    if (late_.contains({client, reply.id}) && !current_[client].contains(reply.id)) {
      context_.report(fmt::format("{} was answered in a later session than it asked in", client));
    }
    return;
  }
  const Asked asked = std::move(it->second);
  asked_.erase(it);
  OnAnswer(client, asked, reply.body, now_us);
}

void Observer::OnAnswer(const ClientId& client, const Asked& asked, const ReplyBody& body,
                        std::int64_t now_us) {
  if (const auto* answer = std::get_if<PutReply>(&body)) {
    if (const auto* supply = std::get_if<Supply>(&asked.what)) {
      tuples_.OnSupply(client, supply->tuples, asked.hashes, answer->status);
    } else {
      tuples_.OnPut(client, std::get<Put>(asked.what).tuples, asked.hashes, answer->status, false);
    }
  } else if (const auto* done = std::get_if<CompleteReply>(&body)) {
    const Complete& complete = std::get<Complete>(asked.what);
    OnLeaseAnswer(client, asked, complete.lease, done->lease, now_us);
    const bool counts = leases_.OnCompleted(client, complete, *done);
    if (counts && tuples_.IsTask(complete.lease.key)) trust_.OnCompletedTask(client);
    tuples_.OnPut(client, complete.results, asked.hashes, done->results, true);
  } else if (const auto* lease = std::get_if<LeaseReply>(&body)) {
    OnLeaseAnswer(client, asked, std::get<LeaseRef>(asked.what), lease->lease, now_us);
  } else if (const auto* retired = std::get_if<RetireReply>(&body)) {
    if (retired->lease == LeaseStatus::kStale) return;
    leases_.OnRetired(std::get<Retire>(asked.what));
    tuples_.OnRetired(std::get<Retire>(asked.what));
  } else if (const auto* error = std::get_if<RequestError>(&body)) {
    const auto* complete = std::get_if<Complete>(&asked.what);
    const bool failed = error->text.find(kCountsAsFailed) != std::string::npos;
    if (complete != nullptr && failed) leases_.OnFalseCompletion(client, complete->lease, now_us);
  }
}

void Observer::OnLeaseAnswer(const ClientId& client, const Asked& asked, const LeaseRef& ref,
                             LeaseStatus status, std::int64_t now_us) {
  const TaskSpec* task = tuples_.Task(ref.key);
  leases_.OnAnswer(client, ref, status, asked.extend_us,
                   trust_.ExtensionsOf(client, ref.key, task, now_us), now_us);
  if (status == LeaseStatus::kStale) trust_.OnLeaseLost(client);
  lead_.Tell(client, ref.key, status != LeaseStatus::kStale);
}

void Observer::OnGrants(const ClientId& client, RequestId id, const Grants& grants,
                        std::int64_t now_us) {
  trust_.OnGrants(client, id, grants, now_us);
  for (const Grant& grant : grants.grants) {
    if (const auto holder = leases_.Holder(grant.key)) trust_.OnLeaseLost(*holder);
    if (leases_.OnGrant(client, grant, now_us)) lead_.Tell(client, grant.key, true);
  }
}

void Observer::OnLost(const ClientId& client, std::int64_t now_us) {
  const auto first = asked_.lower_bound({client, 0});
  auto last = first;
  for (; last != asked_.end() && last->first.first == client; ++last) {
    const auto* complete = std::get_if<Complete>(&last->second.what);
    if (complete != nullptr) leases_.Doubt(client, *complete, last->second.hashes, now_us);
  }
  asked_.erase(first, last);
  tuples_.OnLost(client);
  trust_.OnLost(client);
  leases_.DoubtGrants(client);
  leases_.OnLost(client);
}

}  // namespace acan::simulation
