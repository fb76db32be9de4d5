// Waiters: which waiting Get is the next, and how many are examined to find it.
#include "space_waiters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "space_records.h"

namespace tuplespace::internal {
namespace {

class WaitersTest : public ::testing::Test {
 protected:
  GetWaiter* Add(const ClientId& client, std::uint64_t offer_bytes) {
    clients_.emplace_back().id = std::make_shared<const ClientId>(client);
    GetWaiter& waiter = gets_.emplace_back();
    waiter.sequence = gets_.size();
    waiter.taker.client = &clients_.back();
    waiter.taker.offer_bytes = offer_bytes;
    waiters_.Insert(&waiter);
    added_.push_back(&waiter);
    return &waiter;
  }
  // What First should find: all waiters are examined.
  GetWaiter* Expected(std::uint64_t need_bytes, const std::vector<ClientId>& barred) const {
    GetWaiter* best = nullptr;
    for (GetWaiter* waiter : added_) {
      if (waiter->taker.offer_bytes < need_bytes) continue;
      if (IsAmong(barred, *waiter->taker.client->id)) continue;
      if (best == nullptr || ByOffer{}(waiter, best)) best = waiter;
    }
    return best;
  }

  std::deque<ClientState> clients_;
  std::deque<GetWaiter> gets_;
  std::vector<GetWaiter*> added_;
  Waiters waiters_;
};

TEST_F(WaitersTest, ClientsThatAreSkippedDoNotComeFirst) {
  for (int i = 0; i < 100; ++i) Add("evil/" + std::to_string(i), 100);
  GetWaiter* const good = Add("good/1", 200);
  const auto skips = [](const ClientState& client) { return client.id->starts_with("evil/"); };
  EXPECT_EQ(waiters_.First(50, {}, nullptr, skips), good);
  EXPECT_EQ(waiters_.First(50, {"good/"}, nullptr, skips), nullptr);
  Add("evil/good", 90);
  EXPECT_EQ(waiters_.First(50, {}, nullptr, skips), good);
}

TEST_F(WaitersTest, ABarredKeyCostsLittleHoweverManyGetsItHas) {
  for (int i = 0; i < 10'000; ++i) Add("evil/" + std::to_string(i % 100), 100);
  GetWaiter* const good = Add("good/1", 200);
  Add("good/2", 201);
  std::uint64_t examined = 0;
  EXPECT_EQ(waiters_.First(50, {"evil/"}, &examined), good);
  EXPECT_LE(examined, 100u);
  EXPECT_EQ(waiters_.First(50, {"evil/", "good/"}), nullptr);
  EXPECT_EQ(waiters_.First(50, {"evil/", "good/1"}), added_.back());
  EXPECT_EQ(waiters_.First(202, {}), nullptr);
  waiters_.Erase(good);
  EXPECT_FALSE(waiters_.Contains(good));
  EXPECT_EQ(waiters_.First(50, {"evil/"}), added_.back());
}

TEST_F(WaitersTest, TheFirstIsTheSmallestOfferThatSufficesAndIsNotBarred) {
  std::mt19937 random(1);
  const auto below = [&random](unsigned end) { return static_cast<unsigned>(random() % end); };
  const auto any_id = [&] {
    const unsigned key = below(5);
    const std::string name = std::to_string(below(40));
    return key == 0 ? name : std::string(1, static_cast<char>('a' + key)) + "/" + name;
  };
  for (int i = 0; i < 600; ++i) Add(any_id(), below(30));
  for (int i = 0; i < 2000; ++i) {
    std::vector<ClientId> barred;
    for (unsigned count = below(20); count > 0; --count) barred.push_back(any_id());
    for (const char* key : {"b/", "c/", "d/", "e/"}) {
      if (below(2) == 0) barred.push_back(key);
    }
    std::sort(barred.begin(), barred.end());
    const std::uint64_t need_bytes = below(32);
    ASSERT_EQ(waiters_.First(need_bytes, barred), Expected(need_bytes, barred)) << i;
    if (i % 10 == 0 && !added_.empty()) {
      const std::size_t at = below(static_cast<unsigned>(added_.size()));
      waiters_.Erase(added_[at]);
      added_.erase(added_.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

}  // namespace
}  // namespace tuplespace::internal
