// LargestNeed: the memory of the largest task so far, of the runs that give a handler tasks. A run
// counts until the handler has had many tasks of other runs and none of this one, so that a large
// task of an earlier run does not set memory aside for ever. Pure; a part of TaskDemand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "acan/core/names.h"
#include "tuplespace/key.h"

namespace acan {

class LargestNeed {
 public:
  // A run counts no longer after this many tasks of other runs.
  static constexpr std::uint64_t kForgottenAfter = 256;

  // The handler was granted the task of this key. REQUIRES: the key is not empty.
  void Note(const tuplespace::Key& task, std::uint64_t need_bytes) {
    ++grants_;
    const auto is_its = [&](const Run& run) { return task.bytes().starts_with(run.key.bytes()); };
    auto at = std::find_if(runs_.begin(), runs_.end(), is_its);
    if (at == runs_.end()) at = runs_.insert(runs_.end(), Run{RunOf(task), 0, 0});
    at->need_bytes = std::max(at->need_bytes, need_bytes);
    at->last_grant = grants_;
    std::erase_if(runs_,
                  [&](const Run& run) { return grants_ - run.last_grant >= kForgottenAfter; });
    bytes_ = 0;
    for (const Run& run : runs_) bytes_ = std::max(bytes_, run.need_bytes);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Run {
    tuplespace::Key key;           // RunOf its tasks
    std::uint64_t need_bytes = 0;  // of the largest one
    std::uint64_t last_grant = 0;  // as counted by grants_
  };

  std::vector<Run> runs_;
  std::uint64_t grants_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace acan
