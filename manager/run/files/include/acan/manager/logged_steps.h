// LoggedSteps: which steps of a run are missing in its audit log.
//
// Each life that names the log begins with a record that says how many steps were done before. A
// step is in the log if all tiles are that it makes; they are its last results. So a life that
// begins after more steps than the log has shows that a life in between did not name the log, or
// that records were lost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acan/core/range.h"
#include "acan/manager/trained_model.h"

namespace acan {

// The number of elements of all tiles of a version, without the optimizer's state.
std::int64_t TileElements(const TrainedModel& model);

class LoggedSteps {
 public:
  // Of the last run of the job in the log. `tile_elements` is as TileElements says; with 0, a step
  // is in the log if any of its tiles is.
  LoggedSteps(std::string job_id, std::int64_t tile_elements)
      : job_id_(std::move(job_id)), tile_elements_(static_cast<double>(tile_elements)) {}

  // REQUIRES: called with the JSON text of each record of an audit log, in order.
  void On(std::string_view record);

  // The steps before the present life that are not in the log, ascending. A life that begins after
  // fewer steps repeats the others, so gaps among these do not count.
  const std::vector<Range>& gaps() const { return gaps_; }
  // A run of the job was done, and then a life began after this many steps of the log. They are its
  // own only if it belongs to that run, as after a kill before the receipt was written. 0: none.
  std::int64_t steps_of_done_run() const { return steps_of_done_run_; }

 private:
  struct Version {
    std::set<std::string, std::less<>> tiles;
    double elements = 0;  // a record may have any ranges, so integers could overflow
  };

  void OnBegin(std::string_view record);
  void BeginAfter(std::int64_t steps);
  void OnResult(std::string_view rest_of_key);

  const std::string job_id_;
  const double tile_elements_;
  std::string life_;         // what the key of a result of the present life follows; empty: no life
  std::int64_t logged_ = 0;  // the steps before this are in the log, or in a gap
  std::map<std::int64_t, Version> incomplete_;
  std::vector<Range> gaps_;
  bool is_done_ = false;
  std::int64_t steps_of_done_run_ = 0;
};

}  // namespace acan
