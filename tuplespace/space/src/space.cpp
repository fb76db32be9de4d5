#include "tuplespace/space.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_check.h"
#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

using internal::Deadline;

namespace {
constexpr std::size_t kMaxClientIdBytes = 64;
}

Space::Space(SpaceLimits limits, std::uint64_t first_fence)
    : impl_(std::make_unique<Impl>(limits, first_fence)) {}
Space::~Space() = default;

std::span<Outgoing> Space::Step(Event&& event, std::int64_t now_us) {
  return impl_->Step(std::move(event), now_us);
}
std::int64_t Space::NextDeadlineUs() const {
  return impl_->NextDeadlineUs();
}
Stats Space::GetStatistics() const {
  return impl_->GetStatistics();
}
const SpaceLimits& Space::limits() const {
  return impl_->limits();
}
std::optional<std::string> Space::FindContradiction() const {
  return impl_->FindContradiction();
}

struct Space::Impl::Dispatch {
  void operator()(Put&& put) const { space.puts_.Handle(client, id, std::move(put)); }
  void operator()(Hold&& hold) const { space.puts_.Handle(client, id, std::move(hold)); }
  void operator()(Supply&& supply) const { space.puts_.Handle(client, id, std::move(supply)); }
  void operator()(Read&& read) const { space.reads_.Handle(client, id, std::move(read)); }
  void operator()(List&& list) const { space.scans_.Handle(client, id, std::move(list)); }
  void operator()(Count&& count) const { space.scans_.Handle(client, id, std::move(count)); }
  void operator()(Get&& get) const { space.gets_.Handle(client, id, std::move(get)); }
  void operator()(Extend&& extend) const {
    space.lease_ends_.Handle(client, id, std::move(extend));
  }
  void operator()(Release&& release) const {
    space.lease_ends_.Handle(client, id, std::move(release));
  }
  void operator()(Fail&& fail) const { space.lease_ends_.Handle(client, id, std::move(fail)); }
  void operator()(Retire&& retire) const { space.removal_.Handle(client, id, std::move(retire)); }
  void operator()(Cancel&& cancel) const { space.CancelRequest(client, id, cancel.request); }
  void operator()(Complete&& complete) const {
    space.completions_.Handle(client, id, std::move(complete));
  }
  void operator()(GetStats&&) const {
    space.state_.answers.Answer(client, id, space.GetStatistics());
  }

  Impl& space;
  ClientState& client;
  RequestId id;
};

std::span<Outgoing> Space::Impl::Step(Event&& event, std::int64_t now_us) {
  assert(now_us >= state_.now_us);
  assert(reads_.settled() && ready_.empty() && matcher_.settled());
  state_.answers.Clear();
  state_.now_us = now_us;
  ExpireDue();
  std::visit([this](auto&& what) { OnEvent(std::forward<decltype(what)>(what)); },
             std::move(event));
  Settle();
  return state_.answers.all();
}

std::int64_t Space::Impl::NextDeadlineUs() const {
  if (!scans_.idle()) return state_.now_us;
  return state_.deadlines.empty() ? kForeverUs : state_.deadlines.first()->when_us;
}

Stats Space::Impl::GetStatistics() const {
  Stats stats = state_.gauges;
  stats.counters = state_.counters;
  stats.tuples = state_.store.stored();
  stats.clients = state_.clients.size();
  return stats;
}

void Space::Impl::ExpireDue() {
  while (!state_.deadlines.empty() && state_.deadlines.first()->when_us <= state_.now_us) {
    Deadline* due = state_.deadlines.first();
    state_.deadlines.Clear(due);
    switch (due->kind) {
      case Deadline::Kind::kLease:
        if (IsPlanted(Planted::kLeaseNeverEnds)) break;
        ++state_.counters.leases_expired;
        lease_ends_.EndExpired(due->record);
        break;
      case Deadline::Kind::kReady:
        ready_.Requeue(due->record);
        break;
      case Deadline::Kind::kSupply:
        if (residency_.IsOverdue(due->record)) removal_.Remove(due->record, false);
        break;
      case Deadline::Kind::kRead:
        reads_.End(due->read, true);
        break;
      case Deadline::Kind::kGet:
        groups_.EndGet(due->get);
        break;
    }
    Settle();
  }
}

void Space::Impl::Settle() {
  reads_.WakeAll();
  matcher_.Match();
}

void Space::Impl::OnEvent(ClientJoined&& event) {
  if (const auto known = state_.clients.find(event.client); known != state_.clients.end()) {
    ForgetOpenRequests(*known->second);  // it reconnected, and will send them again
    return;
  }
  if (event.client.empty() || event.client.size() > kMaxClientIdBytes) {
    return state_.answers.Refuse(
        event.client, 0,
        {ErrorCode::kBadRequest, "client id of " + std::to_string(event.client.size()) +
                                     " bytes, must be 1 to " + std::to_string(kMaxClientIdBytes)});
  }
  if (state_.clients.size() >= state_.limits.clients) {
    return state_.answers.Refuse(
        event.client, 0,
        {ErrorCode::kBusy, "limits.clients: " + std::to_string(state_.limits.clients) +
                               " clients are there, the most allowed"});
  }
  auto client = std::make_unique<ClientState>();
  client->id = std::make_shared<const ClientId>(event.client);
  if (!event.principal.empty()) trust_.JoinKey(*client, event.principal);
  client->principal = event.principal.empty() ? event.client : std::move(event.principal);
  client->limits = event.limits;
  matcher_.NoteJoined(*client);
  state_.clients.emplace(std::move(event.client), std::move(client));
}

void Space::Impl::OnEvent(ClientLost&& event) {
  const auto at = state_.clients.find(event.client);
  if (at == state_.clients.end()) return;
  ClientState& client = *at->second;
  ForgetOpenRequests(client);
  groups_.ForgetUser(client);
  matcher_.LetGoOf(client);
  for (internal::Record* record : residency_.LoseAllOf(client)) removal_.Remove(record, false);
  holders_.RemoveAllOf(client);
  if (client.untried_of != nullptr && !client.leases.empty()) {
    internal::Record* record = client.leases.first()->deadline.record;
    if (record->task)
      trust_.NoteInVain(client, record, 1, "leaves with a task that it has not done");
  }
  lease_ends_.ReturnAllOf(client);
  while (!client.ephemerals.empty()) removal_.Remove(client.ephemerals.begin()->second, false);
  assert(client.held.empty() && client.reads.empty() && client.gets.empty());
  assert(client.lease_count == 0 && client.own_payload_bytes == 0);
  trust_.LeaveKey(client);
  state_.clients.erase(at);
  trust_.EndBenchesIfNobodyIsLeft();
}

void Space::Impl::OnEvent(ClientListens&& event) {
  const auto at = state_.clients.find(event.client);
  if (at != state_.clients.end()) at->second->listens = true;
}

void Space::Impl::OnEvent(Incoming&& event) {
  const auto at = state_.clients.find(event.client);
  if (at == state_.clients.end()) {
    return state_.answers.Refuse(
        event.client, event.request.id,
        {ErrorCode::kHelloRequired,
         "this space does not know client \"" + event.client + "\": it must join before it asks"});
  }
  ClientState& client = *at->second;
  std::visit(Dispatch{*this, client, event.request.id}, std::move(event.request.body));
}

void Space::Impl::CancelRequest(ClientState& client, RequestId id, RequestId request) {
  if (const auto read = client.reads.find(request); read != client.reads.end()) {
    reads_.End(read->second.get(), true);
  } else if (const auto get = client.gets.find(request); get != client.gets.end()) {
    groups_.EndGet(&get->second);
  }
  state_.answers.Answer(client, id, Ok{});  // one that was answered meanwhile needs no cancelling
}

void Space::Impl::ForgetOpenRequests(ClientState& client) {
  reads_.ForgetAllOf(client);
  gets_.ForgetAllOf(client);
  scans_.ForgetAllOf(client);
}

std::optional<std::string> Space::Impl::FindContradiction() const {
  return internal::FindContradiction(state_, groups_, benches_);
}

}  // namespace tuplespace
