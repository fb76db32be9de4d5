// acan check: what prevents a host from joining.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A port of the loopback interface that belongs to this object and never answers.
class Port {
 public:
  explicit Port(bool listens) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    if (listens) {
      EXPECT_EQ(::listen(fd_, 8), 0);
    }
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~Port() { ::close(fd_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  int fd_;
  std::string endpoint_;
};

class Check : public ::testing::Test {
 protected:
  Check() { EXPECT_EQ(RunAcan({"keygen", "--out", folder_ / "keys"}).code, 0); }

  std::string Key(const std::string& name) const { return folder_ / ("keys/" + name + ".key"); }
  std::vector<std::string> BrokerWords() const {
    return {"broker",          "--listen", "tcp://127.0.0.1:*", "--keys", Key("broker"),
            "--shared-memory", "off"};
  }
  static Result Run(const std::string& endpoint, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"check", "--connect", endpoint, "--device",
                                      "cpu:1", "--memory",  "16MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words);
  }

  const TestFolder folder_;
};

TEST_F(Check, OfAHostThatMayJoinMeasuresItsLinkAndSaysWhatItAdds) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  const Result first = Run(endpoint, {"--keys", Key("handler")});
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, ContainsRegex("name +ok +tcp://127.0.0.1:[0-9]+ is at 127.0.0.1:"));
  EXPECT_THAT(first.out, ContainsRegex("reach +ok "));
  EXPECT_THAT(first.out, ContainsRegex("key +ok +\"handler\" may join as handler\n"));
  EXPECT_THAT(first.out, ContainsRegex("version +ok +protocol [0-9]+ on both sides"));
  EXPECT_THAT(first.out, ContainsRegex("clock +ok +the broker's clock is 0\\.[0-9]+ s "));
  EXPECT_THAT(first.out, ContainsRegex("round trip +ok +[0-9]+ us"));
  EXPECT_THAT(first.out, ContainsRegex("bandwidth +ok +[0-9.]+ MB/s to the broker"));
  EXPECT_THAT(first.out, ContainsRegex("device +ok +cpu:1 computes exactly, .* may hold 16MiB"));
  EXPECT_THAT(first.out, ContainsRegex("adds +ok +[0-9.]+ GFLOP/s; a handler's key may not see"));

  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB",
                   "--keys", Key("handler")});
  ASSERT_TRUE(handler.WaitForErr("joined " + endpoint));
  const Result second = Run(endpoint, {"--keys", Key("manager"), "--json"});
  EXPECT_EQ(second.code, 0) << second.out << second.err;
  const auto all = nlohmann::json::parse(second.out);
  EXPECT_TRUE(all["ok"]);
  EXPECT_GT(all["measured"]["to_broker_mb_s"], 0);
  EXPECT_GT(all["measured"]["from_broker_mb_s"], 0);
  EXPECT_GT(all["measured"]["round_trip_us"], 0);
  EXPECT_GT(all["measured"]["handlers_gflops"], 0);
  EXPECT_EQ(all["measured"]["handlers"], 1);
  EXPECT_TRUE(all["measured"]["handlers"].is_number_integer());
  EXPECT_EQ(all["checks"].back()["check"], "adds");
}

// Otherwise the operator would look for an intruder.
TEST_F(Check, OfAHostThatMayJoinLeavesNoProblemInTheBrokersLog) {
  for (const char* role : {"handler", "manager", ""}) {
    const std::vector<std::string> no_keys;
    std::vector<std::string> words = {"broker", "--listen", "tcp://127.0.0.1:*"};
    if (*role != '\0') words = BrokerWords();
    Program broker(words);
    const std::string endpoint = EndpointOf(broker);
    const Result result =
        Run(endpoint, *role == '\0' ? no_keys : std::vector<std::string>{"--keys", Key(role)});
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    broker.Signal(SIGTERM);
    EXPECT_EQ(broker.Wait(), 128 + SIGTERM);
    EXPECT_THAT(broker.err(), AllOf(Not(HasSubstr("failed")), Not(HasSubstr("refused")))) << role;
  }
}

TEST_F(Check, OfABrokerThatIsFullNamesItsLimit) {
  Program broker({"broker", "--listen", "tcp://127.0.0.1:*", "--clients", "1"});
  const std::string endpoint = EndpointOf(broker);
  const std::vector<std::string> words = {"handler", "--connect", endpoint, "--device",
                                          "cpu:1",   "--memory",  "16MiB"};
  Program first(words);
  ASSERT_TRUE(first.WaitForErr("joined " + endpoint));
  const Result result = Run(endpoint);
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("reach +ok "));
  EXPECT_THAT(result.out, ContainsRegex("key +FAILED .*admits no further client.*clients = 1"));
  Program second(words);
  ASSERT_TRUE(second.WaitForErr("the limit clients = 1 is reached"));
  EXPECT_THAT(second.err(), Not(HasSubstr("no broker answers")));
  EXPECT_TRUE(broker.WaitForErr("is not admitted: the limit clients = 1 is reached"));
  first.Signal(SIGTERM);
  EXPECT_TRUE(second.WaitForErr("joined " + endpoint));
}

TEST_F(Check, OnTheBrokersHostNothingCrossesALink) {
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  EndpointOf(broker);
  const Result result = Run(endpoint);
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("adds +ok +it would be the first handler"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("this broker requires no key"), HasSubstr("shared memory")));
}

// Users should only need to replace "handler" by "check".
TEST_F(Check, TakesTheFlagsAndVariablesOfAHandler) {
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  EndpointOf(broker);
  const Result result = RunAcan({"check", "--fast-math", "bf16", "--throttle", "2.5", "--inject",
                                 "results:1e-3", "--log-format", "json"},
                                {{"ACAN_CONNECT", endpoint},
                                 {"ACAN_DEVICE", "cpu:1"},
                                 {"ACAN_MEMORY", "24MiB"},
                                 {"ACAN_DIRECT", "off"}});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("device +ok +cpu:1 computes exactly, .* may hold 24MiB"));
  const Result wrong = RunAcan({"check", "--connect", endpoint},
                               {{"ACAN_DEVICE", "tpu:0"}, {"ACAN_MEMORY", "1MiB"}});
  EXPECT_EQ(wrong.code, 2) << wrong.out;
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("ACAN_DEVICE"), HasSubstr("tpu:0")));
}

TEST_F(Check, WithAnObserversKeyFailsAndMeasuresNoBandwidth) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);  // now the broker follows its list
  ASSERT_EQ(
      RunAcan({"keygen", "--out", folder_ / "keys", "--add", "observer", "--name", "eye"}).code, 0);
  ASSERT_TRUE(broker.WaitForErr("has changed"));
  const Result result = Run(endpoint, {"--keys", Key("eye")});
  EXPECT_EQ(result.code, 1) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("key +FAILED +\"eye\" may join, but only as an observer"));
  EXPECT_THAT(result.out, ContainsRegex("bandwidth +note +not measured"));
}

TEST_F(Check, NamesAHostWithoutAnAddress) {
  const Result result = Run("tcp://no-such-host.invalid:5555", {"--keys", Key("handler")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(ContainsRegex("name +FAILED"), HasSubstr("no-such-host.invalid"),
                                Not(HasSubstr("reach"))));
}

TEST_F(Check, NamesAnAddressWhereNobodyListens) {
  const Port port(/*listens=*/false);
  const Result result = Run(port.endpoint(), {"--keys", Key("handler")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(ContainsRegex("reach +FAILED"), HasSubstr("Connection refused"),
                                Not(HasSubstr("version"))));
}

TEST_F(Check, NamesWhatListensButIsNoBroker) {
  const Port port(/*listens=*/true);
  const Result result = Run(port.endpoint(), {"--keys", Key("handler")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(ContainsRegex("reach +ok"), ContainsRegex("key +FAILED"),
                                Not(HasSubstr("version"))));
}

// It answers nothing, as what is no broker does.
TEST_F(Check, OfABrokerThatIsStoppedDoesNotSayThatItIsNone) {
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  EndpointOf(broker);
  broker.Signal(SIGSTOP);
  const Result result = Run(endpoint);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              ContainsRegex("key +FAILED .* is not a broker, or is one that is stopped"));
}

TEST_F(Check, OfADeviceThatIsTooSmallSaysWhatItNeeds) {
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  EndpointOf(broker);
  const Result result =
      RunAcan({"check", "--connect", endpoint, "--device", "cpu:1", "--memory", "40KiB", "--json"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const auto all = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(all.is_object()) << result.out;
  EXPECT_FALSE(all["ok"]);
  const auto& last = all["checks"].back();
  EXPECT_EQ(last["check"], "device");
  EXPECT_EQ(last["state"], "FAILED");
  EXPECT_THAT(last["text"].get<std::string>(), AllOf(HasSubstr("cpu:1 with 40KiB is too small"),
                                                     HasSubstr("64KiB is enough for it")));
}

TEST_F(Check, NamesAKeyThatIsMissingOrNotOnTheList) {
  Program broker(BrokerWords());
  const std::string endpoint = EndpointOf(broker);
  const Result without = Run(endpoint);
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.out, AllOf(ContainsRegex("key +FAILED"), HasSubstr("this client has none")));
  ASSERT_EQ(RunAcan({"keygen", "--out", folder_ / "others"}).code, 0);
  const Result other = Run(endpoint, {"--keys", folder_ / "others/handler.key"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, AllOf(ContainsRegex("key +FAILED"), HasSubstr("handshake failed")));
  // A key of this broker that was removed from its list.
  const std::string copy = folder_.Write("copy.key", ReadFile(Key("handler")));
  ::chmod(copy.c_str(), 0600);
  ASSERT_EQ(RunAcan({"keygen", "--out", folder_ / "keys", "--revoke", "handler"}).code, 0);
  ASSERT_TRUE(broker.WaitForErr("has changed"));
  const Result revoked = Run(endpoint, {"--keys", copy});
  EXPECT_EQ(revoked.code, 1);
  EXPECT_THAT(revoked.out, AllOf(ContainsRegex("key +FAILED"), HasSubstr("refused the key")));
}

TEST_F(Check, OfSeveralPlacesNeedsOneWithABroker) {
  const Port port(/*listens=*/false);
  Program broker(BrokerWords());
  const Result result = Run(port.endpoint() + "," + EndpointOf(broker), {"--keys", Key("handler")});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(ContainsRegex("reach +note"), ContainsRegex("reach +ok"),
                                ContainsRegex("round trip +ok")));
}

TEST_F(Check, RefusesMistakesInItsFlags) {
  EXPECT_EQ(Run("here").code, 2);
  EXPECT_EQ(Run("tcp://127.0.0.1:1", {"--keys", Key("broker")}).code, 2);
  EXPECT_EQ(RunAcan({"check", "--connect", "tcp://127.0.0.1:1,tcp://127.0.0.1:x"}).code, 2);
}

}  // namespace
}  // namespace acan::testing
