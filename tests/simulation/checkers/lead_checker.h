// LeadChecker: which clients a broker has told that they lead a job, or that they do not.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "tuplespace/messages.h"

namespace acan::simulation {

class LeadChecker {
 public:
  void Tell(const tuplespace::ClientId& client, const tuplespace::Key& key, bool leads) {
    static const tuplespace::Pattern kLeaders{{tuplespace::FieldPattern::Exact("leader")}, true};
    if (kLeaders.Matches(key)) told_[client] = leads;
  }
  // A former leader that has joined again does not lead.
  void OnNewSession(const tuplespace::ClientId& client) {
    if (const auto it = told_.find(client); it != told_.end()) it->second = false;
  }
  // Returns what the client was told since the last call; nullopt: nothing.
  std::optional<bool> Take(const tuplespace::ClientId& client) {
    const auto it = told_.find(client);
    return it == told_.end() ? std::nullopt : std::exchange(it->second, std::nullopt);
  }

 private:
  std::map<tuplespace::ClientId, std::optional<bool>> told_;  // of clients that ever led
};

}  // namespace acan::simulation
