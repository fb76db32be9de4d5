// Handler: results that stay on the device until a client asks for their bytes.
#include "handler_impl.h"

namespace acan {

using tuplespace::Key;
using tuplespace::MonotonicUs;
using tuplespace::Notice;
using tuplespace::PutStatus;

// A handler with deliberate faults supplies all its results.
std::uint64_t Handler::Impl::ResidentBytes(const Task& task) const {
  std::uint64_t bytes = 0;
  if (!capacity.KeepsResults() || injector) return 0;
  for (const Output& output : task.outputs) {
    if (output.may_be_resident) bytes += output.view.bytes();
  }
  return bytes;
}

// Releases results that another handler put first or that are not needed: readers will not get the
// bytes that are here. Skips a key whose task came again meanwhile, as a later answer concerns its
// result.
void Handler::Impl::OnResident(const std::vector<std::size_t>& resident,
                               const std::vector<Key>& keys, const ReplyBody& reply) {
  const auto* done = std::get_if<tuplespace::CompleteReply>(&reply);
  for (std::size_t i = 0; i < resident.size(); ++i) {
    const auto puts = resident_puts.find(keys[i]);
    if (--puts->second > 0) continue;
    resident_puts.erase(puts);
    const bool stored = done != nullptr && done->results.at(resident[i]) == PutStatus::kStored;
    if (!stored) Step(KeptReleased{keys[i]});
  }
}

// The space has, or keeps, no tuple for what is here under this key. As the space handles requests
// in order, this came before a put of the key that is not answered yet; the answer to that put
// decides.
void Handler::Impl::Release(const Key& key) {
  if (resident_puts.contains(key) && !IsPlanted(HandlerBug::kEarlierReleaseCounts)) {
    return Step(EarlierReleased{key});
  }
  Step(KeptReleased{key});
}

void Handler::Impl::OnNotice(const Notice& notice) {
  if (notice.kind == Notice::Kind::kWanted) {
    Step(KeptWanted{notice.key});
    supplies.Want(notice.key);  // it may have been in the queue before
  }
  if (notice.kind == Notice::Kind::kReleased) Release(notice.key);
}

// Another handler asks for the payload.
tuplespace::Payload Handler::Impl::KeptBytes(const Key& key) {
  const auto kept = cached.find(key);
  if (kept == cached.end()) return {};
  try {
    return device->Fetch(kept->second);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    Log(fmt::format("cannot send {}: {}", key.ToString(), error.what()));
    return {};
  }
}

// One in each turn, as their bytes may take a while to come.
void Handler::Impl::SupplyNext() {
  if (!MaySupply()) return;
  const SupplyQueue::Entry entry = supplies.Take();
  const auto kept = cached.find(entry.key);
  if (kept == cached.end()) return;
  const std::int64_t begin_us = MonotonicUs();
  tuplespace::Payload payload;
  try {
    payload = device->Fetch(kept->second);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    return OnSupplyFailed(entry.key, error.what());
  }
  SubmitSupply(entry, std::move(payload), begin_us);
}

void Handler::Impl::SubmitSupply(const SupplyQueue::Entry& entry, tuplespace::Payload payload,
                                 std::int64_t begin_us) {
  const std::uint64_t bytes = payload.size();
  tuplespace::Tuple tuple;
  tuple.key = entry.key;
  tuple.payload = std::move(payload);
  tuple.held = true;  // until the cache drops it and announces that
  tuplespace::Supply supply;
  supply.tuples.push_back(std::move(tuple));
  // The reply comes from Poll, so the id is known by then.
  auto id = std::make_shared<tuplespace::RequestId>(0);
  *id = client.Submit(std::move(supply), [this, id, key = entry.key, begin_us](ReplyBody&& reply) {
    supplies.OnAnswered(*id);
    OnSupplied(key, begin_us, reply);
  });
  supplies.OnBegun(*id, entry.wanted, bytes);
}

// The core tries again after a pause, and all that fails until then does so for the same reason.
void Handler::Impl::OnSupplyFailed(const Key& key, const std::string& why) {
  if (!core.SuppliesPause()) Log(fmt::format("cannot supply {}: {}", key.ToString(), why));
  Step(SupplyFailed{key});
}

// They are of a session that has ended.
void Handler::Impl::EndSupplies() {
  for (const tuplespace::RequestId id : supplies.Clear()) client.Abandon(id);
}

void Handler::Impl::OnSupplied(const Key& key, std::int64_t begin_us, const ReplyBody& reply) {
  if (const auto* error = std::get_if<tuplespace::RequestError>(&reply)) {
    return OnSupplyFailed(key, error->text);
  }
  const auto* done = std::get_if<tuplespace::PutReply>(&reply);
  if (done != nullptr && done->status.front() == PutStatus::kRetired) return Release(key);
  ++report.supplied_results;
  Step(KeptSupplied{key, MonotonicUs() - begin_us});
}

}  // namespace acan
