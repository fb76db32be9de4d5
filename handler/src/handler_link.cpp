// Handler: measures its link when it joins.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "handler_impl.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;
using tuplespace::Payload;

constexpr std::uint64_t kMaxProbeBytes = 256 << 10;  // of one tuple
constexpr int kMaxProbeTurns = 3;                    // in one connection

}  // namespace

// Handlers share the broker's link, so each measures alone: while it holds the turn under a lease.
// They queue in the space, which costs nothing. Until then the manager takes the link for a usual
// one.
void Handler::Impl::AskToProbe() {
  link_probe = {};
  tuplespace::Get get;
  get.pattern = tuplespace::Pattern::Of(ProbeTurnKey());
  get.offer_bytes = 0;  // the queue prefers small offers
  get.lease_us = kProbeTurnUs;
  get.ns_per_kib = core.ns_per_kib();  // the space keeps the last values
  get.holds_from_bytes = options.holds_from_bytes;
  probe_get =
      client.Submit(std::move(get), [this](ReplyBody&& reply) { OnProbeTurn(std::move(reply)); });
}

void Handler::Impl::OnProbeTurn(ReplyBody&& reply) {
  probe_get.reset();
  if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
    return Log(
        fmt::format("the broker does not let this handler measure its link: {}", error->text));
  }
  const auto* turn = std::get_if<tuplespace::Grants>(&reply);
  if (turn == nullptr) return;
  if (turn->grants.empty()) return AskToProbe();  // it was benched, and must ask again
  probe_turn = {turn->grants.front().key, turn->grants.front().fence};
  ++probe_turns;
  ProbeLink();
}

void Handler::Impl::EndProbe() {
  client.Submit(tuplespace::Release{probe_turn}, [this, of = connection](ReplyBody&& reply) {
    if (of == connection) OnProbeTurnEnded(reply);
  });
}

// Only if the lease had not ended did nobody else measure meanwhile.
void Handler::Impl::OnProbeTurnEnded(const ReplyBody& reply) {
  const auto* lease = std::get_if<tuplespace::LeaseReply>(&reply);
  if (lease == nullptr || link_probe.Next()) return;  // it is not measured
  if (lease->lease == tuplespace::LeaseStatus::kStale) {
    if (probe_turns < kMaxProbeTurns) return AskToProbe();
    return Log(fmt::format(
        "the link could not be measured in {} s, {} times; managers take it for a usual one",
        kProbeTurnUs / 1'000'000, kMaxProbeTurns));
  }
  capacity.link_ns_per_kib = link_probe.ns_per_kib();
  capacity.link_round_trip_us = link_probe.round_trip_us();
  Submit(tuplespace::Retire{tuplespace::Pattern::Of(HandlerKey(client.id())), false});
  PutCapacity();
}

void Handler::Impl::ProbeLink() {
  const std::optional<std::uint64_t> bytes = link_probe.Next();
  if (!bytes) return EndProbe();
  const std::int64_t begin_us = MonotonicUs();
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
    link_probe.Note(MonotonicUs() - *begin_us);
    ProbeLink();
  });
  Submit(tuplespace::Retire{tuplespace::Pattern::Of(key), false});
}

}  // namespace acan
