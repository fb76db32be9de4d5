// ConflictLog: conflicts.jsonl, with one JSON object per line: the results of a run that were put
// twice with different bytes. A line is written as soon as a conflict is known, so that the receipt
// contains it even if the manager is killed before the next snapshot. For one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "acan/manager/receipt.h"

namespace acan {

class ConflictLog {
 public:
  // Ignores lines of other trainings than `job_id`. Touches no file.
  ConflictLog(std::string path, std::string job_id)
      : path_(std::move(path)), job_id_(std::move(job_id)) {}

  // All readable lines. A last line that a kill has cut short is not readable.
  std::vector<ResultConflict> Read() const;
  // Throws Error (failure).
  void Add(const ResultConflict& conflict) const;
  void Remove() const;

 private:
  const std::string path_;
  const std::string job_id_;
};

}  // namespace acan
