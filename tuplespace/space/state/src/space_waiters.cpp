#include "space_waiters.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <tuple>

#include "space_records.h"

namespace tuplespace::internal {

namespace {

// So many barred waiters are passed over one by one. Beyond that a look for each key is cheaper.
constexpr std::uint64_t kMaxPassedOver = 32;

bool IsPassedOver(const GetWaiter& waiter, const std::vector<ClientId>& barred,
                  const Waiters::Skips& skips) {
  const ClientState& client = *waiter.taker.client;
  return IsAmong(barred, *client.id) || (skips && skips(client));
}

}  // namespace

bool ByOffer::operator()(const GetWaiter* a, const GetWaiter* b) const {
  return std::tie(a->taker.offer_bytes, a->sequence) < std::tie(b->taker.offer_bytes, b->sequence);
}

bool ByOffer::operator()(const GetWaiter* a, std::uint64_t need_bytes) const {
  return a->taker.offer_bytes < need_bytes;
}

Waiters::Place Waiters::ByKey::PlaceOf(const GetWaiter* waiter) {
  return {KeyPrefixOf(*waiter->taker.client->id), waiter->taker.offer_bytes, waiter->sequence};
}

bool Waiters::ByKey::operator()(const GetWaiter* a, const GetWaiter* b) const {
  return (*this)(a, PlaceOf(b));
}

bool Waiters::ByKey::operator()(const GetWaiter* a, const Place& b) const {
  const Place of_a = PlaceOf(a);
  return std::tie(of_a.key, of_a.offer_bytes, of_a.sequence) <
         std::tie(b.key, b.offer_bytes, b.sequence);
}

void Waiters::Insert(GetWaiter* waiter) {
  const bool is_new = by_offer_.insert(waiter).second && by_key_.insert(waiter).second;
  assert(is_new);
  static_cast<void>(is_new);
}

void Waiters::Erase(GetWaiter* waiter) {
  by_offer_.erase(waiter);
  by_key_.erase(waiter);
}

GetWaiter* Waiters::First(std::uint64_t need_bytes, const std::vector<ClientId>& barred,
                          std::uint64_t* examined, const Skips& skips) const {
  std::uint64_t ignored = 0;
  std::uint64_t& count = examined != nullptr ? *examined : ignored;
  std::uint64_t passed_over = 0;
  for (auto at = by_offer_.lower_bound(need_bytes); at != by_offer_.end(); ++at) {
    ++count;
    if (!IsPassedOver(**at, barred, skips)) return *at;
    if (++passed_over == kMaxPassedOver) {
      return FirstByKey(need_bytes, barred, count, skips);
    }
  }
  return nullptr;
}

GetWaiter* Waiters::FirstByKey(std::uint64_t need_bytes, const std::vector<ClientId>& barred,
                               std::uint64_t& examined, const Skips& skips) const {
  GetWaiter* best = nullptr;
  auto at = by_key_.begin();
  while (at != by_key_.end()) {
    const std::string_view key = ByKey::PlaceOf(*at).key;
    const bool is_barred =
        !key.empty() && std::binary_search(barred.begin(), barred.end(), key, std::less<>());
    ++examined;
    if (!is_barred) {
      const auto is_of_key = [&] { return at != by_key_.end() && ByKey::PlaceOf(*at).key == key; };
      at = by_key_.lower_bound(Place{key, need_bytes, 0});
      while (is_of_key() && IsPassedOver(**at, barred, skips)) {
        ++at;
        ++examined;
      }
      if (is_of_key() && (best == nullptr || ByOffer{}(*at, best))) best = *at;
    }
    at = by_key_.lower_bound(Place{key, UINT64_MAX, UINT64_MAX});
    while (at != by_key_.end() && ByKey::PlaceOf(*at).key == key) ++at;
  }
  return best;
}

}  // namespace tuplespace::internal
