// KeptState: the RunState of a life of a run, kept in the space beside the weights for a manager
// that continues from there (OtherTuple::kState).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "acan/manager/run_state.h"
#include "tuplespace/client.h"

namespace acan {

class KeptState {
 public:
  // `submit` sends a request without waiting for the answer.
  KeptState(std::function<void(tuplespace::RequestBody)> submit, std::string job_id,
            std::string run)
      : submit_(std::move(submit)), job_id_(std::move(job_id)), run_(std::move(run)) {}

  // Whether the state in the space is so old that it should be replaced.
  bool IsDue(std::int64_t now_us) const { return now_us >= due_us_; }
  // Something must not be lost: it is due at once.
  void MakeDue() { due_us_ = 0; }
  // Replaces the state in the space.
  void Put(const RunState& state, std::int64_t now_us);

  // The state of `run` in the space, if it is there.
  static std::optional<RunState> Read(tuplespace::Client& client, const std::string& job_id,
                                      const std::string& run);
  static tuplespace::Pattern AllOf(const std::string& job_id, const std::string& run);
  static tuplespace::Pattern AllOf(const std::string& job_id);

 private:
  const std::function<void(tuplespace::RequestBody)> submit_;
  const std::string job_id_;
  const std::string run_;
  std::int64_t number_ = 0;  // of the next tuple
  std::int64_t due_us_ = 0;
};

}  // namespace acan
