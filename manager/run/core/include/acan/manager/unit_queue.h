// UnitQueue: the units that are open and not committed, in order. Each has an id that is unique in
// this life. Pure. Owned by ManagerCore, for its thread.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "acan/manager/unit.h"

namespace acan {

class UnitQueue {
 public:
  // The id of the unit that is added next.
  UnitId next_id() const { return next_id_; }
  // REQUIRES: its id is next_id().
  void Add(Unit unit) {
    ++next_id_;
    units_.push_back(std::move(unit));
  }
  // REQUIRES: not empty.
  Unit TakeFront() {
    Unit unit = std::move(units_.front());
    units_.pop_front();
    return unit;
  }
  // Null if the unit was committed, or dropped because the run went back.
  Unit* Find(UnitId id) {
    for (Unit& unit : units_) {
      if (unit.id == id) return &unit;
    }
    return nullptr;
  }
  void Clear() { units_.clear(); }

  bool empty() const { return units_.empty(); }
  std::size_t size() const { return units_.size(); }
  Unit& front() { return units_.front(); }
  const Unit& back() const { return units_.back(); }
  auto begin() { return units_.begin(); }
  auto end() { return units_.end(); }

 private:
  std::deque<Unit> units_;
  UnitId next_id_ = 1;
};

}  // namespace acan
