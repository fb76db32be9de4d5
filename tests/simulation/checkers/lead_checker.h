// LeadChecker: whom a broker has told that it leads a job, and whom that it does not.
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
  // Whoever led hears that it has joined anew: so it does not lead.
  void OnNewSession(const tuplespace::ClientId& client) {
    if (const auto it = told_.find(client); it != told_.end()) it->second = false;
  }
  // What the client was told since the last call; nullopt: nothing.
  std::optional<bool> Take(const tuplespace::ClientId& client) {
    const auto it = told_.find(client);
    return it == told_.end() ? std::nullopt : std::exchange(it->second, std::nullopt);
  }

 private:
  std::map<tuplespace::ClientId, std::optional<bool>> told_;  // those who ever led
};

}  // namespace acan::simulation
