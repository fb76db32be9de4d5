// EventQueue: events for ManagerCore that wait until no handler of the client runs, because what
// they ask for may wait for the client.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "acan/manager/manager_events.h"

namespace acan {

class EventQueue {
 public:
  void Post(ManagerEvent event) { events_.push_back(std::move(event)); }
  std::optional<ManagerEvent> Take() {
    if (events_.empty()) return std::nullopt;
    std::optional<ManagerEvent> event(std::move(events_.front()));
    events_.pop_front();
    return event;
  }
  template <class Event>
  bool Has() const {
    return std::any_of(events_.begin(), events_.end(), [](const ManagerEvent& event) {
      return std::holds_alternative<Event>(event);
    });
  }

 private:
  std::deque<ManagerEvent> events_;
};

}  // namespace acan
