// FolderClaim: the output folder's lock in the life of a run: from when this manager leads to its
// end. A manager that waits for the lead or for a broker gives it up, as it may be another one's
// turn.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "acan/manager/folder_lock.h"
#include "acan/manager/run_context.h"

namespace acan {

class FolderClaim {
 public:
  // `lock`: what an earlier life of this process had. `context` must outlive it.
  FolderClaim(const RunContext& context, std::shared_ptr<FolderLock> lock)
      : context_(context), lock_(std::move(lock)) {}

  // Has the lock, or waits for it as long as the settings say; without a folder does nothing.
  // `poll` waits for a little while and keeps the lead. Throws Error (failure) if it is another
  // one's. `earlier_runs`: of this job; they have no manager, since this one leads.
  void Take(const std::vector<std::string>& earlier_runs, const std::function<void()>& poll);
  void GiveUpIfWithoutLeadSince(std::int64_t since_us);
  void GiveUp() { lock_.reset(); }

  // Files are begun: from here on they are this life's only while it has the lock.
  void OnFilesBegun() { files_begun_ = true; }
  bool IsLostAfterBegin() const { return files_begun_ && !lock_; }
  std::shared_ptr<FolderLock> lock() const { return lock_; }  // null: not had

 private:
  const RunContext& context_;
  std::shared_ptr<FolderLock> lock_;
  bool files_begun_ = false;
};

}  // namespace acan
