// EarlierRuns: what other lives of a job have left in the space, and how it is removed.
#pragma once

#include <string>
#include <vector>

#include "acan/manager/leadership.h"
#include "acan/manager/run_context.h"

namespace acan {

class EarlierRuns {
 public:
  // `names`: of earlier lives of this process. The references must outlive it.
  EarlierRuns(RunContext& context, Leadership& leadership, std::vector<std::string> names)
      : context_(context), leadership_(leadership), names_(std::move(names)) {}

  // Adds what other managers of this job have left, and puts the name of this run.
  void Find();
  const std::vector<std::string>& names() const { return names_; }
  // The runs of which something may be left in the space, this one's among them.
  std::vector<std::string> Left() const;

  void RemoveAll();
  void RemoveOwn();  // all that this run has in the space
  // As RemoveOwn, at the end of a life. Whatever comes of it, handlers of late replies included, is
  // passed over: why the run ends is known already, and is what must leave.
  void SayGoodbye();

 private:
  void Remove(const std::string& name, tuplespace::Client::Duration wait);

  RunContext& context_;
  Leadership& leadership_;
  std::vector<std::string> names_;
};

}  // namespace acan
