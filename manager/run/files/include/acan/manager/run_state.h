// RunState: what a run must know of its earlier lives to continue. Snapshots contain it, and the
// space has it beside the weights (KeptState).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acan/manager/receipt.h"

namespace acan {

// The handlers that worked for a run. A restarted handler has a new client id each time, so of
// those that left long ago there is only the sum.
struct HandlerTotals {
  static constexpr std::size_t kMaxKept = 1000;  // in the text of a state

  std::map<std::string, HandlerSeen> by_id;  // by client id
  HandlerSeen others = {};                   // only the numbers are set
  std::int64_t other_count = 0;

  // Moves a handler from `by_id` to the others. REQUIRES: it is there.
  void PutTogether(const std::string& id);
  std::int64_t tasks() const;  // of all of them
};

// Keys ("name/") whose handlers confirmed results of each other before one of them turned out to be
// wrong; the most RunState::failures of the states in which these results do not count.
using DoubtfulKeys = std::map<std::string, std::int64_t>;

// The state of a run after `version` steps.
struct RunState {
  std::int64_t version = 0;  // steps done
  std::optional<double> train_loss;
  std::int64_t tasks_done = 0;
  double seconds = 0;  // of work so far, over all lives of the run
  // Orders the lives of runs: this one is later than all that left a doubt (DoubtfulKeys). At least
  // `losses`.
  std::int64_t failures = 0;
  std::int64_t losses = 0;  // how often it had to be resumed
  // The handlers (client ids) whose results may have contributed to the weights, without those
  // whose results were all confirmed by audits; sorted. A key ("name/") means that only its own
  // handlers have confirmed results of each other. Contributors::AllClientsOf stands for clients
  // that are not named.
  std::vector<std::string> contributors = {};
  std::int64_t audits_passed = 0, audits_skipped = 0;     // of all lives
  std::vector<ResultConflict> conflicts = {};             // of all lives
  HandlerTotals handlers = {};                            // of all lives
  std::int64_t tasks_reissued = 0, tasks_duplicated = 0;  // of all lives
  bool begun = true;  // false: a new run that waits for its first plan, and has not begun its files
  bool unnamed_contributors = false;  // handlers that are not named may have contributed, too
  double audit_share = 0;  // the least `tasks.audit` of all lives that contributed to the weights
  bool audited = true;     // whether the life that wrote this had audits

  // Whether a handler of `wrong` may have contributed to the weights. `wrong` has client ids, and
  // keys ("name/") of which no client is trusted.
  bool MayDependOn(const std::set<std::string>& wrong) const;
  // Those of `names` on which the weights may depend in this sense. `names` may have all that
  // `contributors` may have; a name that stands for all clients means that any of them is wrong.
  std::set<std::string> ContributorsAmong(const std::set<std::string>& names) const;
  // Whether it has results that only handlers with one of these keys have confirmed, and that do
  // not count.
  bool HasUnconfirmedOf(const DoubtfulKeys& keys) const;
};

// As JSON.
std::string TextOf(const RunState& state);
// The inverse; nullopt if it is not the text of a state.
std::optional<RunState> ParseRunState(const std::string& text);

}  // namespace acan
