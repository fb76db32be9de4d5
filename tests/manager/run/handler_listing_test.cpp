#include "handler_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using tuplespace::FoundTuple;
using tuplespace::ReplyBody;
using tuplespace::RequestBody;

std::string CapacityText(const std::string& name, const std::string& jobs = "") {
  Capacity capacity;
  capacity.name = name;
  capacity.jobs = jobs;
  return CapacityToJson(capacity);
}

std::string ReportText(std::uint64_t tasks) {
  Report report;
  report.tasks = tasks;
  return ReportToJson(report);
}

// A listing of a space that the test fills. Its requests wait until Answer.
class HandlerListingTest : public ::testing::Test {
 protected:
  void Put(const tuplespace::Key& key, const std::string& text) {
    FoundTuple& tuple = space_[key];
    tuple.key = key;
    tuple.payload = tuplespace::Payload::Copy(text);
    tuple.payload_bytes = text.size();
    tuple.hash = tuplespace::HashOf(tuple.payload.bytes());
    tuple.put_by = std::get<std::string>(key.Fields()[1]);
  }
  void Put(const std::string& id) { Put(HandlerKey(id), CapacityText(id)); }

  // The keys of payloads that a listing reads.
  std::multiset<tuplespace::Key> List() {
    read_.clear();
    reports_.clear();
    listing_.Begin();
    Answer();
    return read_;
  }
  void Answer() {
    while (!requests_.empty()) {
      auto [request, answer] = std::move(requests_.front());
      requests_.pop_front();
      answer(AnswerTo(request));
    }
    EXPECT_FALSE(listing_.busy());
  }
  ReplyBody AnswerTo(const RequestBody& request) {
    tuplespace::Found found;
    if (const auto* list = std::get_if<tuplespace::List>(&request)) {
      EXPECT_TRUE(list->metadata_only);
      for (const auto& [key, tuple] : space_) {
        if (list->pattern.Matches(key)) found.tuples.push_back(Copy(tuple, true));
      }
      return found;
    }
    if (std::holds_alternative<tuplespace::Count>(request)) {
      return tuplespace::CountReply{managers_, {{0, managers_}}};
    }
    const auto& read = std::get<tuplespace::Read>(request);
    EXPECT_EQ(read.wait_us, 0);
    for (const tuplespace::Pattern& pattern : read.patterns) {
      const auto key = pattern.AsExactKey();
      const auto at = key ? space_.find(*key) : FirstReport(pattern);
      if (at == space_.end()) continue;
      found.tuples.push_back(Copy(at->second, read.metadata_only));
      if (read.metadata_only) continue;
      read_.insert(at->first);
      if (damaged_.contains(at->first)) {
        return tuplespace::RequestError{tuplespace::ErrorCode::kDamaged, "damaged"};
      }
    }
    return found;
  }
  std::map<tuplespace::Key, FoundTuple>::iterator FirstReport(const tuplespace::Pattern& pattern) {
    const auto id = std::get<std::string>(pattern.fields[1].value);
    const auto at = space_.lower_bound(ReportKey(id, INT64_MIN));
    return at != space_.end() && pattern.Matches(at->first) ? at : space_.end();
  }
  static FoundTuple Copy(FoundTuple tuple, bool metadata_only) {
    if (metadata_only) tuple.payload = {};
    return tuple;
  }

  std::uint64_t managers_ = 1;  // that lead a job
  std::map<tuplespace::Key, FoundTuple> space_;
  std::set<tuplespace::Key> damaged_;
  std::deque<std::pair<RequestBody, std::function<void(ReplyBody&&)>>> requests_;
  std::multiset<tuplespace::Key> read_;
  std::vector<HandlersSeen> seen_;
  std::vector<std::pair<std::string, std::uint64_t>> reports_;
  HandlerListing listing_{
      "job",
      [this](RequestBody request, std::function<void(ReplyBody&&)> answer) {
        requests_.emplace_back(std::move(request), std::move(answer));
      },
      {.handlers = [this](HandlersSeen&& seen) { seen_.push_back(std::move(seen)); },
       .report = [this](const std::string& id,
                        const Report& report) { reports_.emplace_back(id, report.tasks); }}};
};

TEST_F(HandlerListingTest, FindsHandlersAndTheirReports) {
  Put("a/1");
  Put("b/1");
  Put(HandlerKey("c/1"), CapacityText("limited", "another job"));
  Put(HandlerKey("d/1"), "no capacity");
  Put(ReportKey("a/1", 7), ReportText(3));
  Put(ReportKey("e/1", 1), ReportText(4));
  List();
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_THAT(seen_[0].handlers, ElementsAre(::testing::Key("a/1"), ::testing::Key("b/1")));
  EXPECT_EQ(seen_[0].handlers.at("b/1").name, "b/1");
  EXPECT_EQ(seen_[0].of_other_jobs, 1);
  EXPECT_THAT(reports_, ElementsAre(Pair("a/1", 3)));
}

TEST_F(HandlerListingTest, ReadsEachTupleOnce) {
  Put("a/1");
  Put(HandlerKey("d/1"), "no capacity");
  Put(ReportKey("a/1", 1), ReportText(1));
  EXPECT_EQ(List().size(), 3u);
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_EQ(seen_.back().handlers.size(), 1u);
  Put(HandlerKey("a/1"), CapacityText("it joined again"));
  EXPECT_THAT(List(), ElementsAre(HandlerKey("a/1")));
  EXPECT_EQ(seen_.back().handlers.at("a/1").name, "it joined again");
  space_.erase(ReportKey("a/1", 1));
  Put(ReportKey("a/1", 2), ReportText(2));
  EXPECT_THAT(List(), ElementsAre(ReportKey("a/1", 2)));
  EXPECT_THAT(reports_, ElementsAre(Pair("a/1", 2)));
  space_.erase(HandlerKey("a/1"));
  EXPECT_THAT(List(), IsEmpty());
  EXPECT_THAT(seen_.back().handlers, IsEmpty());
  Put(HandlerKey("a/1"), CapacityText("it joined again"));
  EXPECT_EQ(List().size(), 2u);
}

// However many managers there are, together they take little of the broker's time.
TEST_F(HandlerListingTest, ManyManagersListManyHandlersLessOften) {
  for (int i = 0; i < 1000; ++i) Put("a/" + std::to_string(i));
  List();
  List();  // nothing has to be read
  const std::int64_t alone_us = listing_.pause_us();
  EXPECT_GT(alone_us, 0);
  managers_ = 20;
  List();
  EXPECT_EQ(listing_.pause_us(), alone_us);
  managers_ = 200;
  List();
  EXPECT_EQ(listing_.pause_us(), 8 * alone_us);
}

// Anyone with a handler's key may put tuples about itself, in a space without keys of any size.
TEST_F(HandlerListingTest, WhatIsTooLongIsNotRead) {
  Put("honest/1");
  Put(ReportKey("honest/1", 1), ReportText(5));
  const std::string large(1 << 20, ' ');
  for (int i = 0; i < 4096; ++i) {
    const std::string id = "evil/" + std::to_string(i);
    if (i % 2 == 0) Put(id);
    FoundTuple report;
    report.key = ReportKey(id, 0);
    report.put_by = id;
    report.payload_bytes = large.size();
    space_[report.key] = report;
  }
  Put(HandlerKey("evil/1"), std::string(kMaxCapacityBytes + 1, ' '));
  const auto read = List();
  EXPECT_EQ(read.count(ReportKey("honest/1", 1)), 1u);
  EXPECT_EQ(read.size(), 2u + 2048) << "the capacities that are none too long, and one report";
  EXPECT_THAT(reports_, ElementsAre(Pair("honest/1", 5)));
  EXPECT_LE(listing_.pause_us(), 10'000'000);
}

TEST_F(HandlerListingTest, ManyLongCapacitiesDelayOnlyEachOther) {
  constexpr std::size_t kLong = 1024;
  for (std::size_t i = 0; i < kLong; ++i) {
    std::string text = CapacityText("long");
    text.resize(kMaxCapacityBytes, ' ');
    Put(HandlerKey("evil/" + std::to_string(i)), text);
  }
  Put("honest/1");
  std::uint64_t bytes = 0;
  for (const auto& key : List()) bytes += space_.at(key).payload_bytes;
  EXPECT_LE(bytes, HandlerListing::kMaxBytesAtOnce);
  EXPECT_EQ(seen_.back().handlers.count("honest/1"), 1u);
  EXPECT_LE(listing_.pause_us(), 10'000'000);
  std::size_t rounds = 1;
  while (seen_.back().handlers.size() <= kLong && rounds < 100) {
    List();
    ++rounds;
  }
  EXPECT_EQ(rounds, kLong * kMaxCapacityBytes / HandlerListing::kMaxBytesAtOnce + 1);
  List();
  EXPECT_LE(listing_.pause_us(), 10'000'000);
}

// The client says that an answer is damaged, and not which of its payloads.
TEST_F(HandlerListingTest, APayloadWithoutItsHashHidesNoOther) {
  for (int i = 0; i < 100; ++i) {
    const std::string id = "h/" + std::to_string(i);
    Put(id);
    Put(ReportKey(id, 1), ReportText(1));
  }
  damaged_ = {HandlerKey("h/7"), HandlerKey("h/8"), HandlerKey("h/99"), ReportKey("h/50", 1)};
  List();
  EXPECT_EQ(seen_.back().handlers.size(), 97u);
  EXPECT_EQ(reports_.size(), 96u);
  EXPECT_THAT(List(), IsEmpty()) << "they are not read again";
  EXPECT_EQ(seen_.back().handlers.size(), 97u);
}

TEST_F(HandlerListingTest, ThereIsOneListingAtATime) {
  Put("a/1");
  listing_.Begin();
  listing_.Begin();
  listing_.Begin();
  EXPECT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(listing_.busy());
  Answer();
  EXPECT_EQ(seen_.size(), 2u) << "the second one begins after the end of the first";
}

TEST_F(HandlerListingTest, AnErrorEndsOnlyThisListing) {
  Put("a/1");
  listing_.Begin();
  requests_.front().second(
      tuplespace::RequestError{tuplespace::ErrorCode::kBusy, "somebody is busy"});
  requests_.pop_front();
  EXPECT_FALSE(listing_.busy());
  EXPECT_THAT(seen_, IsEmpty());
  List();
  EXPECT_EQ(seen_.size(), 1u);
}

}  // namespace
}  // namespace acan
