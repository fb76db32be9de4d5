// Handler: measures its link when it joins.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "handler_impl.h"

namespace acan {
namespace {

using tuplespace::Key;
using tuplespace::Payload;

constexpr std::uint64_t kMaxProbeBytes = 256 << 10;  // of one tuple
// One measurement takes some 50 ms. If others have not finished within the maximum, they may never
// finish.
constexpr std::int64_t kLookForTurnEveryUs = 20'000;
constexpr std::int64_t kMaxTurnWaitUs = 3'000'000;

}  // namespace

// The manager plans for the links, so this handler announces itself only when its link is measured.
void Handler::Impl::AskToProbe() {
  link_probe = {};
  turn_until_us = NowUs() + kMaxTurnWaitUs;
  // A key that is limited to some jobs may not see others' probes.
  if (options.access && !options.access->limit.empty()) {
    PutMark(kMeasures);
    return ProbeLink();
  }
  claims_turn = false;
  PutMark(kWaitsToMeasure);
  LookForTurn();
}

void Handler::Impl::LookForTurn() {
  look_for_turn_at_us = tuplespace::kForeverUs;
  tuplespace::List list;
  list.pattern = AllProbes();
  list.metadata_only = true;
  client.Submit(std::move(list), [this, of = connection](ReplyBody&& reply) {
    if (of != connection) return;
    // An older broker refuses.
    const auto* found = std::get_if<tuplespace::Found>(&reply);
    std::vector<Key> probes;
    if (found != nullptr) {
      for (const tuplespace::FoundTuple& tuple : found->tuples) probes.push_back(tuple.key);
    }
    OnTurn(NowUs() >= turn_until_us ? ProbeTurn::kMeasure
                                    : TurnOf(probes, client.id(), claims_turn));
  });
}

void Handler::Impl::OnTurn(ProbeTurn turn) {
  const bool claims = turn != ProbeTurn::kWait;
  const bool is_new = claims != std::exchange(claims_turn, claims);
  if (is_new) {
    PutMark(claims ? kMeasures : kWaitsToMeasure);
    const Key before = ProbeKey(client.id(), claims ? kWaitsToMeasure : kMeasures);
    Submit(tuplespace::Retire{tuplespace::Pattern::Of(before), false});
  }
  if (turn == ProbeTurn::kMeasure) return ProbeLink();
  if (is_new && claims) return LookForTurn();
  look_for_turn_at_us = NowUs() + kLookForTurnEveryUs;
}

void Handler::Impl::EndProbe() {
  Submit(tuplespace::Retire{ProbesOf(client.id()), false});
  PutCapacity();
}

void Handler::Impl::PutMark(std::int64_t number) {
  tuplespace::Tuple tuple;
  tuple.key = ProbeKey(client.id(), number);
  tuple.ephemeral = true;
  std::vector<tuplespace::Tuple> tuples;
  tuples.push_back(std::move(tuple));
  Submit(tuplespace::Put{std::move(tuples)});
}

void Handler::Impl::ProbeLink() {
  const std::optional<std::uint64_t> bytes = link_probe.Next();
  if (!bytes) {
    capacity.link_ns_per_kib = link_probe.ns_per_kib();
    capacity.link_round_trip_us = link_probe.round_trip_us();
    return EndProbe();
  }
  const std::int64_t begin_us = NowUs();
  for (std::uint64_t left = *bytes; left > 0;) {
    const std::uint64_t size = std::min(left, kMaxProbeBytes);
    left -= size;
    PutProbe(size, left == 0 ? std::optional(begin_us) : std::nullopt);
  }
}

// Each probe is removed before the next one is put, so that a handler never has much in the space.
// `begin_us`: when this one began.
void Handler::Impl::PutProbe(std::uint64_t bytes, std::optional<std::int64_t> begin_us) {
  tuplespace::Tuple tuple;
  tuple.key = ProbeKey(client.id(), ++probe_number);
  tuple.payload = Payload::Copy(std::string(bytes, '\0'));
  tuple.ephemeral = true;
  const Key key = tuple.key;
  tuplespace::Put put;
  put.tuples.push_back(std::move(tuple));
  client.Submit(std::move(put), [this, begin_us, of = connection](ReplyBody&& reply) {
    // If it was resent over a new connection, it says nothing about the link.
    if (!begin_us || of != connection) return;
    if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
      Log(fmt::format("the broker refused to measure the link: {}", error->text));
      return EndProbe();
    }
    link_probe.Note(NowUs() - *begin_us);
    ProbeLink();
  });
  Submit(tuplespace::Retire{tuplespace::Pattern::Of(key), false});
}

}  // namespace acan
