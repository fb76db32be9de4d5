// FolderClaim: holds the output folder's lock during a life of a run, from the time when this
// manager leads. A manager that waits for the lead or for a broker releases the lock, because
// another one may need it.
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
  // `lock` is the lock that an earlier life of this process held. `context` must outlive it.
  FolderClaim(const RunContext& context, std::shared_ptr<FolderLock> lock)
      : context_(context), lock_(std::move(lock)) {}

  // Acquires the lock, and waits for it as long as the settings allow; does nothing without a
  // folder. `poll` waits briefly and keeps the lead. Throws Error (failure) if another manager has
  // the lock. `earlier_runs` are runs of this job; they have no manager, because this one leads.
  // `make_room`: as for FolderLock::Take.
  void Take(const std::vector<std::string>& earlier_runs, const std::function<void()>& poll,
            const std::function<bool()>& make_room = {});
  void GiveUpIfWithoutLeadSince(std::int64_t since_us);
  void GiveUp() { lock_.reset(); }

  // Files are begun: from now on they belong to this life only while it has the lock.
  void OnFilesBegun() { files_begun_ = true; }
  bool IsLostAfterBegin() const { return files_begun_ && !lock_; }
  std::shared_ptr<FolderLock> lock() const { return lock_; }  // null: not held

 private:
  const RunContext& context_;
  std::shared_ptr<FolderLock> lock_;
  bool files_begun_ = false;
};

}  // namespace acan
