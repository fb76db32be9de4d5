// Keys, roles and what a broker with keys lets whom do.
#include <gmock/gmock.h>

#include <ctime>
#include <memory>
#include <optional>
#include <zmq.hpp>
#include <zmq_addon.hpp>

#include "access_list.h"
#include "broker_fixture.h"
#include "packed_messages.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- keys and patterns -------------------------------------------------------------------------

TEST(Keys, AreMadeAndChecked) {
  const KeyPair one = MakeKeyPair();
  const KeyPair other = MakeKeyPair();
  EXPECT_NE(one.secret_key, other.secret_key);
  EXPECT_EQ(KeyPairProblem(one), std::nullopt);
  EXPECT_THAT(*KeyPairProblem({one.public_key, other.secret_key}), HasSubstr("not that of"));
  EXPECT_THAT(*KeyPairProblem({one.secret_key, one.secret_key}), HasSubstr("not that of"));
  EXPECT_THAT(*KeyProblem("short"), HasSubstr("5 characters"));
  // Characters that are none of Z85, one outside of its table, and a group beyond 2^32.
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

using F = FieldPattern;

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

// Two roles as a program of workers and a master would have them.
std::vector<Role> Roles() {
  const auto integer = F::AtLeast(INT64_MIN);
  return {{"master",
           {{{Operation::kRead, Operation::kPut, Operation::kPutTask, Operation::kGet,
              Operation::kComplete, Operation::kRetire, Operation::kWatermark},
             {{F::Any()}, true},
             {}}}},
          {"worker",
           {{{Operation::kGet}, {{F::Exact("task")}, true}, {}},
            {{Operation::kRead, Operation::kComplete}, {{F::Exact("data"), integer}, true}, {}},
            {{Operation::kPut, Operation::kRetire}, {{F::Exact("me"), F::Any()}, false}, 1}}}};
}

std::optional<std::string> WorkerRefusal(RequestBody body) {
  return RefusalOf(Roles()[1], "w/1", body);
}

// As a program with projects would have it: ("task", ...) of a worker's are (project, "task", ...).
std::vector<Role> RolesWithLimits() {
  const Pattern tasks{{F::Any(), F::Exact("task")}, true};
  const Pattern data{{F::Any(), F::Exact("data")}, true};
  return {{"worker",
           {{{Operation::kGet}, tasks, {}}},
           {{{Operation::kGet}, tasks, {}, 0}, {{Operation::kRead}, data, {}, 0}}},
          {"master",
           {{{Operation::kRead, Operation::kPutTask}, {{F::Any()}, true}, {}}},
           {{{Operation::kRead, Operation::kPutTask}, {{F::Any()}, true}, {}, 0}}},
          {"watcher",
           {{{Operation::kReadMetadata}, {{F::Any()}, true}, {}},
            {{Operation::kRead}, {{F::Exact("me")}, true}, {}}}}};
}

TEST(RolesOfAccess, AllowAndRefuseEveryRequest) {
  const Tuple mine = PlainTuple({"me", "w/1"}, "");
  const Tuple others = PlainTuple({"me", "w/2"}, "");
  const Tuple data = PlainTuple({"data", 1}, "");
  EXPECT_FALSE(WorkerRefusal(Put{{mine}}));
  EXPECT_THAT(*WorkerRefusal(Put{{mine, others}}), AllOf(HasSubstr("put"), HasSubstr("w/2")));
  EXPECT_TRUE(WorkerRefusal(Put{{data}}));  // by completing only
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
       std::vector<RequestBody>{Extend{}, Release{}, Fail{}, Hold{}, Cancel{}, GetStats{}}) {
    EXPECT_FALSE(WorkerRefusal(body));
  }
  RequestBody retire = Retire{AnyOf("data"), true};
  EXPECT_FALSE(RefusalOf(Roles()[0], "m/1", retire));
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
  // Reading is more than reading metadata.
  EXPECT_FALSE(refusal(List{Pattern::Of({"me"}), 1, false}));
  EXPECT_TRUE(refusal(Put{{PlainTuple({"data", 3}, "")}}));
  EXPECT_TRUE(refusal(Complete{{}, {PlainTuple({"data", 3}, "")}}));
  EXPECT_TRUE(refusal(Retire{AnyOf("data"), false}));
  Get get;
  get.pattern = AnyOf("data");
  EXPECT_TRUE(refusal(get));
  // The other way round it would be less.
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

  Read read;
  read.patterns = {Pattern::Of({"ab", "data"}), {{F::Any(), F::Exact("data")}, true}};
  body = read;
  EXPECT_FALSE(RefusalOf(worker, "w/1", body));
  EXPECT_EQ(std::get<Read>(body).patterns[1].fields[0], F::Prefix("a"));

  // Nobody else may fetch what lies beyond the limit for a master.
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

TEST(Limits, ThatARoleDoesNotKnowAreRefused) {
  const std::string key = MakeKeyPair().public_key;
  EXPECT_THAT(
      [&] {
        AccessList(RolesWithLimits(), {{"o", key, "watcher", "a"}});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("\"o\""), HasSubstr("\"watcher\" knows none"))));
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
  EXPECT_EQ(list.NextEndUnixS(), 1'800'000'000);
  EXPECT_FALSE(list.EndKeys(1'799'999'999));
  EXPECT_TRUE(list.Find(soon));
  EXPECT_TRUE(list.EndKeys(1'800'000'000));
  EXPECT_FALSE(list.Find(soon));
  EXPECT_TRUE(list.IsEnded(soon));
  EXPECT_THAT(list.WhyNot(soon), AllOf(HasSubstr("\"s\""), HasSubstr("2027-01-15 08:00:00 UTC")));
  EXPECT_EQ(list.NextEndUnixS(), 1'900'000'000);
  EXPECT_FALSE(list.EndKeys(1'700'000'000)) << "a clock that was set back";
  EXPECT_FALSE(list.Find(soon));
  EXPECT_TRUE(list.Find(later));
  EXPECT_TRUE(list.EndKeys(2'000'000'000));
  EXPECT_EQ(list.NextEndUnixS(), kNoEnd);
  EXPECT_TRUE(list.Find(forever));
  EXPECT_FALSE(list.IsEnded(MakeKeyPair().public_key));
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

// ---- a broker with keys ------------------------------------------------------------------------

class Guarded : public ::testing::TestWithParam<std::string> {
 protected:
  Guarded() {
    BrokerOptions options = BrokerThread::Options(
        GetParam() == "ipc" ? folder_.Ipc() : std::string("tcp://127.0.0.1:*"));
    options.access = {broker_keys_, Roles(), Peers()};
    broker_ = std::make_unique<BrokerThread>(options);
  }
  std::vector<AllowedPeer> Peers() const {
    return {{"master", master_keys_.public_key, "master"},
            {"w", worker_keys_.public_key, "worker"},
            {"v", other_keys_.public_key, "worker"}};
  }
  ClientOptions As(const std::string& name, const KeyPair& keys) const {
    ClientOptions options = ClientAt(broker_->endpoint());
    options.access = {name, keys, broker_keys_.public_key};
    return options;
  }
  // What `action` is told; "" if it works.
  template <typename Action>
  static std::string RefusalOf(Action action) {
    try {
      EXPECT_TRUE(action()) << "no answer";
    } catch (const SpaceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kForbidden) << error.what();
      return error.what();
    }
    return "";
  }
  // A bare socket of ZeroMQ with these keys.
  zmq::socket_t Dealer(const std::string& id, const KeyPair& keys) {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::routing_id, id);
    socket.set(zmq::sockopt::rcvtimeo, 60'000);
    socket.set(zmq::sockopt::curve_serverkey, broker_keys_.public_key);
    socket.set(zmq::sockopt::curve_publickey, keys.public_key);
    socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
    socket.connect(broker_->endpoint());
    return socket;
  }
  template <typename Message>
  static void Send(zmq::socket_t& socket, const Message& message,
                   std::uint32_t version = kProtocolVersion, std::uint64_t session = 0) {
    Encoder encoder;
    encoder.Begin(session, version);
    encoder.Add(message);
    socket.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::none);
  }
  static BrokerMessage Answer(zmq::socket_t& socket) {
    std::vector<zmq::message_t> frames;
    if (!zmq::recv_multipart(socket, std::back_inserter(frames))) return RequestError{};
    auto decoded = DecodeToClient(ControlIn(frames[0]), {});
    return std::get<ToClient>(std::move(decoded)).messages.at(0);
  }

  TemporaryFolder folder_;
  zmq::context_t context_;
  const KeyPair broker_keys_ = MakeKeyPair();
  const KeyPair master_keys_ = MakeKeyPair();
  const KeyPair worker_keys_ = MakeKeyPair();
  const KeyPair other_keys_ = MakeKeyPair();
  std::unique_ptr<BrokerThread> broker_;
};

TEST_P(Guarded, RolesDoWhatTheyMay) {
  Client master(As("master", master_keys_));
  Client worker(As("w", worker_keys_));
  EXPECT_TRUE(master.id().starts_with("master/"));
  Tuple task = TaskTuple({"task", 1}, "work");
  task.task->results = {Key{"data", 2}};
  EXPECT_EQ(RefusalOf([&] {
              return master.Put({task, PlainTuple({"data", 1}, "in")}, kGenerous);
            }),
            "");
  Get get;
  get.pattern = AnyOf("task");
  const std::vector<Grant> grants = worker.GetSome(get, kGenerous);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(worker.ReadOne(Pattern::Of({"data", 1}))->payload.text(), "in");
  const auto completed = worker.CompleteTask({grants[0].key, grants[0].fence},
                                             {PlainTuple({"data", 2}, std::string(100'000, 'r'))});
  EXPECT_EQ(completed->lease, LeaseStatus::kOk);
  EXPECT_EQ(master.ReadOne(Pattern::Of({"data", 2}))->payload.size(), 100'000u);
}

TEST_P(Guarded, AWorkerCannotActAsAMaster) {
  Client worker(As("w", worker_keys_));
  EXPECT_THAT(RefusalOf([&] {
                return worker.Put({TaskTuple({"task", 1}, "evil")}, kGenerous);
              }),
              AllOf(HasSubstr("\"w\""), HasSubstr("\"worker\""), HasSubstr("put the task")));
  EXPECT_THAT(RefusalOf([&] { return worker.RetireAll(AnyOf("data"), true, kGenerous); }),
              HasSubstr("retire"));
  EXPECT_THAT(RefusalOf([&] { return worker.CountOf(AnyOf("task"), kGenerous); }),
              HasSubstr("read"));
  // What it may do it still does, and nothing of the rest was done.
  EXPECT_TRUE(worker.Put({PlainTuple({"me", worker.id()}, "x")}, kGenerous));
  const auto stats = worker.GetStatistics();
  EXPECT_EQ(stats->tuples, 1u);
  EXPECT_EQ(stats->counters.refused_requests, 3u);
  EXPECT_EQ(stats->counters.requests, 5u) << "these, the put, and the one for this number";
  EXPECT_GE(stats->counters.messages, 5u);
  EXPECT_THAT(broker_->Log(), HasSubstr("may not put the task"));
}

TEST_P(Guarded, KeysThatAreNotOnTheListAreRefusedAtOnceAndForGood) {
  Client stranger(As("w", MakeKeyPair()));
  const std::string refusal = RefusalOf([&] { return stranger.GetStatistics(kGenerous); });
  EXPECT_THAT(refusal, AllOf(HasSubstr("refused the key \"w\""), HasSubstr("list")));
  Client honest(As("w", worker_keys_));
  const auto stats = honest.GetStatistics(kGenerous);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->clients, 1u);
  if (GetParam() == "tcp") {
    EXPECT_TRUE(PollUntil(
        honest, [&] { return honest.GetStatistics()->counters.failed_connections >= 1; }));
  }
  EXPECT_THAT(broker_->Log(), HasSubstr("is not on the list"));
}

TEST_P(Guarded, ClientsWithoutKeysOrWithAnotherBrokersAreNotLetIn) {
  ClientOptions wrong = As("w", worker_keys_);
  wrong.access->broker_public_key = other_keys_.public_key;
  for (const ClientOptions& options : {ClientAt(broker_->endpoint(), "plain"), wrong}) {
    Client client(options);
    std::string why;
    client.OnConnection([&](bool connected, const std::string& text) {
      EXPECT_FALSE(connected);
      why = text;
    });
    EXPECT_TRUE(PollUntil(client, [&] { return !why.empty(); }));
    EXPECT_THAT(why, HasSubstr("handshake failed"));
    EXPECT_FALSE(client.connected());
  }
  Client honest(As("w", worker_keys_));
  const auto stats = honest.GetStatistics(kGenerous);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->clients, 1u);
  if (GetParam() == "tcp") {
    EXPECT_TRUE(PollUntil(
        honest, [&] { return honest.GetStatistics()->counters.failed_connections >= 2; }));
  }
}

TEST_P(Guarded, ARevokedKeyLosesItsConnectionAndCannotComeBack) {
  Client worker(As("w", worker_keys_));
  Client other(As("v", other_keys_));
  Client master(As("master", master_keys_));
  ASSERT_TRUE(master.Put({TaskTuple({"task", 1}, "x")}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  ASSERT_EQ(worker.GetSome(get, kGenerous).size(), 1u);
  std::vector<AllowedPeer> fewer = Peers();
  fewer.erase(fewer.begin() + 1);
  broker_->broker().SetPeers(fewer);
  // Its lease is back at once.
  EXPECT_EQ(other.GetSome(get, kGenerous).size(), 1u);
  EXPECT_THAT(RefusalOf([&] { return worker.GetStatistics(kGenerous); }), HasSubstr("revoked"));
  Client again(As("w", worker_keys_));
  EXPECT_THAT(RefusalOf([&] { return again.GetStatistics(kGenerous); }), HasSubstr("refused"));
  EXPECT_EQ(master.GetStatistics()->clients, 2u);
  // Put on the list again it may come.
  broker_->broker().SetPeers(Peers());
  Client later(As("w", worker_keys_));
  EXPECT_TRUE(later.GetStatistics(kGenerous));
  EXPECT_THROW(broker_->broker().SetPeers({{"x", "no key", "worker"}}), std::invalid_argument);
}

TEST_P(Guarded, AKeyWhoseTimeIsOverLosesItsConnectionAndCannotComeBack) {
  Client worker(As("w", worker_keys_));
  Client other(As("v", other_keys_));
  Client master(As("master", master_keys_));
  ASSERT_TRUE(master.Put({TaskTuple({"task", 1}, "x")}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  ASSERT_EQ(worker.GetSome(get, kGenerous).size(), 1u);
  std::vector<AllowedPeer> peers = Peers();
  peers[1].until_unix_s = std::time(nullptr) + 3;
  broker_->broker().SetPeers(peers);
  // Nobody but the clock takes its lease.
  EXPECT_EQ(other.GetSome(get, kGenerous).size(), 1u);
  EXPECT_GE(std::time(nullptr), peers[1].until_unix_s);
  EXPECT_THAT(RefusalOf([&] { return worker.GetStatistics(kGenerous); }),
              AllOf(HasSubstr("\"w\" counted until"), HasSubstr("UTC")));
  ClientOptions late = As("w", worker_keys_);
  late.access->until_unix_s = peers[1].until_unix_s;
  Client again(late);
  EXPECT_THAT(RefusalOf([&] { return again.GetStatistics(kGenerous); }),
              AllOf(HasSubstr("its time is over"), HasSubstr(TimeText(peers[1].until_unix_s))));
  EXPECT_EQ(master.GetStatistics()->clients, 2u);
  EXPECT_THAT(broker_->Log(), HasSubstr("is refused: its key \"w\" counted until"));
  // With more time it may come.
  peers[1].until_unix_s = kNoEnd;
  broker_->broker().SetPeers(peers);
  Client later(As("w", worker_keys_));
  EXPECT_TRUE(later.GetStatistics(kGenerous));
}

TEST_P(Guarded, AKeyWithAnotherLimitIsSentAway) {
  BrokerOptions options = BrokerThread::Options(folder_.Ipc("limits"));
  options.access = {
      broker_keys_,
      RolesWithLimits(),
      {{"w", worker_keys_.public_key, "worker", "a"}, {"m", master_keys_.public_key, "master"}}};
  broker_.reset();
  broker_ = std::make_unique<BrokerThread>(options);
  Client master(As("m", master_keys_));
  Client worker(As("w", worker_keys_));
  ASSERT_TRUE(
      master.Put({TaskTuple({"b", "task"}, "x"), TaskTuple({"ab", "task"}, "y")}, kGenerous));
  Get get;
  get.pattern = {{F::Any(), F::Exact("task")}, true};
  get.max_count = 2;
  const std::vector<Grant> grants = worker.GetSome(get, kGenerous);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].key, (Key{"ab", "task"}));
  get.pattern.fields[0] = F::Exact("b");
  EXPECT_THAT(RefusalOf([&] { return !worker.GetSome(get, kGenerous).empty(); }),
              AllOf(HasSubstr("\"worker\" for what begins with \"a\""), HasSubstr("may not get")));
  broker_->broker().SetPeers(
      {{"w", worker_keys_.public_key, "worker", "b"}, {"m", master_keys_.public_key, "master"}});
  EXPECT_THAT(RefusalOf([&] { return worker.GetStatistics(kGenerous); }),
              HasSubstr("stands for something else"));
}

TEST_P(Guarded, ARevokedKeyIsRefusedAtItsNextMessage) {
  zmq::socket_t revoked = Dealer("w/raw", worker_keys_);
  Send(revoked, Hello{1, "raw"});
  const std::uint64_t session = std::get<Welcome>(Answer(revoked)).session;
  broker_->broker().SetPeers({{"master", master_keys_.public_key, "master"}});
  EXPECT_EQ(std::get<RequestError>(Answer(revoked)).code, ErrorCode::kForbidden);
  // It does not care and goes on.
  Send(revoked, Request{1, GetStats{}}, kProtocolVersion, session);
  EXPECT_EQ(std::get<RequestError>(Answer(revoked)).code, ErrorCode::kForbidden);
  if (GetParam() != "tcp") return;
  Client master(As("master", master_keys_));
  EXPECT_TRUE(
      PollUntil(master, [&] { return master.GetStatistics()->counters.refused_connections == 1; }));
}

TEST_P(Guarded, NobodyPosesAsTheClientOfAnotherKey) {
  Client worker(As("w", worker_keys_));
  Client master(As("master", master_keys_));
  ASSERT_TRUE(worker.GetStatistics(kGenerous));
  // While the other is there ...
  zmq::socket_t thief = Dealer(worker.id(), other_keys_);
  Send(thief, Hello{1, "thief"});
  // ... and an id of its that nobody uses now.
  zmq::socket_t squatter = Dealer("w/unused", other_keys_);
  Send(squatter, Hello{1, "squatter"});
  const auto refusal = std::get<RequestError>(Answer(squatter));
  EXPECT_EQ(refusal.code, ErrorCode::kForbidden);
  EXPECT_THAT(refusal.text, HasSubstr("begin with \"v/\""));
  ASSERT_TRUE(master.Put({TaskTuple({"task", 1}, "x")}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  EXPECT_EQ(worker.GetSome(get, kGenerous).size(), 1u);
  EXPECT_EQ(master.GetStatistics()->clients, 2u);
  EXPECT_THAT(broker_->Log(), ::testing::Not(HasSubstr("lost")));
  // With its own id it may come.
  zmq::socket_t honest = Dealer("v/raw", other_keys_);
  Send(honest, Hello{1, "honest"});
  EXPECT_TRUE(std::holds_alternative<Welcome>(Answer(honest)));

  ClientOptions foreign = As("v", other_keys_);
  foreign.id = "w/x";
  EXPECT_THROW(Client{foreign}, std::invalid_argument);
}

// Somebody with another key waits for the id while its owner's connection ends. The owner's lease
// returns at once and nothing that is the owner's is sent to the other.
TEST_P(Guarded, AnIdThatBecomesFreeIsNotAnothers) {
  zmq::socket_t owner = Dealer("w/owner", worker_keys_);
  Send(owner, Hello{1, "owner"});
  const std::uint64_t session = std::get<Welcome>(Answer(owner)).session;
  Client master(As("master", master_keys_));
  ASSERT_TRUE(master.Put({TaskTuple({"task", 1}, "x")}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  Send(owner, Request{1, get}, kProtocolVersion, session);
  ASSERT_TRUE(std::holds_alternative<Reply>(Answer(owner)));
  Send(owner, Request{2, get}, kProtocolVersion, session);  // waits for a second task
  zmq::socket_t thief = Dealer("w/owner", other_keys_);
  Send(thief, Hello{1, "thief"});
  owner.close();
  EXPECT_TRUE(PollUntil(master, [&] { return master.GetStatistics()->tasks_leased == 0; }));
  ASSERT_TRUE(master.Put({TaskTuple({"task", 2}, "y")}, kGenerous));
  EXPECT_EQ(master.GetStatistics()->tasks_ready, 2u);
  // It comes again until it is heard, and hears that it may not.
  std::vector<zmq::message_t> frames;
  const auto until = std::chrono::steady_clock::now() + kGenerous;
  while (frames.empty() && std::chrono::steady_clock::now() < until) {
    thief = Dealer("w/owner", other_keys_);
    thief.set(zmq::sockopt::rcvtimeo, 500);
    Send(thief, Hello{1, "thief"});
    [[maybe_unused]] const auto heard = zmq::recv_multipart(thief, std::back_inserter(frames));
  }
  ASSERT_FALSE(frames.empty());
  const auto decoded = DecodeToClient(ControlIn(frames[0]), {});
  EXPECT_EQ(std::get<RequestError>(std::get<ToClient>(decoded).messages.at(0)).code,
            ErrorCode::kForbidden);
}

TEST_P(Guarded, OtherVersionsAreToldBothNumbers) {
  zmq::socket_t dealer = Dealer("w/future", worker_keys_);
  Send(dealer, Hello{1, "future"}, 7);
  const auto error = std::get<RequestError>(Answer(dealer));
  EXPECT_EQ(error.code, ErrorCode::kVersion);
  EXPECT_THAT(error.text, AllOf(HasSubstr("version 7"), HasSubstr("version 4")));
}

TEST_P(Guarded, AClientKeepsItsIdentityOverABrokersRestart) {
  Client worker(As("w", worker_keys_));
  ASSERT_TRUE(worker.Put({PlainTuple({"me", worker.id()}, "x")}, kGenerous));
  const std::string endpoint = broker_->endpoint();
  broker_.reset();
  BrokerOptions options = BrokerThread::Options(endpoint);
  options.access = {broker_keys_, Roles(), Peers()};
  broker_ = std::make_unique<BrokerThread>(options);
  EXPECT_TRUE(worker.Put({PlainTuple({"me", worker.id()}, "y")}, kGenerous));
  const auto stats = worker.GetStatistics(kGenerous);
  EXPECT_EQ(stats->tuples, 1u);
  EXPECT_EQ(stats->clients, 1u);
}

INSTANTIATE_TEST_SUITE_P(Transports, Guarded, ::testing::Values("ipc", "tcp"),
                         [](const auto& one) { return one.param; });

TEST(BrokersWithKeys, ServeAnyAddressButNoInproc) {
  BrokerOptions options = BrokerThread::Options("tcp://0.0.0.0:*");
  const KeyPair keys = MakeKeyPair();
  const KeyPair worker = MakeKeyPair();
  options.access = {keys, Roles(), {{"w", worker.public_key, "worker"}}};
  {
    BrokerThread broker(options);
    ClientOptions client =
        ClientAt("tcp://127.0.0.1" + broker.endpoint().substr(broker.endpoint().rfind(':')));
    client.access = {"w", worker, keys.public_key};
    EXPECT_TRUE(Client(client).GetStatistics(kGenerous));
    client.endpoint = "inproc://x";
    EXPECT_THROW(Client{client}, std::invalid_argument);
  }
  options.listen = {"inproc://x"};
  EXPECT_THROW(Broker{options}, std::invalid_argument);
  options.listen = {"tcp://127.0.0.1:*"};
  options.access->keys.public_key = worker.public_key;
  EXPECT_THROW(Broker{options}, std::invalid_argument);
  // Two authenticators in one context: one would answer for the other's keys.
  options.access->keys = keys;
  zmq::context_t context;
  options.context = &context;
  const Broker first(options);
  EXPECT_THROW(Broker{options}, std::runtime_error);
}

}  // namespace
}  // namespace tuplespace
