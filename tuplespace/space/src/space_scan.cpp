// List and Count. What lies in a wide range of keys is looked at in slices, in turn for all clients
// that have such requests, so that nobody has to wait for more than one slice.
#include <algorithm>
#include <cassert>
#include <utility>

#include "space_core.h"

namespace tuplespace {

using internal::Scan;

void Space::Impl::Handle(Client& client, RequestId id, List&& list) {
  if (auto problem = list.pattern.Problem()) {
    return Refuse(*client.id, id, {ErrorCode::kBadRequest, "pattern of a List: " + *problem});
  }
  Scan scan;
  scan.id = id;
  scan.pattern = std::move(list.pattern);
  scan.lists = true;
  scan.metadata_only = list.metadata_only;
  scan.limit = std::min(list.limit, limits_.tuples_per_request);
  BeginScan(client, std::move(scan));
}

void Space::Impl::Handle(Client& client, RequestId id, Count&& count) {
  if (auto problem = count.pattern.Problem()) {
    return Refuse(*client.id, id, {ErrorCode::kBadRequest, "pattern of a Count: " + *problem});
  }
  Scan scan;
  scan.id = id;
  scan.pattern = std::move(count.pattern);
  BeginScan(client, std::move(scan));
}

void Space::Impl::BeginScan(Client& client, Scan&& scan) {
  // Behind its own others, so that nobody gets more than one turn by asking more often.
  if (client.scans.empty() && ScanSlice(scan, limits_.looked_at_at_once)) {
    return AnswerScan(client, std::move(scan));
  }
  if (auto busy = CheckRoomForOpenRequest(client)) {
    return Refuse(*client.id, scan.id, std::move(*busy));
  }
  if (client.scans.empty()) scanning_.push_back(&client);
  client.scans.push_back(std::move(scan));
}

bool Space::Impl::ScanSlice(Scan& scan, std::uint64_t most) {
  return store_.ScanSome(scan.pattern, &most, &scan.next, [&](const Record* record) {
    if (!scan.lists) {
      ++scan.count;
      return true;
    }
    const std::uint64_t more = scan.metadata_only ? 0 : record->payload.size();
    // The first always goes in, so that who lists on from the last key gets on.
    if (scan.found.tuples.size() >= scan.limit ||
        (!scan.found.tuples.empty() && scan.bytes + more > limits_.message_bytes)) {
      scan.found.truncated = true;
      return false;
    }
    scan.bytes += more;
    scan.found.tuples.push_back(Copy(*record, scan.metadata_only));
    return true;
  });
}

void Space::Impl::AnswerScan(const Client& client, Scan&& scan) {
  if (scan.lists) {
    Answer(client, scan.id, std::move(scan.found));
  } else {
    Answer(client, scan.id, CountReply{scan.count});
  }
}

// One slice, of the client whose turn it is.
void Space::Impl::ScanOn() {
  if (scanning_.empty()) return;
  Client& client = *scanning_.front();
  scanning_.pop_front();
  assert(!client.scans.empty());
  if (ScanSlice(client.scans.front(), limits_.looked_at_by_slice)) {
    AnswerScan(client, std::move(client.scans.front()));
    client.scans.pop_front();
  }
  if (!client.scans.empty()) scanning_.push_back(&client);
}

}  // namespace tuplespace
