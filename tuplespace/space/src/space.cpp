#include "tuplespace/space.h"

#include <algorithm>
#include <cassert>
#include <utility>

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

Space::Impl::~Impl() = default;

std::span<Outgoing> Space::Impl::Step(Event&& event, std::int64_t now_us) {
  assert(now_us >= now_us_);
  assert(fresh_.empty() && unplaced_.empty() && answering_.empty());
  out_.clear();
  now_us_ = now_us;
  ExpireDue();
  std::visit([this](auto&& what) { OnEvent(std::move(what)); }, std::move(event));
  Settle();
  return out_;
}

std::int64_t Space::Impl::NextDeadlineUs() const {
  if (!scanning_.empty()) return now_us_;
  return deadlines_.empty() ? kForeverUs : deadlines_.first()->when_us;
}

Stats Space::Impl::GetStatistics() const {
  Stats stats = gauges_;
  stats.counters = counters_;
  stats.tuples = store_.stored();
  stats.clients = clients_.size();
  return stats;
}

void Space::Impl::ExpireDue() {
  while (!deadlines_.empty() && deadlines_.first()->when_us <= now_us_) {
    Deadline* due = deadlines_.first();
    deadlines_.Clear(due);
    switch (due->kind) {
      case Deadline::Kind::kLease:
        if (IsPlanted(Planted::kLeaseNeverEnds)) break;
        ++counters_.leases_expired;
        EndExpired(due->record);
        break;
      case Deadline::Kind::kReady:
        Requeue(due->record);
        break;
      case Deadline::Kind::kSupply:
        SupplyIsDue(due->record);
        break;
      case Deadline::Kind::kRead:
        EndRead(due->read, true);
        break;
      case Deadline::Kind::kGet:
        EndGet(due->get);
        break;
    }
    Settle();
  }
}

void Space::Impl::Settle() {
  WakeReaders();
  Match();
}

void Space::Impl::OnEvent(ClientJoined&& event) {
  if (const auto known = clients_.find(event.client); known != clients_.end()) {
    ForgetOpenRequests(*known->second);  // it reconnected, and will send them again
    return;
  }
  if (event.client.empty() || event.client.size() > kMaxClientIdBytes) {
    return Refuse(
        event.client, 0,
        {ErrorCode::kBadRequest, "client id of " + std::to_string(event.client.size()) +
                                     " bytes, must be 1 to " + std::to_string(kMaxClientIdBytes)});
  }
  if (clients_.size() >= limits_.clients) {
    return Refuse(event.client, 0,
                  {ErrorCode::kBusy, "limits.clients: " + std::to_string(limits_.clients) +
                                         " clients are there, the most allowed"});
  }
  auto client = std::make_unique<Client>();
  client->id = std::make_shared<const ClientId>(event.client);
  if (!event.principal.empty()) JoinKey(*client, event.principal);
  client->principal = event.principal.empty() ? event.client : std::move(event.principal);
  client->limits = event.limits;
  clients_.emplace(std::move(event.client), std::move(client));
}

void Space::Impl::OnEvent(ClientLost&& event) {
  const auto at = clients_.find(event.client);
  if (at == clients_.end()) return;
  Client& client = *at->second;
  ForgetOpenRequests(client);
  for (const auto& [sequence, group] : groups_by_age_) group->users.erase(&client);

  LoseStaysOf(client);
  std::vector<Record*> held;
  for (const auto& [record, holding] : client.held) held.push_back(holding.record);
  std::sort(held.begin(), held.end(),
            [](const Record* a, const Record* b) { return a->sequence < b->sequence; });
  for (Record* record : held) RemoveHolder(client, record);

  if (client.untried_of != nullptr && !client.leases.empty()) {
    Record* record = client.leases.first()->deadline.record;
    if (record->task) NoteInVain(client, record, 1, "leaves with a task that it has not done");
  }
  while (!client.leases.empty()) {
    ++counters_.leases_returned;
    Record* record = client.leases.first()->deadline.record;
    LoseLease(record);
    ReturnLease(record);
  }
  while (!client.ephemerals.empty()) Remove(client.ephemerals.begin()->second, false);
  assert(client.held.empty() && client.reads.empty() && client.gets.empty());
  assert(client.lease_count == 0 && client.own_payload_bytes == 0);
  LeaveKey(client);
  clients_.erase(at);
  EndBenchesIfNobodyIsLeft();
}

void Space::Impl::OnEvent(Incoming&& event) {
  const auto at = clients_.find(event.client);
  if (at == clients_.end()) {
    return Refuse(event.client, event.request.id,
                  {ErrorCode::kHelloRequired, "this space does not know client \"" + event.client +
                                                  "\": it must join before it asks"});
  }
  Client& client = *at->second;
  std::visit([&](auto&& body) { Handle(client, event.request.id, std::move(body)); },
             std::move(event.request.body));
}

void Space::Impl::Handle(Client& client, RequestId id, GetStats&&) {
  Answer(client, id, GetStatistics());
}

void Space::Impl::Handle(Client& client, RequestId id, Cancel&& cancel) {
  if (const auto read = client.reads.find(cancel.request); read != client.reads.end()) {
    EndRead(read->second.get(), true);
  } else if (const auto get = client.gets.find(cancel.request); get != client.gets.end()) {
    EndGet(&get->second);
  }
  Answer(client, id, Ok{});  // one that was answered meanwhile needs no cancelling
}

void Space::Impl::Refuse(const ClientId& client, RequestId id, Error error) {
  assert(!error.text.empty());
  if (error.code == ErrorCode::kBusy) {
    ++counters_.busy;
  } else if (error.code != ErrorCode::kHelloRequired) {
    ++counters_.bad_requests;
  }
  out_.push_back({client, Reply{id, std::move(error)}});
}

void Space::Impl::Notify(const internal::OwnerId& owner, Notice notice) {
  assert(owner != nullptr);
  if (clients_.contains(*owner)) out_.push_back({*owner, std::move(notice)});
}

void Space::Impl::ForgetOpenRequests(Client& client) {
  for (auto& [id, waiter] : client.reads) {
    Unwatch(*waiter);
    deadlines_.Clear(&waiter->deadline);
  }
  for (auto& [id, waiter] : client.gets) {
    LeaveGroup(waiter);
    deadlines_.Clear(&waiter.deadline);
  }
  gauges_.open_reads -= client.reads.size();
  gauges_.open_gets -= client.gets.size();
  client.reads.clear();
  client.gets.clear();
  client.open_patterns = 0;
  client.scans.clear();
  std::erase(scanning_, &client);
}

std::optional<Error> Space::Impl::CheckRoomForOpenRequest(const Client& client) const {
  const std::size_t open = client.reads.size() + client.gets.size() + client.scans.size();
  if (open >= limits_.open_requests_per_client) {
    return Error{ErrorCode::kBusy, "limits.open_requests_per_client: " +
                                       std::to_string(limits_.open_requests_per_client) +
                                       " are open, the most allowed"};
  }
  if (open >= client.limits.open_requests) {
    return Error{ErrorCode::kBusy, "open_requests of this client's role: " +
                                       std::to_string(client.limits.open_requests) +
                                       " are open, the most allowed"};
  }
  return std::nullopt;
}

std::int64_t Space::Impl::After(std::int64_t duration_us) const {
  assert(duration_us >= 0);
  return now_us_ > kForeverUs - duration_us ? kForeverUs : now_us_ + duration_us;
}

std::uint64_t* Space::Impl::GaugeOf(RecordState state) {
  switch (state) {
    case RecordState::kWaiting:
      return &gauges_.tasks_waiting;
    case RecordState::kTakable:
      return &gauges_.tasks_ready;
    case RecordState::kLeased:
      return &gauges_.tasks_leased;
    case RecordState::kParked:
      return &gauges_.tasks_parked;
    case RecordState::kWanted:
    case RecordState::kCompleted:
      break;
  }
  return nullptr;
}

void Space::Impl::SetState(Record* record, RecordState state) {
  if (record->task) {
    if (std::uint64_t* gauge = GaugeOf(record->state)) --*gauge;
    if (std::uint64_t* gauge = GaugeOf(state)) ++*gauge;
  }
  record->state = state;
}

}  // namespace tuplespace
