#include "scans.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "space_refusals.h"

namespace tuplespace::internal {

namespace {

constexpr std::uint64_t kListedAsLooks = 2;  // what copying a tuple into an answer takes
constexpr std::uint64_t kOfTwoStrings = 32;  // overhead of the heap for a key and a client's id

}  // namespace

void Scans::Handle(ClientState& client, RequestId id, List&& list) {
  if (auto problem = list.pattern.Problem()) {
    return state_.answers.Refuse(*client.id, id,
                                 {ErrorCode::kBadRequest, "pattern of a List: " + *problem});
  }
  Scan scan;
  scan.id = id;
  scan.pattern = std::move(list.pattern);
  scan.lists = true;
  scan.metadata_only = list.metadata_only;
  scan.limit = std::min(list.limit, state_.MostOfRequest(client));
  Begin(client, std::move(scan));
}

void Scans::Handle(ClientState& client, RequestId id, Count&& count) {
  if (auto problem = count.pattern.Problem()) {
    return state_.answers.Refuse(*client.id, id,
                                 {ErrorCode::kBadRequest, "pattern of a Count: " + *problem});
  }
  Scan scan;
  scan.id = id;
  scan.pattern = std::move(count.pattern);
  Begin(client, std::move(scan));
}

void Scans::Begin(ClientState& client, Scan&& scan) {
  // Behind the client's other scans, so that it does not get more turns by asking more often.
  if (client.scans.empty() && SliceAtOnce(scan)) return AnswerTo(client, std::move(scan));
  if (auto busy = state_.CheckRoomForOpenRequest(client)) {
    return state_.answers.Refuse(*client.id, scan.id, std::move(*busy));
  }
  if (auto busy = Charge(client, scan)) {
    return state_.answers.Refuse(*client.id, scan.id, std::move(*busy));
  }
  if (client.scans.empty()) scanning_.push_back(&client);
  client.scans.push_back(std::move(scan));
}

bool Scans::SliceAtOnce(Scan& scan) {
  std::uint64_t budget = state_.limits.examined_at_once;
  const bool ended = Slice(scan, &budget);
  examined_ += state_.limits.examined_at_once - budget + kListedAsLooks * scan.found.tuples.size();
  return ended;
}

bool Scans::Slice(Scan& scan, std::uint64_t* budget) {
  return state_.store.ScanSome(scan.pattern, budget, &scan.next, [&](const Record* record) {
    if (!scan.lists) {
      ++scan.counted.count;
      if (record->task) {
        scan.counted.tasks->ready += record->state == RecordState::kReady;
        scan.counted.tasks->leased += record->state == RecordState::kLeased;
      }
      return true;
    }
    const std::uint64_t more = scan.metadata_only ? 0 : record->payload.size();
    // The first tuple is always included, so that a client that continues after the last key makes
    // progress.
    if (scan.found.tuples.size() >= scan.limit ||
        (!scan.found.tuples.empty() && scan.bytes + more > state_.limits.message_bytes)) {
      scan.found.truncated = true;
      return false;
    }
    scan.bytes += more;
    FoundTuple& copy = scan.found.tuples.emplace_back();
    state_.Copy(*record, scan.metadata_only, &copy);
    scan.string_bytes += copy.key.bytes().size() + copy.put_by.size() + kOfTwoStrings;
    return true;
  });
}

void Scans::AnswerTo(const ClientState& client, Scan&& scan) {
  if (scan.lists) {
    state_.answers.Answer(client, scan.id, std::move(scan.found));
  } else {
    state_.answers.Answer(client, scan.id, scan.counted);
  }
}

// All clients of a key can have Lists that are almost complete, because they take turns.
std::optional<RequestError> Scans::Charge(const ClientState& client, Scan& scan) {
  const std::uint64_t bytes = scan.found.tuples.capacity() * sizeof(FoundTuple) + scan.string_bytes;
  const std::uint64_t more = bytes - scan.charged;
  if (more == 0) return std::nullopt;
  const std::uint64_t most = client.limits.listed_bytes_of_key;
  const auto known = charged_to_.find(client.principal);
  const std::uint64_t there = known != charged_to_.end() ? known->second : 0;
  if (there > most || more > most - there) {
    RequestError error = NoRoom("limits.listed_bytes_of_key", more, there, most);
    // What the List has found so far is charged already.
    if (bytes > most) error.code = ErrorCode::kTooLarge;
    error.text += ", for a List that is not complete";
    return error;
  }
  charged_to_[client.principal] += more;
  scan.charged = bytes;
  return std::nullopt;
}

void Scans::GiveBack(const ClientState& client, const Scan& scan) {
  if (scan.charged == 0) return;
  const auto of_key = charged_to_.find(client.principal);
  assert(of_key != charged_to_.end() && of_key->second >= scan.charged);
  of_key->second -= scan.charged;
  if (of_key->second == 0) charged_to_.erase(of_key);
}

// Examines one slice for the client whose turn it is.
void Scans::Continue() {
  if (scanning_.empty()) return;
  ClientState& client = *scanning_.front();
  scanning_.pop_front();
  assert(!client.scans.empty());
  std::uint64_t budget = state_.limits.examined_by_slice;
  Scan& scan = client.scans.front();
  const bool ended = Slice(scan, &budget);
  auto busy = ended ? std::nullopt : Charge(client, scan);
  if (ended || busy) {
    GiveBack(client, scan);
    if (busy) {
      state_.answers.Refuse(*client.id, scan.id, std::move(*busy));
    } else {
      AnswerTo(client, std::move(scan));
    }
    client.scans.pop_front();
  }
  if (!client.scans.empty()) scanning_.push_back(&client);
}

void Scans::ForgetAllOf(ClientState& client) {
  for (const Scan& scan : client.scans) GiveBack(client, scan);
  client.scans.clear();
  std::erase(scanning_, &client);
}

}  // namespace tuplespace::internal
