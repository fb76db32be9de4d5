// BrokerStatistics: what a broker counts in addition to its space, and its log lines.
//
// Not thread safe; for one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "log_pause.h"
#include "tuplespace/log_quota.h"
#include "tuplespace/messages.h"

namespace tuplespace {

class BrokerStatistics {
 public:
  void CountMessage() { ++messages_; }
  void CountRequest() { ++requests_; }
  // Counts it. Returns whether to log it with the count so far: for each party, which may have any
  // number of clients, only once in a while.
  bool CountBadMessage(const std::string& party, std::int64_t now_us) {
    ++bad_messages_;
    return bad_pause_.IsOver(party, now_us);
  }
  bool CountRefusedRequest(const std::string& party, std::int64_t now_us) {
    ++refused_requests_;
    return refused_pause_.IsOver(party, now_us);
  }
  // Limited, because a client may join and leave as often as it likes.
  bool MayLogJoined(const ClientId& client, std::int64_t now_us) {
    return joined_pause_.IsOver(client, now_us);
  }
  bool MayLogJoinedAgain(const ClientId& client, std::int64_t now_us) {
    return joined_again_pause_.IsOver(client, now_us);
  }
  // It tries again about once a second.
  bool MayLogNotAdmitted(const ClientId& client, std::int64_t now_us) {
    return not_admitted_pause_.IsOver(client, now_us);
  }
  std::uint64_t bad_messages() const { return bad_messages_; }
  std::uint64_t refused_requests() const { return refused_requests_; }
  void SetConnectionCounts(std::uint64_t refused_connections, std::uint64_t failed_connections) {
    refused_connections_ = refused_connections;
    failed_connections_ = failed_connections;
  }
  void SetUnixTime(std::uint64_t unix_us) { unix_us_ = unix_us; }
  void AddTo(Stats* stats) const;

  void Log(std::string line) { log_.push_back(std::move(line)); }
  // Logs that a client of this party came or left, unless there are too many such lines about it.
  void LogPresence(const std::string& party, std::string line, std::int64_t now_us);
  std::vector<std::string> TakeLog() { return std::exchange(log_, {}); }

 private:
  std::uint64_t messages_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t bad_messages_ = 0;
  std::uint64_t refused_requests_ = 0;
  std::uint64_t refused_connections_ = 0;
  std::uint64_t failed_connections_ = 0;
  std::uint64_t unix_us_ = 0;
  LogPause bad_pause_;
  LogPause refused_pause_;
  LogPause joined_pause_;
  LogPause joined_again_pause_;
  LogPause not_admitted_pause_;
  LogQuota presence_;
  std::vector<std::string> log_;
};

}  // namespace tuplespace
