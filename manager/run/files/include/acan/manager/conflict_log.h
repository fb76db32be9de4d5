// ConflictLog: conflicts.jsonl, a JSON object a line: the results of a run that were put twice with
// different bytes. A line is written as soon as a conflict is known, so that it stands in the
// receipt also if the manager is killed before the next snapshot. For one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "acan/manager/receipt.h"

namespace acan {

class ConflictLog {
 public:
  // Lines of other trainings than `job_id` are passed over. Touches no file.
  ConflictLog(std::string path, std::string job_id)
      : path_(std::move(path)), job_id_(std::move(job_id)) {}

  // All that can be read; a last line that a kill has cut short cannot.
  std::vector<ResultConflict> Read() const;
  // Throws Error (failure).
  void Add(const ResultConflict& conflict) const;
  void Remove() const;

 private:
  const std::string path_;
  const std::string job_id_;
};

}  // namespace acan
