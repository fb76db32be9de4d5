#include "tuplespace/space.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "space_check.h"
#include "space_core.h"
#include "tuplespace/planted.h"

namespace tuplespace {

using internal::Deadline;

Space::Space(SpaceLimits limits, std::uint64_t first_fence, std::uint64_t key_secret)
    : impl_(std::make_unique<Impl>(limits, first_fence, key_secret)) {}
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
std::optional<ClientId> Space::HolderOf(const Pattern& pattern) const {
  return impl_->HolderOf(pattern);
}
std::uint64_t Space::places_changed() const {
  return impl_->places_changed();
}
std::uint64_t Space::ExaminedByReads() const {
  return impl_->ExaminedByReads();
}
std::uint64_t Space::ExaminedByScans() const {
  return impl_->ExaminedByScans();
}
std::optional<std::string> Space::FindContradiction() const {
  return impl_->FindContradiction();
}

struct Space::Impl::Dispatch {
  void operator()(Put&& put) const { space.lifecycle_.puts.Handle(client, id, std::move(put)); }
  void operator()(Hold&& hold) const { space.lifecycle_.puts.Handle(client, id, std::move(hold)); }
  void operator()(Supply&& supply) const {
    const bool supplied = space.lifecycle_.puts.Handle(client, id, std::move(supply));
    if (supplied) space.matching_.trust.NoteSupplied(client);
  }
  void operator()(Read&& read) const { space.reading_.reads.Handle(client, id, std::move(read)); }
  void operator()(List&& list) const { space.reading_.scans.Handle(client, id, std::move(list)); }
  void operator()(Count&& count) const {
    space.reading_.scans.Handle(client, id, std::move(count));
  }
  void operator()(Get&& get) const { space.matching_.gets.Handle(client, id, std::move(get)); }
  void operator()(Extend&& extend) const {
    space.lifecycle_.lease_ends.Handle(client, id, std::move(extend));
  }
  void operator()(Release&& release) const {
    space.lifecycle_.lease_ends.Handle(client, id, std::move(release));
  }
  void operator()(Fail&& fail) const {
    space.lifecycle_.lease_ends.Handle(client, id, std::move(fail));
  }
  void operator()(Retire&& retire) const {
    space.lifecycle_.removal.Handle(client, id, std::move(retire));
  }
  void operator()(Cancel&& cancel) const { space.CancelRequest(client, id, cancel.request); }
  void operator()(Complete&& complete) const {
    space.lifecycle_.completions.Handle(client, id, std::move(complete));
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
  assert(reading_.reads.settled() && matching_.ready.empty() && matching_.matcher.settled());
  state_.answers.Clear();
  state_.now_us = now_us;
  ExpireDue();
  const std::uint64_t placed_before = matching_.ready.placed();
  std::visit([this](auto&& what) { OnEvent(std::forward<decltype(what)>(what)); },
             std::move(event));
  Settle();
  places_changed_ = matching_.ready.placed() - placed_before;
  return state_.answers.all();
}

std::int64_t Space::Impl::NextDeadlineUs() const {
  if (!reading_.scans.idle()) return state_.now_us;
  return state_.deadlines.empty() ? kForeverUs : state_.deadlines.first()->when_us;
}

Stats Space::Impl::GetStatistics() const {
  Stats stats = state_.gauges;
  stats.counters = state_.counters;
  stats.tuples = state_.store.stored();
  stats.known_keys = state_.store.size();
  stats.clients = state_.clients.size();
  return stats;
}

std::optional<ClientId> Space::Impl::HolderOf(const Pattern& pattern) const {
  std::optional<ClientId> holder;
  state_.store.ScanStored(pattern, [&holder](const internal::Record* record) {
    if (record->lease != nullptr) holder = *record->lease->client->id;
    return !holder.has_value();
  });
  return holder;
}

void Space::Impl::ExpireDue() {
  while (!state_.deadlines.empty() && state_.deadlines.first()->when_us <= state_.now_us) {
    Deadline* due = state_.deadlines.first();
    state_.deadlines.Clear(due);
    switch (due->kind) {
      case Deadline::Kind::kLease:
        if (IsPlanted(Planted::kLeaseNeverEnds) || IsKept(due->record)) break;
        ++state_.counters.leases_expired;
        lifecycle_.lease_ends.EndExpired(due->record);
        break;
      case Deadline::Kind::kReady:
        matching_.ready.Requeue(due->record);
        break;
      case Deadline::Kind::kSupply:
        if (reading_.residency.IsOverdue(due->record)) {
          matching_.trust.NoteNotSupplied(*due->record);
          lifecycle_.removal.Remove(due->record, false);
        }
        break;
      case Deadline::Kind::kRead:
        reading_.reads.End(due->read, true);
        break;
      case Deadline::Kind::kGet:
        matching_.groups.EndGet(due->get);
        break;
    }
    Settle();
  }
}

// Whether the lease of a plain tuple, such as a lock, goes on because a message of its holder is
// arriving: an Extend would come behind that message. The holder may extend such a lease as far
// anyway.
bool Space::Impl::IsKept(internal::Record* record) {
  const internal::Lease& lease = *record->lease;
  const std::int64_t sends_us = lease.client->sends_us;
  if (record->task || sends_us < lease.granted_us) return false;
  const std::int64_t end_us =
      std::min(lease.lease_us > kForeverUs - sends_us ? kForeverUs : sends_us + lease.lease_us,
               matching_.leases.LastEndUs(*record));
  if (end_us <= state_.now_us) return false;
  state_.deadlines.Set(&record->lease->deadline, end_us);
  return true;
}

void Space::Impl::Settle() {
  reading_.reads.WakeAll();
  matching_.matcher.Match();
}

void Space::Impl::OnEvent(ClientJoined&& event) {
  if (const auto known = state_.clients.find(event.client); known != state_.clients.end()) {
    ForgetOpenRequests(*known->second);  // it reconnected and will send them again
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
  if (!event.principal.empty()) matching_.trust.JoinKey(*client, event.principal);
  client->principal = event.principal.empty() ? event.client : std::move(event.principal);
  client->limits = event.limits;
  if (client->limits.judges_apart) {
    client->judge = std::make_shared<const internal::ApartKey>(
        internal::ApartKey{client->principal, client->limits.exclusions_of_key});
  }
  matching_.matcher.NoteJoined(*client);
  state_.clients.emplace(std::move(event.client), std::move(client));
}

void Space::Impl::OnEvent(ClientLost&& event) {
  const auto at = state_.clients.find(event.client);
  if (at == state_.clients.end()) return;
  ClientState& client = *at->second;
  ForgetOpenRequests(client);
  matching_.groups.ForgetUser(client);
  matching_.matcher.LetGoOf(client);
  for (internal::Record* record : reading_.residency.LoseAllOf(client))
    lifecycle_.removal.Remove(record, false);
  matching_.holders.RemoveAllOf(client);
  lifecycle_.lease_ends.ReturnAllOf(client);
  while (!client.ephemerals.empty())
    lifecycle_.removal.Remove(client.ephemerals.begin()->second, false);
  assert(client.held.empty() && client.reads.empty() && client.gets.empty());
  assert(client.lease_count == 0 && client.own_payload_bytes == 0);
  matching_.trust.LeaveKey(client);
  state_.clients.erase(at);
  matching_.trust.EndBenchesIfNobodyIsLeft();
}

void Space::Impl::OnEvent(ClientListens&& event) {
  const auto at = state_.clients.find(event.client);
  if (at != state_.clients.end()) at->second->listens = true;
}

void Space::Impl::OnEvent(ClientSends&& event) {
  const auto at = state_.clients.find(event.client);
  if (at != state_.clients.end()) at->second->sends_us = state_.now_us;
}

void Space::Impl::OnEvent(ResultsDamaged&& event) {
  const auto at = state_.clients.find(event.client);
  if (at == state_.clients.end()) return;
  lifecycle_.completions.NoteDamaged(*at->second, event.lease, event.text);
}

void Space::Impl::OnEvent(GrantsUnsent&& event) {
  const auto at = state_.clients.find(event.client);
  if (at == state_.clients.end()) return;
  for (const LeaseRef& lease : event.leases) lifecycle_.lease_ends.TakeBack(*at->second, lease);
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
    reading_.reads.End(read->second.get(), true);
  } else if (const auto get = client.gets.find(request); get != client.gets.end()) {
    matching_.groups.EndGet(&get->second);
  }
  // A request that was answered meanwhile needs no cancelling.
  state_.answers.Answer(client, id, Ok{});
}

void Space::Impl::ForgetOpenRequests(ClientState& client) {
  reading_.reads.ForgetAllOf(client);
  matching_.gets.ForgetAllOf(client);
  reading_.scans.ForgetAllOf(client);
}

std::optional<std::string> Space::Impl::FindContradiction() const {
  return internal::FindContradiction(state_, matching_.groups, matching_.benches);
}

}  // namespace tuplespace
