// Brokers and their processes: addresses, restarts, killed and hanging clients.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <zmq.hpp>

#include "broker_fixture.h"
#include "endpoint.h"
#include "packed_messages.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

std::string RefusalOf(const std::string& endpoint) {
  try {
    Broker broker(BrokerThread::Options(endpoint));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(BrokerAddresses, OnlyLoopbackAndIpcAreServed) {
  for (const std::string endpoint :
       {"tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://192.168.1.1:5555", "tcp://10.0.0.1:*",
        "tcp://example.org:5555", "tcp://eth0:5555", "tcp://[::]:5555", "tcp://128.0.0.1:5555",
        "tcp://127.0.0.1.example.org:5555", "tcp://[::ffff:10.0.0.1]:5555"}) {
    const std::string refusal = RefusalOf(endpoint);
    EXPECT_THAT(refusal, HasSubstr("admit anybody")) << endpoint;
    EXPECT_THAT(refusal, HasSubstr(endpoint));
    EXPECT_THAT(refusal, HasSubstr("ipc://"));
  }
  for (const std::string endpoint :
       {"", "udp://127.0.0.1:1", "127.0.0.1:5555", "tcp://127.0.0.1", "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536", "tcp://127.0.0.1:12x", "ipc://", "inproc://", "ipc://@abstract"}) {
    EXPECT_NE(RefusalOf(endpoint), "") << endpoint;
  }
  EXPECT_THAT(RefusalOf("ipc://" + std::string(108, 'p')), HasSubstr("at most 107"));
  BrokerOptions impatient = BrokerThread::Options("inproc://x");
  impatient.client_silence_us = 0;
  EXPECT_THROW(Broker{impatient}, std::invalid_argument);
  BrokerOptions none;
  EXPECT_THROW(Broker{none}, std::invalid_argument);
}

TEST(BrokerAddresses, EveryLoopbackFormWorks) {
  for (const std::string endpoint :
       {"tcp://127.0.0.1:*", "tcp://localhost:*", "tcp://127.3.2.1:*", "tcp://[::1]:*"}) {
    std::unique_ptr<BrokerThread> broker;
    try {
      broker = std::make_unique<BrokerThread>(endpoint);
    } catch (const std::runtime_error& error) {
      // A machine without IPv6 is not an error of the broker.
      ASSERT_EQ(endpoint, "tcp://[::1]:*") << error.what();
      continue;
    }
    EXPECT_THAT(broker->endpoint(), ::testing::Not(HasSubstr("*")));
    Client client(ClientAt(broker->endpoint()));
    EXPECT_TRUE(client.Put({PlainTuple({"a"}, "x")}, kGenerous)) << endpoint;
  }
}

TEST(BrokerAddresses, SeveralAtOnce) {
  TemporaryFolder folder;
  BrokerOptions options;
  options.listen = {folder.Ipc(), "tcp://127.0.0.1:*"};
  BrokerThread broker(options);
  Client one(ClientAt(folder.Ipc()));
  ASSERT_TRUE(one.Put({PlainTuple({"a"}, "x")}));
}

TEST(BrokerAddresses, ALiveBrokerIsNotReplaced) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  try {
    Broker second(BrokerThread::Options(folder.Ipc()));
    FAIL() << "two brokers at one path";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("live"));
    EXPECT_THAT(error.what(), HasSubstr(folder.Path("s")));
  }
  Client client(ClientAt(folder.Ipc()));
  EXPECT_TRUE(client.Put({PlainTuple({"a"}, "x")}));

  BrokerThread tcp("tcp://127.0.0.1:*");
  EXPECT_THROW(Broker(BrokerThread::Options(tcp.endpoint())), std::runtime_error);
}

// systemd-logind removes /run/user/UID, and cleaners remove files in /tmp.
TEST(BrokerAddresses, ASocketThatWasRemovedIsMadeAgainAndNoConnectionEnds) {
  TemporaryFolder folder;
  const std::filesystem::path inner = folder.Path("inner");
  const std::string path = inner / "s";
  std::filesystem::create_directory(inner);
  BrokerThread broker("ipc://" + path);
  Client before(ClientAt("ipc://" + path));
  int lost = 0;
  before.OnConnection([&](bool connected, const std::string&) { lost += !connected; });
  ASSERT_TRUE(before.Put({PlainTuple({"a"}, "x")}, kGenerous));
  for (const std::string name : {"b", "c"}) {
    std::filesystem::remove_all(inner);
    Client after(ClientAt("ipc://" + path));
    ASSERT_TRUE(after.Put({PlainTuple({name}, "x")}, kGenerous)) << broker.Log();
    EXPECT_EQ(before.CountOf(AnyOf(name)), 1u);
  }
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(std::filesystem::status(inner).permissions(), std::filesystem::perms::owner_all);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, S_IRUSR | S_IWUSR);
  EXPECT_THAT(broker.Log(), HasSubstr("the socket " + path + " was removed: listening there"));
  broker.Join();
}

TEST(BrokerAddresses, ASocketThatCannotBeMadeAgainIsMadeWhenItCan) {
  TemporaryFolder folder;
  const std::filesystem::path outer = folder.Path("outer");
  std::filesystem::create_directories(outer / "inner");
  const std::string endpoint = "ipc://" + (outer / "inner/s").string();
  BrokerThread broker(endpoint);
  Client before(ClientAt(endpoint));
  ASSERT_TRUE(before.Put({PlainTuple({"a"}, "x")}, kGenerous));
  std::filesystem::remove_all(outer);
  ASSERT_TRUE(PollUntil(before, [&] {
    return broker.Log().find("cannot be made again: " + (outer / "inner").string()) !=
           std::string::npos;
  }));
  std::filesystem::create_directory(outer);
  Client after(ClientAt(endpoint));
  EXPECT_TRUE(after.Put({PlainTuple({"b"}, "x")}, kGenerous)) << broker.Log();
  EXPECT_EQ(before.CountOf(AnyOf("b")), 1u);
}

// As by a second broker that was started within the second after the file was removed.
TEST(BrokerAddresses, ASocketThatAnotherFileReplacedIsSpokenOfOnceAndLeftAlone) {
  TemporaryFolder folder;
  const std::string path = folder.Path("s");
  BrokerThread broker(folder.Ipc());
  Client before(ClientAt(folder.Ipc()));
  ASSERT_TRUE(before.Put({PlainTuple({"a"}, "x")}, kGenerous));
  const std::string taken = "another file has taken the place of the socket " + path;
  std::ofstream(folder.Path("other")) << "precious";
  std::filesystem::rename(folder.Path("other"), path);
  ASSERT_TRUE(PollUntil(before, [&] { return broker.Log().find(taken) != std::string::npos; }));
  EXPECT_EQ(before.CountOf(AnyOf("a")), 1u) << "who is connected stays so";
  std::filesystem::remove(path);
  Client after(ClientAt(folder.Ipc()));
  ASSERT_TRUE(after.Put({PlainTuple({"b"}, "x")}, kGenerous)) << broker.Log();
  EXPECT_EQ(broker.Log().find(taken), broker.Log().rfind(taken)) << broker.Log();
  // The next one that takes it is spoken of as well, and is left when the broker ends.
  std::ofstream(folder.Path("other")) << "precious";
  std::filesystem::rename(folder.Path("other"), path);
  ASSERT_TRUE(
      PollUntil(before, [&] { return broker.Log().find(taken) != broker.Log().rfind(taken); }));
  broker.Join();
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST(BrokerAddresses, TheSocketOfADeadBrokerIsReplacedAndOtherFilesAreNot) {
  TemporaryFolder folder;
  // A killed process leaves a bound socket file with no listener.
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, folder.Path("s").c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  {
    BrokerThread broker(folder.Ipc());
    struct stat info {};
    ASSERT_EQ(stat(folder.Path("s").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    Client client(ClientAt(folder.Ipc()));
    EXPECT_TRUE(client.Put({PlainTuple({"a"}, "x")}));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.Path("s")));

  std::ofstream(folder.Path("file")) << "precious";
  EXPECT_THROW(Broker(BrokerThread::Options(folder.Ipc("file"))), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(folder.Path("file")));
}

// The file is created with its final mode, whatever the umask is. The mode is never changed later.
TEST(BrokerAddresses, NobodyElseMayEverConnectToASocketFile) {
  TemporaryFolder folder;
  const int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(events, folder.Path("").c_str(), IN_CREATE | IN_ATTRIB), 0);
  const mode_t mask = umask(0);
  {
    BrokerThread broker(folder.Ipc());
    struct stat info {};
    ASSERT_EQ(stat(folder.Path("s").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    alignas(inotify_event) char bytes[4096];
    const ssize_t size = read(events, bytes, sizeof(bytes));
    ASSERT_GE(size, static_cast<ssize_t>(sizeof(inotify_event)));
    const auto* first = reinterpret_cast<const inotify_event*>(bytes);
    EXPECT_EQ(first->mask, unsigned{IN_CREATE});
    EXPECT_STREQ(first->name, "s");
    EXPECT_EQ(size, static_cast<ssize_t>(sizeof(inotify_event) + first->len)) << "it was changed";
  }
  umask(mask);
  close(events);
}

TEST(BrokerAddresses, OnePathManyTimes) {
  TemporaryFolder folder;
  zmq::context_t context;
  for (int i = 0; i < 20; ++i) {
    BrokerOptions options = BrokerThread::Options(folder.Ipc());
    options.context = &context;  // shared because sockets are closed in the background
    BrokerThread broker(options);
    Client client(ClientAt(folder.Ipc()));
    ASSERT_TRUE(client.Put({PlainTuple({"a", i}, "x")}, kGenerous)) << i;
  }
}

// ---- stopping -----------------------------------------------------------------------------------

Broker* signalled_broker = nullptr;

TEST(BrokerStop, FromASignalHandler) {
  TemporaryFolder folder;
  Broker broker(BrokerThread::Options(folder.Ipc()));
  signalled_broker = &broker;
  struct sigaction action {};
  action.sa_handler = [](int) { signalled_broker->Stop(); };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t runner = pthread_self();
  std::thread killer([&] { pthread_kill(runner, SIGUSR1); });
  broker.Run();  // returns because of the signal, even if it comes early
  killer.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(BrokerStop, SignalsThatMeanNothingAreSurvived) {
  TemporaryFolder folder;
  Broker broker(BrokerThread::Options(folder.Ipc()));
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::thread runner([&] { broker.Run(); });
  Client client(ClientAt(folder.Ipc()));
  for (int i = 0; i < 200; ++i) {
    pthread_kill(runner.native_handle(), SIGUSR1);
    pthread_kill(pthread_self(), SIGUSR1);
    ASSERT_TRUE(client.Put({PlainTuple({"n", i}, std::string(2000, 'x'))}));
  }
  broker.Stop();
  runner.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(broker.GetStatistics().tuples, 200u);
}

TEST(BrokerStop, BeforeRunAndTwice) {
  TemporaryFolder folder;
  Broker broker(BrokerThread::Options(folder.Ipc()));
  broker.Stop();
  broker.Stop();
  broker.Run();
}

// A broker of which a client has leased a tuple of the pattern that keeps it.
class LingeringBroker : public ::testing::Test {
 protected:
  void Begin(std::int64_t most_us) {
    BrokerOptions options = BrokerThread::Options(folder_.Ipc());
    options.linger = {AnyOf("lead"), most_us, "leads"};
    broker_.emplace(std::move(options));
    client_.emplace(ClientAt(folder_.Ipc(), "leader"));
  }
  void Lease(const char* kind) {
    client_->Put({PlainTuple({kind, 1}, "")});
    Get get;
    get.pattern = AnyOf(kind);
    get.lease_us = 600'000'000;
    ASSERT_EQ(client_->GetSome(get).size(), 1u);
  }

  TemporaryFolder folder_;
  std::optional<Broker> broker_;
  std::optional<Client> client_;
};

TEST_F(LingeringBroker, ServesOnUntilTheLastLeaseEnds) {
  Begin(600'000'000);
  std::thread runner([this] { broker_->Run(); });
  Lease("lead");
  broker_->StopSoon();
  Client other(ClientAt(folder_.Ipc(), "other"));
  EXPECT_TRUE(other.Put({PlainTuple({"more", 1}, "")}));
  client_.reset();
  runner.join();
  EXPECT_EQ(broker_->GetStatistics().tuples, 2u);
}

TEST_F(LingeringBroker, EndsAfterItsLimit) {
  Begin(50'000);
  std::thread runner([this] { broker_->Run(); });
  Lease("lead");
  broker_->StopSoon();
  runner.join();
}

TEST_F(LingeringBroker, EndsAtOnceIfItIsToldSo) {
  Begin(600'000'000);
  std::thread runner([this] { broker_->Run(); });
  Lease("lead");
  broker_->StopSoon();
  broker_->Stop();
  runner.join();
}

TEST_F(LingeringBroker, EndsAtOnceWithoutSuchALease) {
  Begin(600'000'000);
  std::thread runner([this] { broker_->Run(); });
  Lease("other");
  client_->Put({PlainTuple({"lead", 1}, "")});  // nobody has leased it
  broker_->StopSoon();
  runner.join();
}

// ---- clients that die or hang -------------------------------------------------------------------

// Forks a process that takes one task and then does nothing. It writes to `ready` when it has the
// task. Call this before this process starts threads.
pid_t ForkTaker(const std::string& endpoint, int ready) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  {
    Client client(ClientAt(endpoint, "victim"));
    Get get;
    get.pattern = AnyOf("task");
    if (client.GetSome(get).size() == 1) {
      [[maybe_unused]] const auto written = write(ready, "x", 1);
    }
    for (;;) client.Poll(std::chrono::hours(1));
  }
}

class KilledClient : public ::testing::TestWithParam<std::string> {};

TEST_P(KilledClient, GivesItsLeaseBackAtOnce) {
  TemporaryFolder folder;
  std::string endpoint = folder.Ipc();
  if (GetParam() == "tcp") {
    Broker scout(BrokerThread::Options("tcp://127.0.0.1:*"));
    endpoint = scout.endpoints().front();
  }
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t victim = ForkTaker(endpoint, ready[1]);
  ASSERT_GT(victim, 0);

  BrokerOptions options = BrokerThread::Options(endpoint);
  // Both timeouts are too long to return the task.
  options.limits.default_lease_us = 3'000'000'000;
  options.client_silence_us = 3'000'000'000;
  BrokerThread broker(options);
  Client client(ClientAt(endpoint));
  ASSERT_TRUE(client.Put({TaskTuple({"task", 1}, "x")}, kGenerous));
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto stats = client.GetStatistics();
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->tasks_leased, 1u);

  ASSERT_EQ(kill(victim, SIGKILL), 0);
  ASSERT_EQ(waitpid(victim, nullptr, 0), victim);
  const auto killed = std::chrono::steady_clock::now();
  Get get;
  get.pattern = AnyOf("task");
  const std::vector<Grant> grants = client.GetSome(get, kGenerous);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - killed);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].key, (Key{"task", 1}));
  RecordProperty("granted_again_after_us", std::to_string(took.count()));
  std::printf("granted again after %lld us\n", static_cast<long long>(took.count()));
  EXPECT_EQ(broker.Join().counters.leases_returned, 1u);
  EXPECT_THAT(broker.Log(), HasSubstr("victim"));
  close(ready[0]);
  close(ready[1]);
}

INSTANTIATE_TEST_SUITE_P(Transports, KilledClient, ::testing::Values("ipc", "tcp"),
                         [](const auto& one) { return one.param; });

TEST(StuckClient, IsDroppedWhenItsQueueIsFullAndOthersGoOn) {
  TemporaryFolder folder;
  BrokerOptions options = BrokerThread::Options(folder.Ipc());
  options.client_queue_bytes = 8 << 20;
  options.client_silence_us = 3'000'000'000;
  BrokerThread broker(options);
  Client good(ClientAt(folder.Ipc(), "good"));
  ASSERT_TRUE(good.Put({PlainTuple({"big"}, std::string(1 << 20, 'b'))}));

  // This client repeatedly asks for a megabyte and never reads. The answers fill the kernel's
  // buffers, then ZeroMQ's queues, and then the broker's own queue.
  zmq::context_t context;
  zmq::socket_t stuck(context, zmq::socket_type::dealer);
  stuck.set(zmq::sockopt::linger, 0);
  stuck.set(zmq::sockopt::routing_id, "stuck");
  stuck.set(zmq::sockopt::rcvhwm, 2);
  stuck.set(zmq::sockopt::rcvtimeo, 60'000);
  stuck.connect(folder.Ipc());
  Encoder encoder;
  encoder.Begin(0);
  encoder.Add(Hello{1, "never reads"});
  stuck.send(zmq::buffer(Packed(encoder.Finish())));
  zmq::message_t welcome;
  ASSERT_TRUE(stuck.recv(welcome));
  const auto decoded = DecodeToClient(ControlIn(welcome), {});
  const std::uint64_t session =
      std::get<Welcome>(std::get<ToClient>(decoded).messages.at(0)).session;
  Read read;
  read.patterns = {AnyOf("big")};
  for (RequestId id = 1; id < 20'000 && broker.Log().find("lost") == std::string::npos; ++id) {
    encoder.Begin(session);
    encoder.Add(Request{id, read});
    stuck.send(zmq::buffer(Packed(encoder.Finish())), zmq::send_flags::dontwait);
    // Each request needs its own turn of the broker, because the answers of one turn share a
    // payload.
    ASSERT_TRUE(good.GetStatistics());
  }
  EXPECT_THAT(broker.Log(), HasSubstr("stuck"));
  EXPECT_THAT(broker.Log(), HasSubstr("client_queue_bytes = 8388608"));
  EXPECT_TRUE(good.Put({PlainTuple({"still"}, "fine")}));
}

// Floods come through channels in shared memory; the other client uses a channel or a socket.
class Fairness : public testing::TestWithParam<bool> {
 protected:
  static constexpr int kFlooders = 3;
};

TEST_P(Fairness, FloodsOfSomeDoNotStopAnother) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  std::atomic<bool> stop{false};
  std::latch flooding{kFlooders};
  const auto flood = [&] {
    Client client(ClientAt(folder.Ipc()));
    EXPECT_TRUE(PollUntil(client, [&] { return client.GetStatistics() && client.nearby(); }));
    flooding.count_down();
    std::int64_t n = 0;
    while (!stop) {
      while (client.unanswered() < 5000) {
        client.Submit(Put{{PlainTuple({"flood", n % 1000}, "x")}}, nullptr);
        ++n;
      }
      client.Poll(std::chrono::milliseconds(10));
    }
  };
  std::vector<std::thread> flooders;
  for (int i = 0; i < kFlooders; ++i) flooders.emplace_back(flood);
  flooding.wait();
  ClientOptions options = ClientAt(folder.Ipc());
  options.shared_memory = GetParam();
  Client other(options);
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(other.Put({PlainTuple({"other", i}, "x")}, kGenerous));
  }
  stop = true;
  for (std::thread& flooder : flooders) flooder.join();
}

INSTANTIATE_TEST_SUITE_P(Through, Fairness, testing::Bool(),
                         [](const auto& each) { return each.param ? "AChannel" : "ASocket"; });

}  // namespace
}  // namespace tuplespace
