// BrokerHost: waits until the name of the broker's host resolves to an address. ZeroMQ retries
// silently, so a misspelt name would look like a broker that has not started yet. If the broker may
// be on several hosts, one with an address is enough.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

// nullopt if `host` has an IPv4 address, otherwise the resolver's error. May take long.
std::optional<std::string> LookUpHost(const std::string& host);

struct BrokerHostOptions {
  std::string endpoint;  // or several, as in tuplespace::ClientOptions
  std::string origin;    // where the endpoint came from: "--connect"
  std::function<void(const std::string& line)> say;
  std::function<std::optional<std::string>(const std::string& host)> look_up = LookUpHost;
  std::chrono::milliseconds patience{60'000};
  std::chrono::milliseconds pause{1'000};       // between two tries
  std::chrono::milliseconds slow_after{2'000};  // after this time a resolver counts as slow
};

class BrokerHost {
 public:
  explicit BrokerHost(BrokerHostOptions options);

  // Returns when the name has an address, when this is stopped, and immediately for addresses and
  // sockets. Reports immediately that a name has no address, and then retries. Throws Error
  // (failure) after `patience`.
  void Await();
  void Stop();  // thread safe; Await returns

 private:
  struct State;

  // One query, for which a separate thread may wait beyond this object's lifetime.
  std::optional<std::string> Ask(std::chrono::steady_clock::time_point deadline);
  bool Stopped() const;
  std::string Names() const;  // quoted, for messages

  BrokerHostOptions options_;
  std::vector<std::string> hosts_;  // empty: nothing to look up
  std::shared_ptr<State> state_;
};

}  // namespace acan::cli
