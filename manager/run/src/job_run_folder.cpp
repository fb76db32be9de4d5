// Which JobRun has the output folder: see FolderLock.
#include <algorithm>
#include <chrono>
#include <utility>

#include "acan/core/error.h"
#include "fmt/format.h"
#include "job_run.h"

namespace acan {
namespace {

constexpr std::int64_t kLookEveryUs = 500'000;
constexpr std::int64_t kSayEveryUs = 30'000'000;
// A broker that was killed is there again sooner; who resumes waits longer.
constexpr std::int64_t kKeptWithoutLeadUs = 5'000'000;

}  // namespace

// Another manager may lead at a broker that was started anew, and wait for the folder.
void JobRun::GiveUpFolderIfWithoutLeadSince(std::int64_t since_us) {
  if (folder_ && NowUs() - since_us > kKeptWithoutLeadUs) folder_.reset();
}

// For a while: the connection has ended, and nobody knows who leads.
void JobRun::AwaitLead() {
  if (!client_.connected()) GiveUpFolderIfWithoutLeadSince(disconnected_us_);
  client_.Poll(std::chrono::microseconds(kPollUs));
}

// The broker says who of its managers leads, but nothing of those at other brokers.
void JobRun::LockFolder() {
  if (options_.out_dir.empty()) return;
  const std::string& folder = options_.out_dir;
  const std::int64_t begin_us = NowUs();
  std::int64_t say_us = begin_us;
  for (;;) {
    if (folder_ && folder_->IsOwn()) return folder_->SetRun(run_);
    std::optional<FolderOwner> owner = FolderLock::OwnerOf(folder);
    const bool had = std::exchange(folder_, nullptr) != nullptr;
    const auto works_here = [&] {
      return std::find(earlier_runs_.begin(), earlier_runs_.end(), owner->run) !=
             earlier_runs_.end();
    };
    if (had && owner && !works_here()) throw FailureError(FolderLock::InUse(folder, *owner));
    std::string said;
    owner.emplace();
    folder_ = FolderLock::Take(folder, run_, &*owner, &said);
    if (!said.empty()) Log(said);
    // A manager of this job that has lost the lead, and does not know it.
    if (!folder_ && works_here()) folder_ = FolderLock::TakeOver(folder, run_);
    if (folder_) return;
    // One that waits for a broker gives it up soon.
    const bool wait = options_.standby ||
                      (options_.resume && NowUs() - begin_us < kLeaderLeaseUs + kExtendEveryUs);
    if (!wait) throw FailureError(FolderLock::InUse(folder, *owner));
    if (NowUs() >= say_us) {
      Log(fmt::format("waiting: {}", FolderLock::InUse(folder, *owner)));
      say_us = NowUs() + kSayEveryUs;
    }
    const std::int64_t again_us = NowUs() + kLookEveryUs;
    while (NowUs() < again_us) PollOnce();
  }
}

}  // namespace acan
