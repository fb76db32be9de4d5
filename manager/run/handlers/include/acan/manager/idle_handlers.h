// IdleHandlers: which handlers leave ready tasks alone, and so do not count when the steps are cut.
// A key may have any number of clients, so all clients of an idle handler's key are left out, each
// until it has completed a task. Pure: no clock. Owned by HandlerPool, for its thread.
#pragma once

#include <map>
#include <set>
#include <string>

#include "acan/core/names.h"
#include "tuplespace/messages.h"

namespace acan {

class IdleHandlers {
 public:
  // The handlers present, by client id; forgets those that are gone.
  void SetPresent(const std::map<std::string, Capacity>& handlers);
  void OnResultOf(const tuplespace::ClientId& client) { workers_.insert(client); }
  // These left ready tasks alone.
  void LeaveOut(const std::map<std::string, Capacity>& handlers);
  // These count as if they had completed a task.
  void LetCount(const std::map<std::string, Capacity>& handlers);

  // Whether it has completed a task since it joined, or since its key was left out.
  bool IsWorker(const tuplespace::ClientId& client) const { return workers_.contains(client); }
  const std::set<tuplespace::ClientId>& workers() const { return workers_; }
  bool IsLeftOut(const tuplespace::ClientId& client) const;

 private:
  std::set<tuplespace::ClientId> workers_;
  std::set<tuplespace::ClientId> owners_;  // OwnerOf those that were left out
};

}  // namespace acan
