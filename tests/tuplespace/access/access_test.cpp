// Keys, patterns, roles and the list of allowed peers.
#include <gmock/gmock.h>

#include <optional>

#include "access_list.h"
#include "broker_fixture.h"
#include "test_roles.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using F = FieldPattern;

TEST(Keys, AreMadeAndChecked) {
  const KeyPair one = MakeKeyPair();
  const KeyPair other = MakeKeyPair();
  EXPECT_NE(one.secret_key, other.secret_key);
  EXPECT_EQ(KeyPairProblem(one), std::nullopt);
  EXPECT_THAT(*KeyPairProblem({one.public_key, other.secret_key}), HasSubstr("not that of"));
  EXPECT_THAT(*KeyPairProblem({one.secret_key, one.secret_key}), HasSubstr("not that of"));
  EXPECT_THAT(*KeyProblem("short"), HasSubstr("5 characters"));
  // Characters that are not in Z85, one beyond its table; below, a group above 2^32.
  for (const std::string bad : {"'", "\x7f", "\x80", "\n", "~"}) {
    EXPECT_THAT(*KeyProblem(bad + one.public_key.substr(1)), HasSubstr("Z85"));
  }
  EXPECT_THAT(*KeyProblem("#####" + one.public_key.substr(5)), HasSubstr("Z85"));
}

TEST(PeerNames, ArePlain) {
  for (const std::string good : {"gpu7", "A.b_c-1", "x"}) EXPECT_FALSE(PeerNameProblem(good));
  for (const std::string bad : {"", "a/b", "a b", ".hidden", "-flag", "a\nb", "\xc3\xa4"}) {
    EXPECT_TRUE(PeerNameProblem(bad)) << bad;
  }
  EXPECT_TRUE(PeerNameProblem(std::string(33, 'n')));
}

TEST(Patterns, AreWithinOthers) {
  const auto within = [](const Pattern& one, const Pattern& other) { return one.IsWithin(other); };
  const Pattern all{{F::Any()}, true};
  EXPECT_TRUE(within(Pattern::Of({"a", 1}), all));
  EXPECT_TRUE(within({{F::Any(), F::AtMost(3)}, true}, all));
  EXPECT_FALSE(within(all, {{F::Any(), F::Any()}, true}));
  EXPECT_FALSE(within(all, {{F::Any()}, false}));
  EXPECT_FALSE(within(Pattern::Of({"a", 1}), {{F::Exact("a")}, false}));
  const struct {
    F one, other;
    bool is;
  } cases[] = {
      {F::Exact("ab"), F::Prefix("a"), true},   {F::Prefix("ab"), F::Prefix("a"), true},
      {F::Prefix("a"), F::Prefix("ab"), false}, {F::Any(), F::Prefix(""), false},
      {F::Exact(3), F::Prefix(""), false},      {F::Exact(3), F::AtMost(3), true},
      {F::Exact(4), F::AtMost(3), false},       {F::AtMost(2), F::AtMost(3), true},
      {F::AtMost(4), F::AtMost(3), false},      {F::AtLeast(4), F::AtLeast(3), true},
      {F::AtLeast(2), F::AtLeast(3), false},    {F::AtMost(1), F::AtLeast(INT64_MIN), true},
      {F::AtMost(1), F::AtLeast(0), false},     {F::AtLeast(1), F::AtMost(INT64_MAX), true},
      {F::AtLeast(1), F::AtMost(9), false},     {F::Exact("3"), F::AtMost(3), false},
      {F::Prefix("3"), F::AtLeast(0), false},   {F::Any(), F::AtLeast(INT64_MIN), false},
      {F::Exact("a"), F::Exact("a"), true},     {F::Exact("a"), F::Exact("b"), false},
      {F::Prefix("a"), F::Exact("a"), false},   {F::AtMost(1), F::Exact(1), false},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(within({{one.one}, false}, {{one.other}, false}), one.is)
        << Pattern{{one.one}, false}.ToString() << " in " << Pattern{{one.other}, false}.ToString();
  }
}

std::optional<std::string> WorkerRefusal(RequestBody body) {
  return RefusalOf(Roles()[1], "w/1", body);
}

TEST(RolesOfAccess, AllowAndRefuseEveryRequest) {
  const Tuple mine = PlainTuple({"me", "w/1"}, "");
  const Tuple others = PlainTuple({"me", "w/2"}, "");
  const Tuple data = PlainTuple({"data", 1}, "");
  EXPECT_FALSE(WorkerRefusal(Put{{mine}}));
  EXPECT_THAT(*WorkerRefusal(Put{{mine, others}}), AllOf(HasSubstr("put"), HasSubstr("w/2")));
  EXPECT_TRUE(WorkerRefusal(Put{{data}}));  // allowed only as results of a Complete
  EXPECT_THAT(*WorkerRefusal(Put{{TaskTuple({"me", "w/1"}, "")}}), HasSubstr("task"));
  EXPECT_FALSE(WorkerRefusal(Complete{{}, {data}}));
  EXPECT_FALSE(WorkerRefusal(Complete{{}, {}}));
  EXPECT_TRUE(WorkerRefusal(Complete{{}, {mine}}));
  EXPECT_TRUE(WorkerRefusal(Complete{{}, {TaskTuple({"data", 1}, "")}}));
  Get get;
  get.pattern = AnyOf("task");
  EXPECT_FALSE(WorkerRefusal(get));
  get.pattern = {{F::Any()}, true};
  EXPECT_TRUE(WorkerRefusal(get));
  Read read;
  read.patterns = {Pattern::Of({"data", 3}), Pattern::Of({"data", 4, "x"})};
  EXPECT_FALSE(WorkerRefusal(read));
  read.patterns.push_back(Pattern::Of({"data", "x"}));
  EXPECT_TRUE(WorkerRefusal(read));
  EXPECT_TRUE(WorkerRefusal(List{AnyOf("data"), 1, true}));
  EXPECT_TRUE(WorkerRefusal(Count{AnyOf("task")}));
  EXPECT_FALSE(WorkerRefusal(Retire{Pattern::Of({"me", "w/1"}), false}));
  EXPECT_TRUE(WorkerRefusal(Retire{Pattern::Of({"me", "w/1"}), true}));
  EXPECT_TRUE(WorkerRefusal(Retire{Pattern::Of({"me", "w/2"}), false}));
  EXPECT_TRUE(WorkerRefusal(Retire{{{F::Exact("me"), F::Any()}, false}, false}));
  for (const RequestBody& body :
       std::vector<RequestBody>{Extend{}, Release{}, Fail{}, Cancel{}, GetStats{}}) {
    EXPECT_FALSE(WorkerRefusal(body));
  }
  EXPECT_FALSE(WorkerRefusal(Hold{{Key{"data", 1}, Key{"me", "w/1"}}, {Key{"task", 1}}}));
  EXPECT_THAT(*WorkerRefusal(Hold{{Key{"data", 1}, Key{"task", 1}}, {}}),
              HasSubstr("hold (\"task\", 1)"));
  RequestBody retire = Retire{AnyOf("data"), true};
  EXPECT_FALSE(RefusalOf(Roles()[0], "m/1", retire));
}

TEST(RolesOfAccess, LimitTheTuplesOfAHold) {
  Role worker = Roles()[1];
  worker.limits.per_request = 3;
  const Key key{"data", 1};
  RequestBody most = Hold{{key, key}, {key}};
  EXPECT_FALSE(RefusalOf(worker, "w/1", most));
  RequestBody more = Hold{{key, key}, {key, key}};
  EXPECT_THAT(*RefusalOf(worker, "w/1", more), HasSubstr("name 4 tuples in one Hold"));
}

TEST(RolesOfAccess, MayLimitThePayloadsOfTuples) {
  Rule small{{Operation::kPut, Operation::kComplete}, {{F::Exact("me"), F::Any()}, true}, 1};
  small.payload_bytes = 3;
  const Role one{"one", {small}};
  const auto refusal = [](const Role& role, RequestBody body) {
    return RefusalOf(role, "w/1", body);
  };
  const Tuple fits = PlainTuple({"me", "w/1"}, "123");
  const Tuple large = PlainTuple({"me", "w/1"}, "1234");
  EXPECT_FALSE(refusal(one, Put{{fits, fits}}));
  EXPECT_EQ(*refusal(one, Put{{fits, large}}),
            "put (\"me\", \"w/1\") with 4 bytes, but at most with 3");
  EXPECT_TRUE(refusal(one, Complete{{}, {large}}));
  EXPECT_TRUE(refusal(one, Supply{{large}}));
  Tuple stays = PlainTuple({"me", "w/1"}, "");
  stays.resident_bytes = 4;
  EXPECT_TRUE(refusal(one, Complete{{}, {stays}}));
  // Any of the rules that match the key may allow it.
  const Role both{"both",
                  {small, Rule{{Operation::kPut}, {{F::Any(), F::Exact("w/1")}, true}, {}}}};
  EXPECT_FALSE(refusal(both, Put{{large}}));
  EXPECT_TRUE(refusal(both, Complete{{}, {large}}));
}

TEST(RolesOfAccess, MayBeMadeForReadingMetadataAndNoPayload) {
  const auto refusal = [](RequestBody body) {
    return RefusalOf(RolesWithLimits()[2], "o/1", body);
  };
  Read read;
  read.patterns = {Pattern::Of({"data", 3})};
  EXPECT_THAT(*refusal(read), HasSubstr("read (\"data\", 3)"));
  read.metadata_only = true;
  EXPECT_FALSE(refusal(read));
  EXPECT_THAT(*refusal(List{AnyOf("data"), 1, false}), HasSubstr("read (\"data\""));
  EXPECT_FALSE(refusal(List{AnyOf("data"), 1, true}));
  EXPECT_FALSE(refusal(Count{AnyOf("data")}));
  EXPECT_FALSE(refusal(GetStats{}));
  EXPECT_THAT(*refusal(Hold{{}, {Key{"data", 3}}}),
              HasSubstr("hold tuples, because it may get none"));
  // Permission to read includes permission to read metadata.
  EXPECT_FALSE(refusal(List{Pattern::Of({"me"}), 1, false}));
  EXPECT_TRUE(refusal(Put{{PlainTuple({"data", 3}, "")}}));
  EXPECT_TRUE(refusal(Complete{{}, {PlainTuple({"data", 3}, "")}}));
  EXPECT_TRUE(refusal(Retire{AnyOf("data"), false}));
  Get get;
  get.pattern = AnyOf("data");
  EXPECT_TRUE(refusal(get));
  // The converse does not hold.
  EXPECT_THAT(*WorkerRefusal(Count{AnyOf("task")}), HasSubstr("read the metadata of"));
  EXPECT_FALSE(WorkerRefusal(Count{Pattern::Of({"data", 3})}));
}

TEST(Limits, NarrowWhatLeavesTheFieldOpenAndRefuseWhatNamesAnother) {
  const std::string key = MakeKeyPair().public_key;
  const std::string other = MakeKeyPair().public_key;
  const AccessList list(RolesWithLimits(),
                        {{"w", key, "worker", "a"}, {"m", other, "master", "a"}});
  const Role& worker = *list.Find(key)->role;
  const Role& master = *list.Find(other)->role;
  const Pattern any_task{{F::Any(), F::Exact("task")}, true};
  Get get;
  get.pattern = any_task;
  RequestBody body = get;
  EXPECT_FALSE(RefusalOf(worker, "w/1", body));
  EXPECT_EQ(std::get<Get>(body).pattern, (Pattern{{F::Prefix("a"), F::Exact("task")}, true}));
  get.pattern.fields[0] = F::Exact("ab");
  body = get;
  EXPECT_FALSE(RefusalOf(worker, "w/1", body));
  EXPECT_EQ(std::get<Get>(body).pattern, get.pattern);
  for (const F& field : {F::Exact("b"), F::Prefix("b"), F::Prefix(""), F::Exact(1), F::AtMost(1)}) {
    get.pattern.fields[0] = field;
    body = get;
    EXPECT_TRUE(RefusalOf(worker, "w/1", body)) << get.pattern.ToString();
  }
  get.pattern = {{F::Any(), F::Exact("data")}, true};
  body = get;
  EXPECT_TRUE(RefusalOf(worker, "w/1", body)) << "the limit widens nothing";
  get.pattern = {{}, true};
  body = get;
  EXPECT_TRUE(RefusalOf(worker, "w/1", body)) << "and has no field to stand in here";

  body = Hold{{Key{"ab", "data"}}, {}};
  EXPECT_FALSE(RefusalOf(worker, "w/1", body));
  body = Hold{{Key{"ab", "data"}, Key{"b", "data"}}, {}};
  EXPECT_THAT(*RefusalOf(worker, "w/1", body), HasSubstr("hold (\"b\", \"data\")"));

  Read read;
  read.patterns = {Pattern::Of({"ab", "data"}), {{F::Any(), F::Exact("data")}, true}};
  body = read;
  EXPECT_FALSE(RefusalOf(worker, "w/1", body));
  EXPECT_EQ(std::get<Read>(body).patterns[1].fields[0], F::Prefix("a"));

  // A master may only put tasks whose inputs are within its limit, since others would read them for
  // it.
  Tuple task = TaskTuple({"a", "task", 1}, "");
  task.task->inputs = {Key{"a", "data"}};
  body = Put{{task}};
  EXPECT_FALSE(RefusalOf(master, "m/1", body));
  task.task->inputs = {Key{"a", "data"}, Key{"b", "data"}};
  body = Put{{task}};
  EXPECT_THAT(*RefusalOf(master, "m/1", body), HasSubstr("whose input is (\"b\", \"data\")"));
  body = Put{{TaskTuple({"b", "task", 1}, "")}};
  EXPECT_TRUE(RefusalOf(master, "m/1", body));
}

TEST(Limits, MayBringLimitsOfClients) {
  const std::string limited = MakeKeyPair().public_key;
  const std::string whole = MakeKeyPair().public_key;
  std::vector<Role> roles = RolesWithLimits();
  roles[1].limited_limits.emplace().leases = 3;
  const AccessList list(roles, {{"l", limited, "master", "a"}, {"w", whole, "master"}});
  EXPECT_EQ(list.Find(limited)->role->limits.leases, 3u);
  EXPECT_EQ(list.Find(whole)->role->limits.leases, UINT64_MAX);
}

TEST(Limits, ThatARoleDoesNotKnowAreRefused) {
  const std::string key = MakeKeyPair().public_key;
  EXPECT_THAT(
      [&] {
        AccessList(RolesWithLimits(), {{"o", key, "watcher", "a"}});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("\"o\""), HasSubstr("\"watcher\" has no limits"))));
  std::vector<Role> broken = RolesWithLimits();
  broken[0].limited_rules[0].limited_field = 2;
  EXPECT_THAT([&] { AccessList(broken, {}); },
              ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("limited_field")));
}

TEST(AccessLists, EndKeysWhoseTimeIsOver) {
  const std::string forever = MakeKeyPair().public_key;
  const std::string soon = MakeKeyPair().public_key;
  const std::string later = MakeKeyPair().public_key;
  AccessList list(Roles(), {{"f", forever, "worker"},
                            {"s", soon, "worker", "", 1'800'000'000},
                            {"l", later, "worker", "", 1'900'000'000}});
  EXPECT_TRUE(list.HasEnds());
  EXPECT_FALSE(list.EndKeys(1'799'999'999));
  EXPECT_TRUE(list.Find(soon));
  EXPECT_TRUE(list.EndKeys(1'800'000'000));
  EXPECT_FALSE(list.Find(soon));
  EXPECT_TRUE(list.IsEnded(soon));
  EXPECT_THAT(list.WhyNot(soon), AllOf(HasSubstr("\"s\""), HasSubstr("2027-01-15 08:00:00 UTC")));
  EXPECT_FALSE(list.EndKeys(1'800'000'001)) << "it has ended already";
  EXPECT_TRUE(list.Find(later));
  EXPECT_TRUE(list.EndKeys(2'000'000'000));
  EXPECT_TRUE(list.Find(forever));
  EXPECT_FALSE(AccessList(Roles(), {{"f", forever, "worker"}}).HasEnds());
  EXPECT_FALSE(list.IsEnded(MakeKeyPair().public_key));
}

TEST(AccessLists, AClockThatWasAheadEndsNoKeyForGood) {
  const std::string guest = MakeKeyPair().public_key;
  AccessList list(Roles(), {{"g", guest, "worker", "", 1'800'000'000}});
  EXPECT_TRUE(list.EndKeys(1'900'000'000));
  EXPECT_FALSE(list.Find(guest));
  EXPECT_FALSE(list.EndKeys(1'700'000'000));
  EXPECT_TRUE(list.Find(guest));
  EXPECT_FALSE(list.IsEnded(guest));
  EXPECT_TRUE(list.EndKeys(1'800'000'000)) << "its sessions must be ended again";
  EXPECT_FALSE(list.Find(guest));
}

TEST(AccessLists, ThatMakeNoSenseAreRefused) {
  const std::string key = MakeKeyPair().public_key;
  const std::string other = MakeKeyPair().public_key;
  const auto refusal = [](std::vector<Role> roles, const std::vector<AllowedPeer>& peers) {
    try {
      const AccessList list(std::move(roles), peers);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(Roles(), {{"w", key, "worker"}, {"m", other, "master"}}), "");
  EXPECT_THAT(refusal(Roles(), {{"w", key, "king"}}), HasSubstr("\"king\""));
  EXPECT_THAT(refusal(Roles(), {{"w/1", key, "worker"}}), HasSubstr("w/1"));
  EXPECT_THAT(refusal(Roles(), {{"w", "x", "worker"}}), HasSubstr("\"w\""));
  EXPECT_THAT(refusal(Roles(), {{"w", key, "worker"}, {"w", other, "worker"}}), HasSubstr("two"));
  EXPECT_THAT(refusal(Roles(), {{"w", key, "worker"}, {"m", key, "master"}}), HasSubstr("another"));
  std::vector<Role> broken = Roles();
  broken[1].rules[2].own_id_field = 2;
  EXPECT_THAT(refusal(broken, {}), HasSubstr("own_id_field"));
}

}  // namespace
}  // namespace tuplespace
