// For the tests of wire, broker and client: a temporary folder, a broker in a thread, and polling.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plain_tuple.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace tuplespace {

// Returns `bytes` bytes that vary with their position and with the seed.
inline std::string Repeated(std::size_t bytes, char seed) {
  std::string text(bytes, seed);
  for (std::size_t i = 0; i < bytes; i += 97) text[i] = static_cast<char>('a' + (i + seed) % 26);
  return text;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tuplespace-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Ipc(const std::string& name = "s") const { return "ipc://" + Path(name); }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// A broker that runs in its own thread until this object is destroyed.
class BrokerThread {
 public:
  explicit BrokerThread(BrokerOptions options) : broker_(WithLog(std::move(options))) {
    thread_ = std::thread([this] { broker_.Run(); });
  }
  explicit BrokerThread(const std::string& endpoint) : BrokerThread(Options(endpoint)) {}
  ~BrokerThread() { Join(); }

  static BrokerOptions Options(const std::string& endpoint) {
    BrokerOptions options;
    options.listen = {endpoint};
    return options;
  }
  const std::string& endpoint() const { return broker_.endpoints().front(); }
  Broker& broker() { return broker_; }
  std::string Log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  // Stops the broker and returns its statistics.
  Stats Join() {
    broker_.Stop();
    if (thread_.joinable()) thread_.join();
    return broker_.GetStatistics();
  }

 private:
  BrokerOptions WithLog(BrokerOptions options) {
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
    return options;
  }

  mutable std::mutex mutex_;
  std::string log_;
  Broker broker_;
  std::thread thread_;
};

inline ClientOptions ClientAt(const std::string& endpoint, const std::string& id = "") {
  ClientOptions options;
  options.endpoint = endpoint;
  options.id = id;
  options.name = "test " + id;
  return options;
}

inline Tuple TaskTuple(const Key& key, const std::string& text, std::vector<Key> inputs = {}) {
  Tuple tuple = PlainTuple(key, text);
  tuple.task.emplace();
  tuple.task->inputs = std::move(inputs);
  return tuple;
}

inline Pattern AnyOf(const std::string& first) {
  Pattern pattern;
  pattern.fields = {FieldPattern::Exact(first)};
  pattern.open = true;
  return pattern;
}

// Long enough that only a broken program reaches it.
inline constexpr std::chrono::seconds kGenerous{60};

// Polls `client` until `done`; returns false if that takes longer than in any working program.
inline bool PollUntil(Client& client, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kGenerous;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    client.Poll(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace tuplespace
