// The records by hash and in order, compared with a std::map, through splits, joins and moved hash
// slots.
#include "space_store.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "space_pattern_index.h"

namespace tuplespace::internal {
namespace {

struct Shown {
  Record* record = nullptr;
  bool stored = false;
};

class StoreTest : public ::testing::Test {
 protected:
  void Add(const Key& key, bool stored) {
    Record* record =
        stored ? store_.AddShown(key, store_.HashOf(key.bytes())) : store_.FindOrAdd(key);
    record->state = stored ? RecordState::kReady : RecordState::kDone;
    expected_[record->key.bytes()] = {record, stored};
  }
  void Toggle(Shown* shown) {
    shown->stored ? store_.Hide(shown->record) : store_.Show(shown->record);
    shown->stored = !shown->stored;
    shown->record->state = shown->stored ? RecordState::kReady : RecordState::kDone;
  }
  void Remove(std::map<std::string, Shown, std::less<>>::iterator at) {
    if (at->second.stored) Toggle(&at->second);
    at->second.record->state = RecordState::kWanted;
    store_.EraseIfUnused(at->second.record);
    expected_.erase(at);
  }
  void Check() {
    ASSERT_TRUE(store_.IsConsistent());
    ASSERT_EQ(store_.size(), expected_.size());
    std::vector<const Record*> expected[2];
    for (const auto& [bytes, shown] : expected_) {
      ASSERT_EQ(store_.Find(bytes), shown.record);
      expected[shown.stored].push_back(shown.record);
    }
    std::vector<const Record*> scanned[2];
    const auto collect = [&scanned](bool stored) {
      return [&scanned, stored](const Record* record) {
        scanned[stored].push_back(record);
        return true;
      };
    };
    store_.ScanStored(Pattern{{}, true}, collect(true));
    store_.ScanShadows(Pattern{{}, true}, collect(false));
    ASSERT_EQ(scanned[true], expected[true]);
    ASSERT_EQ(scanned[false], expected[false]);
  }

  const KeyHash hash_{1};
  Store store_{hash_};
  std::map<std::string, Shown, std::less<>> expected_;
};

Key KeyOf(std::uint64_t n) {
  // Keys of two lengths, some of them neighbours in the order.
  if (n % 3 == 0) return Key{"r", static_cast<std::int64_t>(n / 3)};
  return Key{"r", static_cast<std::int64_t>(n / 7), "a longer name than fits in place",
             static_cast<std::int64_t>(n)};
}

TEST_F(StoreTest, KeepsEveryKeyInOrderThroughRandomChanges) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 40; ++round) {
    const bool grow = round % 4 != 3;
    for (int i = 0; i < 600; ++i) {
      const Key key = KeyOf(random() % 20'000);
      const auto at = expected_.find(key.bytes());
      if (at == expected_.end()) {
        Add(key, random() % 2 == 0);
      } else {
        Toggle(&at->second);
      }
      ASSERT_TRUE(store_.IsConsistent());
      if (grow && random() % 4 != 0) continue;
      for (int gone = 0; gone < (grow ? 1 : 3) && !expected_.empty(); ++gone) {
        auto victim = expected_.lower_bound(KeyOf(random() % 20'000).bytes());
        Remove(victim == expected_.end() ? expected_.begin() : victim);
      }
    }
    Check();
    ASSERT_FALSE(HasFatalFailure()) << "in round " << round;
  }
  while (!expected_.empty()) Remove(expected_.begin());
  Check();
}

TEST_F(StoreTest, KeepsKeysThatComeInSequenceBetweenOthers) {
  for (std::int64_t i = 999; i >= 0; --i) Add(Key{"r", i * 7919 % 1000, "other"}, true);
  for (std::int64_t i = 0; i < 1000; ++i) Add(Key{"r", i}, true);
  Check();
  // Removed from the front, as retired steps are.
  for (int i = 0; i < 1900; ++i) Remove(expected_.begin());
  Check();
  for (std::int64_t i = 0; i < 500; ++i) Add(Key{"r", -i}, i % 2 == 0);
  Check();
}

// Otherwise done tasks, and keys that are only wanted, would make scans of their neighbours slow.
TEST_F(StoreTest, ScansExamineOnlyWhatTheySeek) {
  constexpr std::int64_t kMany = 64 * KeyRun::kMost;
  const Pattern every{{}, true};
  std::size_t found = 0;
  const auto count = [&found](const Record*) {
    ++found;
    return true;
  };
  for (std::int64_t i = 0; i < kMany; ++i) Add(Key{"r", i}, i == kMany / 2);
  EXPECT_EQ(store_.ScanStored(every, count), 1u);
  EXPECT_EQ(found, 1u);
  EXPECT_EQ(store_.ScanShadows(every, count), static_cast<std::uint64_t>(kMany - 1));
  std::uint64_t most = 1;
  std::string next;
  EXPECT_TRUE(store_.ScanSome(every, &most, &next, count));

  for (auto& [bytes, shown] : expected_) Toggle(&shown);
  Check();
  EXPECT_EQ(store_.ScanStored(every, count), static_cast<std::uint64_t>(kMany - 1));
  EXPECT_EQ(store_.ScanShadows(every, count), 1u);
}

class KeyOrderTest : public ::testing::Test {
 protected:
  void Insert(std::int64_t n, bool stored) {
    order_.Insert(&records_.try_emplace(n, Key{"r", n}).first->second, stored);
    ASSERT_TRUE(order_.IsConsistent()) << "after inserting " << n;
  }
  void Erase(std::int64_t n) {
    order_.Erase(&records_.at(n));
    records_.erase(n);
    ASSERT_TRUE(order_.IsConsistent()) << "after erasing " << n;
  }

  std::map<std::int64_t, Record> records_;  // outlives `order_`
  KeyOrder order_;
};

// The place of the last stored record moves to the upper half of its run.
TEST_F(KeyOrderTest, RemembersPlacesWhileARunIsHalved) {
  for (const std::int64_t last : {15, 16, 17, 31}) {
    for (std::int64_t n = 0; n < 32; ++n) {
      if (n != last) Insert(10 * n, true);
    }
    Insert(10 * last, true);
    Insert(45, false);
    Insert(10 * last + 1, true);
    while (!records_.empty()) Erase(records_.begin()->first);
  }
}

TEST_F(KeyOrderTest, JoinsRunsWhicheverWayTheyGetEmpty) {
  constexpr std::int64_t kMany = 64 * KeyRun::kMost;
  for (const bool ascending : {true, false}) {
    for (std::int64_t n = 0; n < kMany; ++n) Insert(n, n % 2 == 0);
    EXPECT_GE(order_.runs(), 64u);
    for (std::int64_t i = 0; i < kMany; ++i) {
      const std::int64_t n = ascending ? i : kMany - 1 - i;
      if (n % KeyRun::kMost != 0) Erase(n);
    }
    EXPECT_EQ(order_.size(), 64u);
    EXPECT_LE(order_.runs(), 64u / 8 + 1);
    while (!records_.empty()) Erase(records_.begin()->first);
  }
}

// Few different values, so that many keys have fields in common, among them such as have a role in
// the encoding.
Field RandomField(std::mt19937_64& random) {
  static const std::vector<Field> kFields = {
      std::int64_t{INT64_MIN}, std::int64_t{-1},
      std::int64_t{0},         std::int64_t{7},
      std::string(),           std::string("a"),
      std::string("a\0b", 3),  std::string("a\0", 2),
      std::string("\xFF\x01"), std::string("longer than a word")};
  return kFields[random() % kFields.size()];
}

Key RandomKey(std::mt19937_64& random) {
  std::vector<Field> fields(random() % 8 == 0 ? kMaxKeyFields : 1 + random() % 4);
  for (Field& field : fields) field = RandomField(random);
  return Key(fields);
}

FieldPattern RandomPattern(const Field& field, std::mt19937_64& random) {
  if (random() % 2 == 0) return FieldPattern::Exact(field);
  if (random() % 2 == 0) return FieldPattern::Any();
  if (const auto* text = std::get_if<std::string>(&field)) {
    return FieldPattern::Prefix(text->substr(0, random() % (text->size() + 1)));
  }
  const std::int64_t bound = std::get<std::int64_t>(field);
  return random() % 2 == 0 ? FieldPattern::AtMost(bound) : FieldPattern::AtLeast(bound);
}

// A pattern that matches this key, or would if it had more fields or fewer.
Pattern RandomPattern(const Key& key, std::mt19937_64& random) {
  Pattern pattern;
  pattern.open = random() % 2 == 0;
  std::vector<Field> fields = key.Fields();
  if (random() % 4 == 0) fields.resize(random() % fields.size());
  for (const Field& field : fields) pattern.fields.push_back(RandomPattern(field, random));
  return pattern;
}

TEST_F(StoreTest, ScansFindWhatThePatternMatches) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 500; ++i) {
    const Key key = RandomKey(random);
    if (!expected_.contains(key.bytes())) Add(key, random() % 2 == 0);
  }
  std::size_t found = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Pattern pattern = RandomPattern(RandomKey(random), random);
    std::vector<const Record*> matching[2];
    for (const auto& [bytes, shown] : expected_) {
      if (pattern.Matches(shown.record->key)) matching[shown.stored].push_back(shown.record);
    }
    std::vector<const Record*> stored, shadows, in_slices;
    const auto collect = [](std::vector<const Record*>& into) {
      return [&into](const Record* record) {
        into.push_back(record);
        return true;
      };
    };
    store_.ScanStored(pattern, collect(stored));
    store_.ScanShadows(pattern, collect(shadows));
    std::string next;
    for (std::uint64_t most = 0; most == 0;) {
      most = 10;
      if (store_.ScanSome(pattern, &most, &next, collect(in_slices))) break;
    }
    ASSERT_EQ(stored, matching[true]) << pattern.ToString();
    ASSERT_EQ(shadows, matching[false]) << pattern.ToString();
    ASSERT_EQ(in_slices, matching[true]) << pattern.ToString();
    found += stored.size();
  }
  EXPECT_GT(found, 2'000u);
}

struct Indexed {
  Pattern pattern;
};

TEST(PatternIndexTest, FindsThePatternsThatMatch) {
  std::mt19937_64 random(12);
  const KeyHash hash(1);
  PatternIndex<Indexed> index(hash);
  std::set<const Indexed*> all;
  while (all.size() < 300) {
    Indexed one{RandomPattern(RandomKey(random), random)};
    if (index.Find(one.pattern) != nullptr) continue;
    all.insert(index.Add(std::make_unique<Indexed>(std::move(one))));
  }
  std::size_t matches = 0;
  for (int i = 0; i < 2'000; ++i) {
    const Key key = RandomKey(random);
    std::set<const Indexed*> expected, found;
    for (const Indexed* one : all) {
      if (one->pattern.Matches(key)) expected.insert(one);
    }
    index.ForEachMatch(key.bytes(), [&](const Indexed* one) { return found.insert(one).second; });
    ASSERT_EQ(found, expected) << key.ToString();
    matches += found.size();
  }
  EXPECT_GT(matches, 2'000u);
}

// Makes different keys whose hashes end in the same bits. In a table with as many slots as these
// bits have values, all of them belong into one slot.
std::vector<Key> Colliding(const KeyHash& hash, std::size_t count, std::size_t low_bits,
                           const std::string& name) {
  std::vector<Key> keys;
  for (std::int64_t n = 0; keys.size() < count; ++n) {
    Key key{"r", n, name};
    if ((hash(key.bytes()) & low_bits) == 0) keys.push_back(std::move(key));
  }
  return keys;
}

// Otherwise a client could slow down all others by keys that it has computed on its own machine.
TEST(KeyHash, KeysThatCollideUnderOneSecretDoNotCollideUnderAnother) {
  constexpr std::size_t kLowBits = 255;
  constexpr std::size_t kCount = 64;
  const KeyHash known(1), other(2);
  // XXH3 hashes keys of these lengths in different ways.
  for (const std::size_t length : {0, 4, 20, 100, 200, 256}) {
    std::set<std::size_t> slots;
    for (const Key& key : Colliding(known, kCount, kLowBits, std::string(length, 'a'))) {
      EXPECT_EQ(known(key.bytes()) & kLowBits, 0u);
      slots.insert(other(key.bytes()) & kLowBits);
    }
    EXPECT_GT(slots.size(), kCount / 2) << "names of " << length << " bytes";
  }
}

TEST(KeyHash, DependsOnNothingButTheSecretAndTheKey) {
  const KeyHash one(7), same(7);
  for (std::uint64_t n = 0; n < 100; ++n) {
    EXPECT_EQ(one(KeyOf(n).bytes()), same(KeyOf(n).bytes()));
  }
}

}  // namespace
}  // namespace tuplespace::internal
