// BrokerHost: waits until the name of the broker's host has an address. ZeroMQ asks for it again
// and again without a word, so that a misspelt name would look like a broker that is not there yet.
// Of several hosts where the broker may be, one with an address is enough.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

// nullopt if `host` has an IPv4 address, else what the resolver says. May take long.
std::optional<std::string> LookUpHost(const std::string& host);

struct BrokerHostOptions {
  std::string endpoint;  // or several, as in tuplespace::ClientOptions
  std::string origin;    // where it came from: "--connect"
  std::function<void(const std::string& line)> say;
  std::function<std::optional<std::string>(const std::string& host)> look_up = LookUpHost;
  std::chrono::milliseconds patience{60'000};
  std::chrono::milliseconds pause{1'000};       // between two tries
  std::chrono::milliseconds slow_after{2'000};  // a resolver that has not answered by then
};

class BrokerHost {
 public:
  explicit BrokerHost(BrokerHostOptions options);

  // Returns when the name has an address, at once for addresses and sockets, and when it is
  // stopped. Says at once that a name has none, and then tries again. Throws Error (failure) when
  // `patience` is over.
  void Await();
  void Stop();  // thread safe; Await returns

 private:
  struct State;

  // One question, which a thread of its own may wait for longer than this object is there.
  std::optional<std::string> Ask(std::chrono::steady_clock::time_point deadline);
  bool Stopped() const;
  std::string Names() const;  // quoted, for messages

  BrokerHostOptions options_;
  std::vector<std::string> hosts_;  // empty: nothing to look up
  std::shared_ptr<State> state_;
};

}  // namespace acan::cli
