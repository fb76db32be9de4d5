// StepActions: what one step of a HandlerCore results in: actions in their order, and after them
// what the space must be told about the tuples that are held here. Pure; a part of HandlerCore.
#pragma once

#include <utility>
#include <vector>

#include "acan/handler/handler_events.h"

namespace acan {

class StepActions {
 public:
  void Add(HandlerAction&& action) { actions_.push_back(std::move(action)); }
  // The space does not know yet that the tuple is held.
  void NoteHeld(const tuplespace::Key& key) { held_.push_back(key); }
  // The space believes that the tuple is held, but it is not.
  void NoteDropped(const tuplespace::Key& key) { dropped_.push_back(key); }

  // Returns all; to be called once.
  std::vector<HandlerAction> Take();

 private:
  std::vector<HandlerAction> actions_;
  std::vector<tuplespace::Key> held_, dropped_;
};

}  // namespace acan
