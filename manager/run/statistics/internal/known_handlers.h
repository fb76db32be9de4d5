// KnownHandlers: the handlers that worked for a run, in all its lives, for its receipt. A restarted
// handler has a new client id each time, so of the handlers that left only the last ones are kept
// individually.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/receipt.h"
#include "acan/manager/run_state.h"

namespace acan {

class KnownHandlers {
 public:
  static constexpr std::size_t kMaxGone = 1000;

  // The handlers of the run's earlier lives. Called first.
  void GoOnFrom(HandlerTotals earlier);
  // All handlers present. If more than kMaxGone have left, those that left first are merged into
  // one entry.
  void See(const std::map<std::string, Capacity>& present);
  // Does nothing for a handler that is not kept individually.
  void OnReport(const std::string& id, const Report& report);
  void OnTask(const std::string& id);

  const std::map<std::string, HandlerSeen>& by_id() const { return totals_.by_id; }
  // Includes the merged entry, if there is one.
  std::vector<HandlerSeen> All() const;
  // For the next life. Beyond HandlerTotals::kMaxKept, handlers are merged here, too.
  HandlerTotals Totals() const;

 private:
  // The `count` handlers that left first, then those present. REQUIRES: there are so many.
  std::vector<std::string> FirstSeen(std::size_t count) const;

  HandlerTotals totals_;
  std::map<std::string, std::uint64_t> seen_at_;  // the number of the last See with it
  std::uint64_t looks_ = 0;
};

}  // namespace acan
