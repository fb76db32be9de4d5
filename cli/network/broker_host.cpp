#include "broker_host.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"
#include "tuplespace/client.h"

namespace acan::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The name in one endpoint that must be looked up; empty for addresses, and for endpoints without a
// host.
std::string NameIn(const std::string& endpoint) {
  const std::string scheme = "tcp://";
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(scheme) || colon < scheme.size()) return "";
  std::string host = endpoint.substr(scheme.size(), colon - scheme.size());
  in_addr address{};
  const bool is_address = host.front() == '[' || inet_pton(AF_INET, host.c_str(), &address) == 1;
  return is_address || host == "localhost" ? "" : host;
}

// Empty if any of the endpoints needs no lookup.
std::vector<std::string> NamesIn(const std::string& endpoints) {
  std::vector<std::string> names;
  for (const std::string& endpoint : tuplespace::EndpointsIn(endpoints)) {
    names.push_back(NameIn(endpoint));
    if (names.back().empty()) return {};
  }
  return names;
}

}  // namespace

struct BrokerHost::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  bool answered = false;
  std::optional<std::string> problem;
};

std::optional<std::string> LookUpHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;  // ZeroMQ resolves names to IPv4 addresses only
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    ::freeaddrinfo(found);
    return std::nullopt;
  }
  return error == EAI_SYSTEM ? SystemErrorText(errno) : ::gai_strerror(error);
}

BrokerHost::BrokerHost(BrokerHostOptions options)
    : options_(std::move(options)),
      hosts_(NamesIn(options_.endpoint)),
      state_(std::make_shared<State>()) {}

void BrokerHost::Stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
}

std::string BrokerHost::Names() const {
  return fmt::format("\"{}\"", fmt::join(hosts_, "\" or \""));
}

bool BrokerHost::Stopped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stop;
}

std::optional<std::string> BrokerHost::Ask(Clock::time_point deadline) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->answered = false;
  }
  std::thread([state = state_, look_up = options_.look_up, hosts = hosts_] {
    std::optional<std::string> problem = look_up(hosts.front());
    for (std::size_t i = 1; i < hosts.size() && problem; ++i) problem = look_up(hosts[i]);
    const std::lock_guard lock(state->mutex);
    state->problem = std::move(problem);
    state->answered = true;
    state->changed.notify_all();
  }).detach();
  const auto over = [this] { return state_->answered || state_->stop; };
  const Clock::time_point slow_at = Clock::now() + options_.slow_after;
  std::unique_lock lock(state_->mutex);
  // A lookup that has just begun when the patience ends is not slow.
  if (!state_->changed.wait_until(lock, std::min(deadline, slow_at), over) && slow_at < deadline) {
    lock.unlock();
    options_.say(fmt::format("looking up the broker's host {}: no answer yet", Names()));
    lock.lock();
  }
  if (state_->changed.wait_until(lock, deadline, over)) return state_->problem;
  return state_->problem.value_or("no name server has answered");  // the result of the last query
}

void BrokerHost::Await() {
  if (hosts_.empty()) return;
  const Clock::time_point deadline = Clock::now() + options_.patience;
  const auto patience_s = std::chrono::duration_cast<std::chrono::seconds>(options_.patience);
  for (bool said = false;;) {
    const std::optional<std::string> problem = Ask(deadline);
    if (Stopped()) return;
    if (!problem) {
      if (said) options_.say(fmt::format("the broker's host {} can be resolved now", Names()));
      return;
    }
    if (Clock::now() >= deadline) {
      throw FailureError(fmt::format(
          "{}: the broker's host {} could not be resolved for {} s: {}; is the name right?",
          options_.origin, Names(), patience_s.count(), *problem));
    }
    if (!said) {
      options_.say(fmt::format(
          "{}: the broker's host {} cannot be resolved: {}; is the name right? Trying again "
          "for {} s",
          options_.origin, Names(), *problem, patience_s.count()));
    }
    said = true;
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, options_.pause, [this] { return state_->stop; });
  }
}

}  // namespace acan::cli
