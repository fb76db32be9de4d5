// Waiters: the waiting Gets of one pattern. A tuple goes to the smallest offer that suffices, and
// of equal ones to the oldest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "tuplespace/messages.h"

namespace tuplespace::internal {

struct ClientState;
struct GetWaiter;

struct ByOffer {
  using is_transparent = void;
  bool operator()(const GetWaiter* a, const GetWaiter* b) const;
  bool operator()(const GetWaiter* a, std::uint64_t need_bytes) const;
};

class Waiters {
 public:
  bool empty() const { return by_offer_.empty(); }
  bool Contains(const GetWaiter* waiter) const { return by_offer_.contains(waiter); }
  // REQUIRES: the waiter is not contained. Until Erase, its offer, sequence and client do not
  // change.
  void Insert(GetWaiter* waiter);
  void Erase(GetWaiter* waiter);
  using Skips = std::function<bool(const ClientState&)>;
  // The first one that offers at least `need_bytes`, is not of `barred` (sorted, as for IsAmong),
  // and whose client `skips` (if set) does not skip; null: none. Adds the number of waiters that
  // were examined to `examined`, if not null. A barred key costs only few of them, however many
  // Gets its clients have.
  GetWaiter* First(std::uint64_t need_bytes, const std::vector<ClientId>& barred,
                   std::uint64_t* examined = nullptr, const Skips& skips = {}) const;

 private:
  // By the key in their clients' ids, then as ByOffer.
  struct Place {
    std::string_view key;
    std::uint64_t offer_bytes = 0;
    std::uint64_t sequence = 0;
  };
  struct ByKey {
    using is_transparent = void;
    static Place PlaceOf(const GetWaiter* waiter);
    bool operator()(const GetWaiter* a, const GetWaiter* b) const;
    bool operator()(const GetWaiter* a, const Place& b) const;
  };
  GetWaiter* FirstByKey(std::uint64_t need_bytes, const std::vector<ClientId>& barred,
                        std::uint64_t& examined, const Skips& skips) const;

  std::set<GetWaiter*, ByOffer> by_offer_;
  std::set<GetWaiter*, ByKey> by_key_;  // the same ones
};

}  // namespace tuplespace::internal
