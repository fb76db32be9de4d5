#include "direct_reads.h"

#include <algorithm>
#include <utility>

namespace tuplespace {

void DirectReads::Begin(std::vector<FoundTuple> wanted, std::int64_t wait_us, bool direct,
                        Client::ReplyHandler on_reply) {
  const ReadId id = next_read_++;
  Open& open = open_[id];
  open.tuples = std::move(wanted);
  open.on_reply = std::move(on_reply);
  const std::int64_t now_us = doing_.now_us();
  if (wait_us < kForeverUs - now_us) open.deadline_us = now_us + wait_us;
  std::vector<std::size_t> ask, fetch;
  for (std::size_t i = 0; i < open.tuples.size(); ++i) {
    (open.tuples[i].place ? fetch : ask).push_back(i);
  }
  try {
    if (!ask.empty()) Ask(id, std::move(ask), direct ? Way::kDirect : Way::kBroker, doing_.submit);
  } catch (...) {
    open_.erase(id);
    throw;
  }
  for (const std::size_t i : fetch) Fetch(id, i, Way::kDirect);
  Settle(id);
}

void DirectReads::Ask(ReadId id, std::vector<std::size_t> which, Way way, const Submit& submit) {
  Open& open = open_.at(id);
  Read read;
  read.direct = way != Way::kBroker;
  read.wait_us = kForeverUs;
  if (open.deadline_us != kForeverUs) {
    read.wait_us = std::max<std::int64_t>(0, open.deadline_us - doing_.now_us());
  }
  for (const std::size_t i : which) read.patterns.push_back(Pattern::Of(open.tuples[i].key));
  ++open.under_way;
  submit(std::move(read), [this, id, which = std::move(which), way](ReplyBody&& reply) {
    OnFound(id, which, way, std::move(reply));
  });
}

void DirectReads::OnFound(ReadId id, const std::vector<std::size_t>& which, Way way,
                          ReplyBody&& reply) {
  const auto at = open_.find(id);
  if (at == open_.end()) return;  // another part of it has ended it
  auto* found = std::get_if<Found>(&reply);
  if (found == nullptr || found->tuples.size() != which.size()) {
    return End(id, std::move(reply));  // an error, or too late
  }
  --at->second.under_way;
  for (std::size_t i = 0; i < which.size(); ++i) {
    FoundTuple& tuple = at->second.tuples[which[i]];
    const std::uint64_t right_bytes = tuple.payload_bytes;
    tuple = std::move(found->tuples[i]);
    if (way == Way::kBroker || !tuple.resident) continue;
    if (right_bytes != 0 && tuple.payload_bytes != right_bytes) continue;  // must not come here
    if (tuple.place) {
      Fetch(id, which[i], way);
    } else {
      at->second.failed.push_back(which[i]);
    }
  }
  Settle(id);
}

void DirectReads::Fetch(ReadId id, std::size_t tuple, Way way) {
  const std::uint64_t fetch = next_fetch_++;
  ++open_.at(id).under_way;
  fetching_[fetch] = {id, tuple, way};
  doing_.fetch(fetch, open_.at(id).tuples[tuple]);
}

bool DirectReads::OnFetched(std::uint64_t fetch, Payload payload, bool ticket_expired) {
  const auto at = fetching_.find(fetch);
  if (at == fetching_.end()) return false;
  const Fetching of = at->second;
  fetching_.erase(at);
  Open& open = open_.at(of.read);
  --open.under_way;
  // Once for each tuple: a holder may say this for ever.
  if (ticket_expired && of.way == Way::kDirect) {
    Ask(of.read, {of.tuple}, Way::kDirectAgain, doing_.read_again);
    return false;
  }
  FoundTuple& tuple = open.tuples[of.tuple];
  // The bytes have the hash that the holder sent, but the space may know another one.
  const bool is_other = tuple.hash && payload.hash() != tuple.hash;
  const bool failed = payload.empty();
  if (failed || is_other) {
    open.failed.push_back(of.tuple);
  } else {
    tuple.resident = false;
    tuple.place = nullptr;
    tuple.hash = payload.hash();
    tuple.payload = std::move(payload);
  }
  Settle(of.read);
  return failed;
}

// Everything that failed is requested together, once.
void DirectReads::Settle(ReadId id) {
  Open& open = open_.at(id);
  if (open.under_way > 0) return;
  if (!open.failed.empty() && !std::exchange(open.fell_back, true)) {
    return Ask(id, std::exchange(open.failed, {}), Way::kBroker, doing_.read_again);
  }
  End(id, Found{std::move(open.tuples)});
}

void DirectReads::End(ReadId id, ReplyBody&& answer) {
  const auto at = open_.find(id);
  const Client::ReplyHandler on_reply = std::move(at->second.on_reply);
  open_.erase(at);
  std::erase_if(fetching_, [&](const auto& entry) {
    if (entry.second.read != id) return false;
    doing_.forget(entry.first);
    return true;
  });
  on_reply(std::move(answer));
}

}  // namespace tuplespace
