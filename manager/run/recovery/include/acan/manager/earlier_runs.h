// EarlierRuns: finds and removes what other lives of a job have left in the space.
#pragma once

#include <string>
#include <vector>

#include "acan/manager/leadership.h"
#include "acan/manager/run_context.h"

namespace acan {

class EarlierRuns {
 public:
  // `names` are those of earlier lives of this process. The references must outlive it.
  EarlierRuns(RunContext& context, Leadership& leadership, std::vector<std::string> names)
      : context_(context), leadership_(leadership), names_(std::move(names)) {}

  // Adds the runs of other managers of this job, and puts the name of this run.
  void Find();
  const std::vector<std::string>& names() const { return names_; }
  // The runs that may have tuples left in the space, including this one.
  std::vector<std::string> Left() const;

  void RemoveAll();
  void RemoveOwn();  // all tuples of this run
  // As RemoveOwn, at the end of a life. Ignores all errors, including those of handlers of late
  // replies, because the reason why the run ends is already known and must be reported.
  void SayGoodbye();

 private:
  void Remove(const std::string& name, tuplespace::Client::Duration wait);

  RunContext& context_;
  Leadership& leadership_;
  std::vector<std::string> names_;
};

}  // namespace acan
