// Every blocking call of a client whose broker is missing, silent, killed or stopped. It must end
// by its deadline or by its interrupt; without both it must report what it waits for.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <latch>

#include "broker_fixture.h"
#include "cutting_relay.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kShort{200};

// A blocking call of Client. `run` returns whether the call had a result.
struct Call {
  const char* name;
  std::function<bool(Client&, Client::Duration)> run;
};

const std::vector<Call>& Calls() {
  static const Pattern nothing = AnyOf("nothing");
  static const Key key{"a", 1};
  static const std::vector<Call> calls = {
      {"Put", [](Client& c, auto wait) { return c.Put({PlainTuple(key, "a")}, wait).has_value(); }},
      {"ReadOne", [](Client& c, auto wait) { return c.ReadOne(nothing, wait).has_value(); }},
      {"ReadAll", [](Client& c, auto wait) { return !c.ReadAll({nothing}, wait).empty(); }},
      {"ListAll", [](Client& c, auto wait) { return !c.ListAll(nothing, false, wait).empty(); }},
      {"CountOf", [](Client& c, auto wait) { return c.CountOf(nothing, wait).has_value(); }},
      {"GetSome",
       [](Client& c, auto wait) {
         Get get;
         get.pattern = nothing;
         return !c.GetSome(get, wait).empty();
       }},
      {"CompleteTask",
       [](Client& c, auto wait) {
         return c.CompleteTask({key, 1}, {}, wait).has_value();
       }},
      {"Take", [](Client& c, auto wait) { return c.Take(nothing, wait).has_value(); }},
      {"RetireAll",
       [](Client& c, auto wait) { return c.RetireAll(nothing, true, wait).has_value(); }},
      {"GetStatistics", [](Client& c, auto wait) { return c.GetStatistics(wait).has_value(); }},
  };
  return calls;
}

// A broker in its own process.
class BrokerProcess {
 public:
  // REQUIRES: this process has only one thread.
  explicit BrokerProcess(const std::string& endpoint) {
    std::array<int, 2> ready{};
    if (pipe(ready.data()) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ == 0) {
      close(ready[0]);
      Broker broker(BrokerThread::Options(endpoint));
      [[maybe_unused]] const auto said = write(ready[1], "r", 1);
      broker.Run();
      _exit(0);
    }
    close(ready[1]);
    char said = 0;
    const bool listens = read(ready[0], &said, 1) == 1;
    close(ready[0]);
    if (!listens) throw std::runtime_error("the broker did not start");
  }
  ~BrokerProcess() { Kill(); }
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;

  // Returns when the process has stopped.
  void Stop() const {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// Accepts connections and never reads from them.
class MutePeer {
 public:
  explicit MutePeer(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const auto* any = reinterpret_cast<const sockaddr*>(&address);
    if (bind(fd_, any, sizeof(address)) != 0 || listen(fd_, 64) != 0) {
      throw std::runtime_error("cannot listen on " + path);
    }
  }
  ~MutePeer() { close(fd_); }
  MutePeer(const MutePeer&) = delete;
  MutePeer& operator=(const MutePeer&) = delete;

 private:
  int fd_;
};

enum class Gone : std::uint8_t { kNobody, kMute, kKilled, kStopped };

// What is at an endpoint.
class Peer {
 public:
  // REQUIRES: this process has only one thread.
  explicit Peer(Gone gone) : gone_(gone) {
    if (gone == Gone::kMute) mute_.emplace(folder_.Path("s"));
    if (is_broker()) broker_.emplace(folder_.Ipc());
  }
  std::string endpoint() const { return folder_.Ipc(); }
  Gone gone() const { return gone_; }
  bool is_broker() const { return gone_ == Gone::kKilled || gone_ == Gone::kStopped; }
  void Stop() const {
    if (broker_) broker_->Stop();
  }
  // To be called during a blocking call.
  void Kill() {
    if (gone_ == Gone::kKilled) broker_->Kill();
  }

 private:
  const Gone gone_;
  TemporaryFolder folder_;
  std::optional<MutePeer> mute_;
  std::optional<BrokerProcess> broker_;
};

// A client that has joined if there is a broker, and the notifications that it got.
struct Watched {
  explicit Watched(const Peer& peer) : client(ClientAt(peer.endpoint())) {
    client.OnConnection([this](bool connected, const std::string&) { lost = !connected; });
    client.OnDelay([this](const std::string& text) { said = text; });
    if (!peer.is_broker()) return;
    EXPECT_TRUE(PollUntil(client, [this] { return client.connected(); }));
  }
  bool lost = false;
  std::string said;  // about a delay
  Client client;
};

struct Interrupted {};

class PeerGone : public ::testing::TestWithParam<std::tuple<std::size_t, Gone>> {
 protected:
  PeerGone() : peer_(std::get<1>(GetParam())), watched_(peer_) { peer_.Stop(); }
  const Call& call() const { return Calls()[std::get<0>(GetParam())]; }

  Peer peer_;
  Watched watched_;
};

TEST_P(PeerGone, TheCallEndsByItsDeadline) {
  peer_.Kill();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(call().run(watched_.client, kShort));
  EXPECT_FALSE(call().run(watched_.client, Client::Duration(0)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kGenerous);
}

// Another thread requests the end once the call waits. If that thread kills the broker, it requests
// the end only after the client has noticed the loss.
TEST_P(PeerGone, TheCallEndsByItsInterrupt) {
  Client& client = watched_.client;
  std::latch waits(1);
  std::atomic<bool> ask{false};
  bool first = true;
  client.SetInterrupt([&] {
    if (std::exchange(first, false)) waits.count_down();
    if (ask && (peer_.gone() != Gone::kKilled || watched_.lost)) throw Interrupted{};
  });
  std::thread other([&] {
    waits.wait();
    peer_.Kill();
    ask = true;
    client.Wake();
  });
  EXPECT_THROW(call().run(client, Client::kForever), Interrupted);
  other.join();
  EXPECT_EQ(client.unanswered(), 0u) << "the request is abandoned";
}

std::string WayOf(Gone gone) {
  const std::string ways[] = {"WithNobodyThere", "WithAMutePeer", "WithAKilledBroker",
                              "WithAStoppedBroker"};
  return ways[static_cast<std::size_t>(gone)];
}
std::string NameOfCall(const ::testing::TestParamInfo<PeerGone::ParamType>& tested) {
  return Calls()[std::get<0>(tested.param)].name + WayOf(std::get<1>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(Calls, PeerGone,
                         ::testing::Combine(::testing::Range<std::size_t>(0, Calls().size()),
                                            ::testing::Values(Gone::kNobody, Gone::kMute,
                                                              Gone::kKilled, Gone::kStopped)),
                         NameOfCall);

// ---- without a blocking call --------------------------------------------------------------------

class NoCall : public ::testing::TestWithParam<Gone> {
 protected:
  NoCall() : peer_(GetParam()), watched_(std::make_unique<Watched>(peer_)) { peer_.Stop(); }

  Peer peer_;
  std::unique_ptr<Watched> watched_;
};

// With and without a waiting request.
TEST_P(NoCall, APollEndsByItsTimeout) {
  peer_.Kill();
  Client& client = watched_->client;
  client.Poll(kShort);
  client.Submit(GetStats{}, [](ReplyBody&&) { ADD_FAILURE() << "who answered?"; });
  client.Poll(kShort);
}

// Much data is on its way into a connection that nobody reads; the destructor must not wait for it.
TEST_P(NoCall, WhatWasNotSentKeepsNoClient) {
  Client& client = watched_->client;
  const std::string bytes(8u << 20, 'x');
  for (int i = 0; i < 4; ++i) {
    Put put;
    put.tuples.push_back(PlainTuple({"large", i}, bytes));
    client.Submit(std::move(put), [](ReplyBody&&) {});
  }
  client.Poll(Client::Duration(0));
  peer_.Kill();
  watched_.reset();
}

INSTANTIATE_TEST_SUITE_P(Peers, NoCall,
                         ::testing::Values(Gone::kNobody, Gone::kMute, Gone::kKilled,
                                           Gone::kStopped),
                         [](const auto& tested) { return WayOf(tested.param); });

// Makes the call until the client has reported what it waits for.
void ExpectSays(Watched& one, const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  one.client.SetInterrupt([&] {
    const bool late = std::chrono::steady_clock::now() - begin > kGenerous;
    if (late || !one.said.empty()) throw Interrupted{};
  });
  EXPECT_THROW(call.run(one.client, Client::kForever), Interrupted) << call.name;
  EXPECT_THAT(one.said, AllOf(HasSubstr("broker at ipc://"), HasSubstr("waiting requests: 1")))
      << call.name;
}

// Makes all calls at the same time, since each takes several seconds.
TEST(ACallWithoutADeadline, SaysWhatItWaitsFor) {
  const Peer stopped(Gone::kStopped), mute(Gone::kMute), nobody(Gone::kNobody);
  std::vector<std::pair<std::unique_ptr<Watched>, const Call*>> all;
  for (const Peer* peer : {&stopped, &mute, &nobody}) {
    for (const Call& call : Calls()) all.emplace_back(std::make_unique<Watched>(*peer), &call);
  }
  stopped.Stop();
  std::vector<std::thread> threads;
  for (const auto& one : all) {
    threads.emplace_back([&one] { ExpectSays(*one.first, *one.second); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The broker stops between the two requests of a Take. Nobody can tell who has the tuple, and the
// call must say so.
TEST(Take, EndsIfTheBrokerIsStoppedAfterItGranted) {
  const TemporaryFolder folder;
  BrokerProcess broker(folder.Ipc());
  Client client(ClientAt(folder.Ipc()));
  ASSERT_TRUE(client.Put({PlainTuple({"a", 1}, "taken")}, kGenerous));
  int asked = 0;
  client.SetInterrupt([&] {
    if (++asked == 2) broker.Stop();  // the Get has been answered
  });
  try {
    client.Take(AnyOf("a"), kShort);
    FAIL() << "a Take that was not completed says nothing";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBusy);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("(\"a\", 1)"), HasSubstr(folder.Ipc())));
  }
}

// The tuple is taken, but the answer is lost with the connection. The repeated request names a
// lease that the new session does not know.
TEST(Take, SaysThatNobodyKnowsIfTheConnectionIsLostAfterItGranted) {
  BrokerThread broker("tcp://127.0.0.1:*");
  Client beside(ClientAt(broker.endpoint()));
  ASSERT_TRUE(beside.Put({PlainTuple({"a", 1}, "taken")}, kGenerous));
  CuttingRelay relay(broker.endpoint());
  ClientOptions options = ClientAt(relay.endpoint());
  options.shared_memory = false;  // shared memory would bypass the relay
  Client client(options);
  ASSERT_TRUE(client.CountOf(AnyOf("a"), kGenerous));
  const std::uint64_t life = client.broker_life();
  int asked = 0;
  client.SetInterrupt([&] {
    if (++asked == 2) return relay.DropAnswers();  // the Get has been answered
    if (asked > 2 && !relay.has_cut() && beside.CountOf(AnyOf("a"), kGenerous) == 0) {
      relay.CutAt(0);
    }
  });
  try {
    client.Take(AnyOf("a"), kShort);
    FAIL() << "a tuple was taken and is lost, and nobody hears of it";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBusy);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("(\"a\", 1)"), HasSubstr("connection was lost")));
  }
  EXPECT_EQ(client.broker_life(), life) << "another session of the same broker";
}

}  // namespace
}  // namespace tuplespace
