#include "scans.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace tuplespace::internal {

namespace {

constexpr std::uint64_t kListedAsLooks = 2;  // what copying a tuple into an answer takes

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
  scan.limit = std::min(list.limit, state_.limits.tuples_per_request);
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
    scan.found.tuples.push_back(state_.Copy(*record, scan.metadata_only));
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

// Examines one slice for the client whose turn it is.
void Scans::Continue() {
  if (scanning_.empty()) return;
  ClientState& client = *scanning_.front();
  scanning_.pop_front();
  assert(!client.scans.empty());
  std::uint64_t budget = state_.limits.examined_by_slice;
  if (Slice(client.scans.front(), &budget)) {
    AnswerTo(client, std::move(client.scans.front()));
    client.scans.pop_front();
  }
  if (!client.scans.empty()) scanning_.push_back(&client);
}

void Scans::ForgetAllOf(ClientState& client) {
  client.scans.clear();
  std::erase(scanning_, &client);
}

}  // namespace tuplespace::internal
