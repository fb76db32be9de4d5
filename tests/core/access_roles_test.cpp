// What keys of each role may do with acan's tuples.
#include "acan/core/access_roles.h"

#include <cstdint>

#include "acan/core/names.h"
#include "access_list.h"
#include "gtest/gtest.h"
#include "tuplespace/broker.h"

namespace acan {
namespace {

using tuplespace::Count;
using tuplespace::FieldPattern;
using tuplespace::Get;
using tuplespace::Hold;
using tuplespace::Key;
using tuplespace::List;
using tuplespace::Pattern;
using tuplespace::Put;
using tuplespace::Read;
using tuplespace::RequestBody;
using tuplespace::Retire;
using tuplespace::Supply;
using tuplespace::Tuple;

constexpr const char* kJob = "3f2a3f2a3f2a3f2a";
constexpr const char* kOtherJob = "3f2b3f2b3f2b3f2b";

Key TileOf(const std::string& job) {
  return Key{job + "-k3j4n5", 7, "tile", 0, 0, 64};
}

Read ReadOf(const Key& key, bool metadata_only) {
  Read read;
  read.patterns = {Pattern::Of(key)};
  read.metadata_only = metadata_only;
  return read;
}

Put PutOf(const Key& key, bool task = false) {
  Tuple tuple;
  tuple.key = key;
  if (task) tuple.task.emplace();
  return Put{{tuple}};
}

Get GetOf(const Pattern& pattern) {
  Get get;
  get.pattern = pattern;
  return get;
}

class AccessRolesTest : public ::testing::Test {
 protected:
  // Whether a key of this role may send the request. If `jobs` is not empty, the key is limited to
  // it.
  static bool May(const std::string& role, const std::string& jobs, RequestBody body) {
    const std::string key = tuplespace::MakeKeyPair().public_key;
    const tuplespace::AccessList list(AccessRoles(), {{"k", key, role, jobs}});
    return !RefusalOf(*list.Find(key)->role, "k/1", body);
  }
};

TEST_F(AccessRolesTest, ObserversSeeWhatIsThereButNoWeightsAndNoData) {
  for (const std::string jobs : {"", "3f2a"}) {
    const auto may = [&](RequestBody body) { return May(kObserverRole, jobs, std::move(body)); };
    for (const Key& key : {TileOf(kJob), Key{std::string(kJob) + "-x", 3, "task", "exact"}}) {
      EXPECT_FALSE(may(ReadOf(key, false))) << key.ToString();
      EXPECT_TRUE(may(ReadOf(key, true))) << key.ToString();
      EXPECT_FALSE(may(List{Pattern::Of(key), 1, false}));
      EXPECT_TRUE(may(List{Pattern::Of(key), 1, true}));
      EXPECT_TRUE(may(Count{Pattern::Of(key)}));
      EXPECT_FALSE(may(PutOf(key)));
      EXPECT_FALSE(may(GetOf(Pattern::Of(key))));
      EXPECT_FALSE(may(Hold{{key}, {}}));
      EXPECT_FALSE(may(Retire{Pattern::Of(key), false}));
    }
    EXPECT_FALSE(may(List{{{FieldPattern::Any()}, true}, 1, false}));
    EXPECT_TRUE(may(List{{{FieldPattern::Any()}, true}, 1, true}));
    EXPECT_FALSE(may(ReadOf(DoneKey(kJob), false)));
    EXPECT_TRUE(may(ReadOf(DoneKey(kJob), true)));
    // Anyone may read what handlers publish about themselves.
    EXPECT_TRUE(may(List{AllHandlers(), 1, false}));
    EXPECT_TRUE(may(List{AllReports(), 1, false}));
    EXPECT_TRUE(may(tuplespace::GetStats{}));
  }
}

// Each manager reads what handlers say about themselves.
TEST_F(AccessRolesTest, HandlersSayNoMoreAboutThemselvesThanNeeded) {
  const auto may = [](const Key& key, std::size_t bytes) {
    Put put = PutOf(key);
    put.tuples[0].payload = tuplespace::Payload::Copy(std::string(bytes, ' '));
    return May(kHandlerRole, "", put) && May(kHandlerRole, "3f2a", put);
  };
  EXPECT_TRUE(may(HandlerKey("k/1"), kMaxCapacityBytes));
  EXPECT_FALSE(may(HandlerKey("k/1"), kMaxCapacityBytes + 1));
  EXPECT_TRUE(may(ReportKey("k/1", 3), kMaxReportBytes));
  EXPECT_FALSE(may(ReportKey("k/1", 3), kMaxReportBytes + 1));
  EXPECT_TRUE(may(ProbeKey("k/1", 3), 1 << 20)) << "it measures the link";
}

TEST_F(AccessRolesTest, EachMeasuresItsLinkByProbesOfItsOwn) {
  for (const std::string jobs : {"", "3f2a"}) {
    for (const char* role : {kHandlerRole, kManagerRole}) {
      const Key own = ProbeKey("k/1", 3);
      EXPECT_TRUE(May(role, jobs, PutOf(own))) << role;
      EXPECT_TRUE(May(role, jobs, ReadOf(own, false))) << role;
      EXPECT_TRUE(May(role, jobs, Retire{Pattern::Of(own), false})) << role;
    }
    const Key other = ProbeKey("other/1", 3);
    EXPECT_FALSE(May(kHandlerRole, jobs, PutOf(other)));
    EXPECT_FALSE(May(kHandlerRole, jobs, ReadOf(other, false)));
    EXPECT_FALSE(May(kHandlerRole, jobs, Retire{AllProbes(), false}));
    EXPECT_FALSE(May(kHandlerRole, jobs, List{AllProbes(), 100, true}));
    EXPECT_FALSE(May(kObserverRole, jobs, PutOf(ProbeKey("k/1", 3))));
  }
}

// A client with a handler's key cannot keep others from measuring.
TEST_F(AccessRolesTest, HandlersOnlyBorrowTheTurnToMeasure) {
  for (const std::string jobs : {"", "3f2a"}) {
    const auto may = [&](RequestBody body) { return May(kHandlerRole, jobs, std::move(body)); };
    const Pattern turn = Pattern::Of(ProbeTurnKey());
    EXPECT_TRUE(may(GetOf(turn)));
    EXPECT_FALSE(may(GetOf(AllHandlers())));
    EXPECT_FALSE(may(GetOf(AllProbes())));
    EXPECT_FALSE(may(PutOf(ProbeTurnKey())));
    EXPECT_FALSE(may(Retire{turn, false}));
    EXPECT_FALSE(may(ReadOf(ProbeTurnKey(), true)));
    EXPECT_TRUE(may(Retire{Pattern::Of(HandlerKey("k/1")), false})) << "it announces itself anew";
    EXPECT_FALSE(may(Retire{Pattern::Of(HandlerKey("other/1")), false}));
    EXPECT_FALSE(may(Retire{AllHandlers(), false}));
  }
  for (const tuplespace::Role& role : AccessRoles()) {
    const bool borrows = role.name == kHandlerRole;
    EXPECT_EQ(role.limits.borrow_us, borrows ? kProbeTurnUs : INT64_MAX) << role.name;
  }
}

TEST_F(AccessRolesTest, LimitedKeysStayWithinTheirJobs) {
  for (const std::string jobs : {kJob, "3f2a"}) {
    for (const char* role : {kHandlerRole, kManagerRole}) {
      EXPECT_TRUE(May(role, jobs, ReadOf(TileOf(kJob), false))) << role;
      EXPECT_FALSE(May(role, jobs, ReadOf(TileOf(kOtherJob), false))) << role;
      EXPECT_FALSE(May(role, jobs, ReadOf(TileOf(kOtherJob), true))) << role;
      EXPECT_TRUE(May(role, "", ReadOf(TileOf(kOtherJob), false))) << role;
      // The reply would tell whether the tuple exists.
      EXPECT_TRUE(May(role, jobs, Supply{PutOf(TileOf(kJob)).tuples})) << role;
      EXPECT_FALSE(May(role, jobs, Supply{PutOf(TileOf(kOtherJob)).tuples})) << role;
      EXPECT_TRUE(May(role, jobs, Hold{{TileOf(kJob)}, {TileOf(kOtherJob)}})) << role;
      EXPECT_FALSE(May(role, jobs, Hold{{TileOf(kJob), TileOf(kOtherJob)}, {}})) << role;
    }
    EXPECT_FALSE(May(kObserverRole, jobs, Count{Pattern::Of(TileOf(kOtherJob))}));
    // A handler asks for tasks of any job but receives only those of its own jobs.
    EXPECT_TRUE(May(kHandlerRole, jobs, GetOf(RunnableTasks(true, false))));
    EXPECT_TRUE(May(kHandlerRole, jobs, PutOf(HandlerKey("k/1"))));
    EXPECT_FALSE(May(kHandlerRole, jobs, PutOf(HandlerKey("other/1"))));

    const auto manager = [&](RequestBody body) { return May(kManagerRole, jobs, std::move(body)); };
    for (const char* job : {kJob, kOtherJob}) {
      const bool its = std::string(job) == kJob;
      EXPECT_EQ(manager(PutOf(LeaderKey(job))), its);
      EXPECT_EQ(manager(GetOf(Pattern::Of(LeaderKey(job)))), its);
      EXPECT_EQ(manager(PutOf(DoneKey(job))), its);
      EXPECT_EQ(manager(PutOf(Key{"run", job, "x"})), its);
      EXPECT_EQ(manager(PutOf(QuarantineKey(job, "h"))), its);
      EXPECT_EQ(manager(PutOf(StandbyKey(job, "m"))), its);
      EXPECT_EQ(manager(PutOf(Key{"metrics", job, "run", 0, 256})), its);
      EXPECT_EQ(manager(PutOf(Key{"state", job, "run", 7})), its);
      EXPECT_EQ(manager(PutOf(Key{std::string(job) + "-x", 1, "task", "exact"}, true)), its);
      EXPECT_EQ(manager(Retire{{{FieldPattern::Exact(std::string(job) + "-x"),
                                 FieldPattern::AtMost(INT64_MAX)},
                                true},
                               true}),
                its);
      EXPECT_EQ(manager(Retire{{{FieldPattern::Prefix(std::string(job) + "-")}, true}, false}),
                its);
    }
    EXPECT_TRUE(manager(List{AllHandlers(), 1, false}));
    EXPECT_FALSE(manager(PutOf(HandlerKey("h/1"))));
    EXPECT_FALSE(manager(Retire{AllReports(), false}));
  }
}

// It must neither keep the tasks of other jobs from handlers nor use up what their managers need.
TEST(AccessRoles, LimitWhatAManagerWithALimitUses) {
  const std::string limited = tuplespace::MakeKeyPair().public_key;
  const std::string whole = tuplespace::MakeKeyPair().public_key;
  const tuplespace::AccessList list(
      AccessRoles(), {{"l", limited, kManagerRole, kJob}, {"w", whole, kManagerRole}});
  const tuplespace::ClientLimits& limits = list.Find(limited)->role->limits;
  EXPECT_TRUE(limits.judges_apart);
  EXPECT_LE(limits.get_patterns_of_key, 16u);
  // Managers of many jobs may each wait for a lead, and leave room for those of other keys.
  EXPECT_GE(limits.get_keys_of_key, 256u);
  EXPECT_LE(limits.get_keys_of_key, tuplespace::SpaceLimits{}.get_keys / 16);
  EXPECT_LT(limits.watermarks_of_key, 1000u);
  // Its clients together may use no more than a part of anything.
  for (const std::uint64_t of_key :
       {limits.open_pattern_bytes_of_key, limits.read_patterns_of_key, limits.watched_keys_of_key,
        limits.held_keys_of_key, limits.unread_bytes_of_key, limits.listed_bytes_of_key,
        limits.exclusions_of_key}) {
    EXPECT_LT(of_key, UINT64_MAX);
  }
  EXPECT_LE(limits.unread_bytes_of_key, tuplespace::BrokerOptions{}.client_queue_bytes);
  EXPECT_FALSE(list.Find(whole)->role->limits.judges_apart);
  EXPECT_EQ(list.Find(whole)->role->limits.get_patterns_of_key, UINT64_MAX);
}

// A key's clients may together have a part of the space, which hostile ones would use up. As many
// honest ones as a broker admits need far less, also if it has the memory of a small machine.
TEST(AccessRoles, LetAllHandlersOfAKeySayWhatTheyHaveToSay) {
  constexpr std::uint64_t kOfEach = 4;  // what it is, two reports and a probe
  constexpr std::uint64_t kProbeBytes = 768 << 10;
  constexpr std::uint64_t kPayloadBytes = 768ull << 20;  // the default with 1 GiB of memory
  const tuplespace::SpaceLimits space;
  const std::uint64_t handlers = tuplespace::BrokerOptions{}.clients_per_key;
  EXPECT_GE(space.tuples / space.own_part_of_key, handlers * kOfEach);
  // One of them measures its link at a time.
  EXPECT_GE(kPayloadBytes / space.own_part_of_key,
            handlers * (kMaxCapacityBytes + 2 * kMaxReportBytes) + kProbeBytes);
}

}  // namespace
}  // namespace acan
