// KeptMetrics: copies of the lines of metrics.jsonl, kept in the space beside the weights for a
// manager on another host that continues the run without the file. A tuple has the lines of one
// step or of many (OtherTuple::kMetrics).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "acan/manager/metrics_log.h"
#include "acan/manager/receipt.h"
#include "tuplespace/client.h"

namespace acan {

class KeptMetrics {
 public:
  // The maximum per run; the oldest lines are removed first.
  static constexpr std::size_t kMaxBytes = 16 << 20;
  // What a run of this many steps needs at most. The lines of a step have about 150 bytes.
  static std::uint64_t BytesOf(std::int64_t steps);
  static constexpr std::int64_t kStepsOfOneTuple = 256;

  // `submit` sends a request without waiting for the answer.
  KeptMetrics(std::function<void(tuplespace::RequestBody)> submit, std::string job_id,
              std::string run)
      : submit_(std::move(submit)), job_id_(std::move(job_id)), run_(std::move(run)) {}

  // The lines of earlier lives of the run. REQUIRES: called first.
  void AddEarlier(const MetricsLines& lines);
  // The line of an evaluation is stored with that of the next step.
  void AddEvaluation(const std::string& line) { evaluations_ += line; }
  void AddStep(std::int64_t step, const std::string& line);
  // Removes all but the lines of the newest steps, at most kStepsOfOneTuple, and from then on keeps
  // at most twice as many. False: there is nothing to remove.
  bool KeepOnlyNewest();

  // The lines of `run` in the space. Calls `check` at least once a second while lines are on their
  // way; it may throw to stop.
  static MetricsLines Read(tuplespace::Client& client, const std::string& job_id,
                           const std::string& run, const std::function<void()>& check);
  static tuplespace::Pattern AllOf(const std::string& job_id, const std::string& run);
  static tuplespace::Pattern AllOf(const std::string& job_id);

 private:
  struct Tuple {
    std::int64_t first = 0, steps = 0;
    std::string lines;
  };
  tuplespace::Key KeyOf(const Tuple& tuple) const;
  void Put(const Tuple& tuple);
  void PutPacked(Tuple tuple);

  const std::function<void(tuplespace::RequestBody)> submit_;
  const std::string job_id_;
  const std::string run_;
  std::string evaluations_;  // since the last step
  Tuple open_;               // steps with a tuple each, until they fill one tuple
  std::deque<std::pair<tuplespace::Key, std::size_t>> packed_;  // oldest first, with their bytes
  std::size_t packed_bytes_ = 0;
  std::int64_t packed_end_ = 0;  // the step after the last one of `packed_`
  std::size_t max_bytes_ = kMaxBytes;
};

}  // namespace acan
