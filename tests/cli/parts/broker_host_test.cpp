// Names of hosts that have no address, or none yet.
#include "broker_host.h"

#include <atomic>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "acan/core/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace acan::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Said {
  std::mutex mutex;
  std::vector<std::string> lines;
};

BrokerHostOptions Options(const std::string& endpoint, const std::shared_ptr<Said>& said) {
  BrokerHostOptions options;
  options.endpoint = endpoint;
  options.origin = "--connect";
  options.say = [said](const std::string& line) {
    const std::lock_guard lock(said->mutex);
    said->lines.push_back(line);
  };
  options.pause = std::chrono::milliseconds(1);
  return options;
}

TEST(BrokerHosts, ThatAreAddressesAreNotLookedUp) {
  const auto said = std::make_shared<Said>();
  for (const char* endpoint :
       {"tcp://127.0.0.1:5", "tcp://[::1]:5", "tcp://localhost:5", "ipc:///no/such/folder/space",
        "tcp://gpu7.lan:5,tcp://127.0.0.1:5"}) {
    BrokerHostOptions options = Options(endpoint, said);
    options.look_up = [](const std::string& host) {
      ADD_FAILURE() << host;
      return std::nullopt;
    };
    BrokerHost(options).Await();
  }
  EXPECT_THAT(said->lines, IsEmpty());
}

TEST(BrokerHosts, ThatGetAnAddressLaterAreReportedAtOnceAndAwaited) {
  const auto said = std::make_shared<Said>();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  BrokerHostOptions options = Options("tcp://gpu7.lan:5", said);
  options.slow_after = std::chrono::minutes(10);
  options.look_up = [asked](const std::string& host) -> std::optional<std::string> {
    EXPECT_EQ(host, "gpu7.lan");
    if (++*asked < 4) return "nobody knows it";
    return std::nullopt;
  };
  BrokerHost(options).Await();
  EXPECT_EQ(*asked, 4);
  EXPECT_THAT(said->lines, ElementsAre(AllOf(HasSubstr("--connect"), HasSubstr("\"gpu7.lan\""),
                                             HasSubstr("nobody knows it"), HasSubstr("for 60 s")),
                                       HasSubstr("can be resolved now")));
}

TEST(BrokerHosts, OfWhichOneHasAnAddressAreEnough) {
  const auto said = std::make_shared<Said>();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5,tcp://gpu8.lan:5", said);
  options.slow_after = std::chrono::minutes(10);
  options.look_up = [](const std::string& host) -> std::optional<std::string> {
    if (host == "gpu8.lan") return std::nullopt;
    return "nobody knows it";
  };
  BrokerHost(options).Await();
  EXPECT_THAT(said->lines, IsEmpty());
}

TEST(BrokerHosts, OfWhichNoneHasAnAddressAreAllNamed) {
  const auto said = std::make_shared<Said>();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5,tcp://gpu8.lan:5", said);
  options.patience = std::chrono::milliseconds(50);
  options.look_up = [](const std::string&) { return "nobody knows it"; };
  EXPECT_THAT([&] { BrokerHost(options).Await(); },
              ::testing::ThrowsMessage<Error>(HasSubstr("\"gpu7.lan\" or \"gpu8.lan\"")));
}

TEST(BrokerHosts, ThatNeverGetOneAreGivenUp) {
  const auto said = std::make_shared<Said>();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5", said);
  options.patience = std::chrono::milliseconds(50);
  options.look_up = [](const std::string&) { return "nobody knows it"; };
  EXPECT_THAT(
      [&] { BrokerHost(options).Await(); },
      ::testing::ThrowsMessage<Error>(
          AllOf(HasSubstr("\"gpu7.lan\""), HasSubstr("nobody knows it"), HasSubstr("--connect"))));
}

// A resolver without a network takes long to fail, and is finally no longer waited for.
TEST(BrokerHosts, OfAResolverThatDoesNotAnswerAreReportedAndGivenUp) {
  const auto said = std::make_shared<Said>();
  const auto go_on = std::make_shared<std::promise<void>>();
  const std::shared_future<void> gone = go_on->get_future().share();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5", said);
  options.patience = std::chrono::milliseconds(50);
  options.slow_after = std::chrono::milliseconds(1);
  options.look_up = [gone](const std::string&) {
    gone.wait();
    return "too late";
  };
  EXPECT_THAT([&] { BrokerHost(options).Await(); },
              ::testing::ThrowsMessage<Error>(HasSubstr("no name server has answered")));
  EXPECT_THAT(said->lines, ElementsAre(AllOf(HasSubstr("gpu7.lan"), HasSubstr("no answer yet"))));
  go_on->set_value();
}

// The last lookup begins when hardly any time is left.
TEST(BrokerHosts, AreNotReportedAsSlowBecauseThePatienceEnds) {
  const auto said = std::make_shared<Said>();
  const auto go_on = std::make_shared<std::promise<void>>();
  const std::shared_future<void> gone = go_on->get_future().share();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5", said);
  options.patience = std::chrono::milliseconds(1);
  options.slow_after = std::chrono::minutes(10);
  options.look_up = [gone](const std::string&) {
    gone.wait();
    return "too late";
  };
  EXPECT_THROW(BrokerHost(options).Await(), Error);
  EXPECT_THAT(said->lines, IsEmpty());
  go_on->set_value();
}

TEST(BrokerHosts, AreNotAwaitedByWhoIsStopped) {
  const auto said = std::make_shared<Said>();
  const auto asked = std::make_shared<std::promise<void>>();
  const auto once = std::make_shared<std::once_flag>();
  const auto go_on = std::make_shared<std::promise<void>>();
  const std::shared_future<void> gone = go_on->get_future().share();
  BrokerHostOptions options = Options("tcp://gpu7.lan:5", said);
  options.slow_after = std::chrono::minutes(10);
  options.look_up = [=](const std::string&) {
    std::call_once(*once, [&] { asked->set_value(); });
    gone.wait();
    return "too late";
  };
  BrokerHost host(options);
  std::thread waiting([&host] { host.Await(); });
  asked->get_future().wait();
  host.Stop();
  waiting.join();
  go_on->set_value();
  EXPECT_THAT(said->lines, IsEmpty());
}

TEST(LookUpHost, SaysWhatTheResolverSays) {
  // RFC 6761: no such name exists.
  EXPECT_NE(LookUpHost("no-such-host.invalid"), std::nullopt);
}

}  // namespace
}  // namespace acan::cli
