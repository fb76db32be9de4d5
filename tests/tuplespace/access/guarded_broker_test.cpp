// What a broker with keys lets its clients do.
#include <gmock/gmock.h>

#include <ctime>
#include <memory>
#include <optional>
#include <zmq.hpp>
#include <zmq_addon.hpp>

#include "broker_fixture.h"
#include "packed_messages.h"
#include "test_roles.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using F = FieldPattern;

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
    options.refusal_patience_us = 0;
    return options;
  }
  // Returns the text with which `action` is refused; "" if it succeeds.
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
  // A plain ZeroMQ socket that uses these keys.
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
    encoder.Begin(session, {.version = version});
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

// For what takes some seconds.
class GuardedOverTcp : public Guarded {};

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

// A thousand clients should not wake because one leaves.
TEST_P(Guarded, AConnectionThatEndsWakesNoOtherClient) {
  Client master(As("master", master_keys_));
  zmq::socket_t stays = Dealer("w/stays", worker_keys_);
  Send(stays, Hello{.nonce = 1, .name = "stays"});
  const BrokerMessage welcome = Answer(stays);
  ASSERT_TRUE(std::holds_alternative<Welcome>(welcome));
  {
    zmq::socket_t leaves = Dealer("v/leaves", other_keys_);
    Send(leaves, Hello{.nonce = 1, .name = "leaves"});
    ASSERT_TRUE(std::holds_alternative<Welcome>(Answer(leaves)));
  }
  while (master.GetStatistics(kGenerous)->clients > 2) {
  }
  Send(stays, Request{1, Retire{AnyOf("nothing"), false}}, kProtocolVersion,
       std::get<Welcome>(welcome).session);
  EXPECT_FALSE(std::holds_alternative<Pong>(Answer(stays)));
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
  // Permitted requests still work, and none of the refused ones was executed.
  EXPECT_TRUE(worker.Put({PlainTuple({"me", worker.id()}, "x")}, kGenerous));
  const auto stats = worker.GetStatistics();
  EXPECT_EQ(stats->tuples, 1u);
  EXPECT_EQ(stats->counters.refused_requests, 3u);
  EXPECT_EQ(stats->counters.requests, 5u) << "these, the put, and the one for this number";
  EXPECT_GE(stats->counters.messages, 5u);
  EXPECT_THAT(broker_->Log(), HasSubstr("may not put the task"));
}

TEST_P(Guarded, KeysThatAreNotOnTheListAreRefused) {
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
  // Its lease ended at once.
  EXPECT_EQ(other.GetSome(get, kGenerous).size(), 1u);
  EXPECT_THAT(RefusalOf([&] { return worker.GetStatistics(kGenerous); }), HasSubstr("revoked"));
  Client again(As("w", worker_keys_));
  EXPECT_THAT(RefusalOf([&] { return again.GetStatistics(kGenerous); }), HasSubstr("refused"));
  EXPECT_EQ(master.GetStatistics()->clients, 2u);
  // A key that is on the list again is accepted.
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
  // Only the end of the key's time ends the lease.
  EXPECT_EQ(other.GetSome(get, kGenerous).size(), 1u);
  EXPECT_GE(std::time(nullptr), peers[1].until_unix_s);
  EXPECT_THAT(RefusalOf([&] { return worker.GetStatistics(kGenerous); }),
              AllOf(HasSubstr("\"w\" expired at"), HasSubstr("UTC")));
  ClientOptions late = As("w", worker_keys_);
  late.access->until_unix_s = peers[1].until_unix_s;
  Client again(late);
  EXPECT_THAT(RefusalOf([&] { return again.GetStatistics(kGenerous); }),
              AllOf(HasSubstr("or has expired"), HasSubstr(TimeText(peers[1].until_unix_s))));
  EXPECT_EQ(master.GetStatistics()->clients, 2u);
  EXPECT_THAT(broker_->Log(), HasSubstr("is refused: its key \"w\" expired at"));
  // With an extended time the key is accepted.
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
              HasSubstr("its entry on the list has changed"));
}

TEST_P(Guarded, ARevokedKeyIsRefusedAtItsNextMessage) {
  zmq::socket_t revoked = Dealer("w/raw", worker_keys_);
  Send(revoked, Hello{1, "raw"});
  const std::uint64_t session = std::get<Welcome>(Answer(revoked)).session;
  broker_->broker().SetPeers({{"master", master_keys_.public_key, "master"}});
  EXPECT_EQ(std::get<RequestError>(Answer(revoked)).code, ErrorCode::kForbidden);
  // The client ignores that and sends more requests.
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
  // The client whose id is used is connected ...
  zmq::socket_t thief = Dealer(worker.id(), other_keys_);
  Send(thief, Hello{1, "thief"});
  // ... and here an id of the same key that nobody uses.
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
  // An id of its own key is accepted.
  zmq::socket_t honest = Dealer("v/raw", other_keys_);
  Send(honest, Hello{1, "honest"});
  EXPECT_TRUE(std::holds_alternative<Welcome>(Answer(honest)));

  ClientOptions foreign = As("v", other_keys_);
  foreign.id = "w/x";
  EXPECT_THROW(Client{foreign}, std::invalid_argument);
}

// Another client waits for the id while its owner's connection ends. The owner's lease must end at
// once, and the other client must get no message for the owner.
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
  // Retries until the broker answers, with a refusal.
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

// The broker ignores a second connection with its id, for as long as the first one is there.
TEST_P(GuardedOverTcp, AClientWhoseIdAnotherOneHasTakesANewOne) {
  std::vector<std::string> said;
  Client worker(As("w", worker_keys_));  // connects when it is polled
  const ClientId id = worker.id();
  zmq::socket_t other = Dealer(id, worker_keys_);
  Send(other, Hello{1, "other"});
  ASSERT_TRUE(std::holds_alternative<Welcome>(Answer(other)));
  worker.OnDelay([&](const std::string& text) { said.push_back(text); });
  EXPECT_TRUE(worker.GetStatistics(kGenerous));
  EXPECT_NE(worker.id(), id);
  EXPECT_TRUE(worker.id().starts_with("w/"));
  EXPECT_THAT(said, Contains(AllOf(HasSubstr(id), HasSubstr(worker.id()))));
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

// Names a file descriptor for each payload, as if it were a segment of the sender.
struct NamesDescriptor : SegmentNamer {
  std::optional<SegmentRef> Name(const Payload& payload) override {
    return SegmentRef{static_cast<std::uint64_t>(fd), payload.size(), fd};
  }
  std::int32_t fd = 0;
};

// The broker tells every client its process and its probe. This process is also that of a client
// that shares its segments. So a client that claims to be this process must prove it.
TEST_P(Guarded, NobodyReadsTheFilesOfAProcessThatItIsNot) {
  Client master(As("master", master_keys_));
  ASSERT_TRUE(master.GetStatistics(kGenerous).has_value());
  ASSERT_TRUE(master.shares_memory());
  ASSERT_TRUE(master.Put({PlainTuple({"data", 1}, std::string(1 << 18, 's'))}, kGenerous));
  zmq::socket_t dealer = Dealer("w/evil", worker_keys_);
  auto join = [&, nonce = std::uint64_t{0}](const Sharing& offer) mutable {
    Send(dealer, Hello{++nonce, "evil", offer});
    return std::get<Welcome>(Answer(dealer));
  };
  const Sharing broker = *join({1, -1, {}, {}}).sharing;
  NamesDescriptor names;
  const std::string bytes(100'000, 'x');
  const SharedRegion region;
  Tuple tuple;
  tuple.key = {"me", "w/evil"};
  tuple.payload = Payload(nullptr, bytes.data(), bytes.size(), &region);
  for (const std::string& proof : {std::string(), broker.proof, std::string(32, '\0')}) {
    const Welcome welcome = join({broker.pid, broker.fd, proof, {}});
    EXPECT_EQ(welcome.sharing->sees, "");
    for (names.fd = 3; names.fd < 100; ++names.fd) {
      Encoder encoder;
      encoder.Begin(welcome.session, {.namer = &names});
      encoder.Add(Request{1, Put{{tuple}}});
      dealer.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::none);
      BrokerMessage answer = Answer(dealer);
      while (std::holds_alternative<BrokerSegments>(answer)) answer = Answer(dealer);
      ASSERT_TRUE(std::holds_alternative<Reply>(answer)) << "stored: descriptor " << names.fd;
      EXPECT_EQ(std::get<RequestError>(std::get<Reply>(answer).body).code, ErrorCode::kBusy);
    }
  }
}

// A client that never ends its message must not take memory that a small machine needs for tuples.
TEST_P(Guarded, UnfinishedMessagesMakeRoomForTuples) {
  constexpr std::size_t kMiB = 1 << 20;
  broker_.reset();
  BrokerOptions options =
      BrokerThread::Options(GetParam() == "ipc" ? folder_.Ipc() : std::string("tcp://127.0.0.1:*"));
  options.access = {broker_keys_, Roles(), Peers()};
  options.limits.payload_bytes = 8 * kMiB;
  options.connections.least_unfinished_bytes_of_key = 2 * kMiB;
  broker_ = std::make_unique<BrokerThread>(options);
  zmq::socket_t dealer = Dealer("w/endless", worker_keys_);
  Send(dealer, Hello{1, "endless"});
  ASSERT_TRUE(std::holds_alternative<Welcome>(Answer(dealer)));
  const std::vector<std::string> parts =
      PartsOf({}, {Payload::Copy(std::string(4 * kPartBytes, 'e'))});
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    dealer.send(zmq::buffer(parts[i]), zmq::send_flags::none);
  }
  Client master(As("master", master_keys_));
  ASSERT_TRUE(master.Put({PlainTuple({"data", 1}, std::string(7 * kMiB, 'd'))}, kGenerous));
  EXPECT_TRUE(PollUntil(master, [this] {
    return broker_->Log().find("have more than 2097152 bytes") != std::string::npos;
  })) << broker_->Log();
  EXPECT_EQ(master.ReadOne(Pattern::Of({"data", 1}))->payload.size(), 7 * kMiB);
}

INSTANTIATE_TEST_SUITE_P(Transports, Guarded, ::testing::Values("ipc", "tcp"),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(Transports, GuardedOverTcp, ::testing::Values("tcp"),
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
  // A context can have only one authenticator: one of two would answer for the other's keys.
  options.access->keys = keys;
  zmq::context_t context;
  options.context = &context;
  const Broker first(options);
  EXPECT_THROW(Broker{options}, std::runtime_error);
}

}  // namespace
}  // namespace tuplespace
