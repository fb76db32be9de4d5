#include "acan/manager/folder_claim.h"

#include <algorithm>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/leadership.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

using tuplespace::MonotonicUs;

constexpr std::int64_t kLookEveryUs = 500'000;
constexpr std::int64_t kSayEveryUs = 30'000'000;
// A killed broker returns sooner than this; a manager with --resume waits longer.
constexpr std::int64_t kKeptWithoutLeadUs = 5'000'000;

}  // namespace

// Another manager may lead at a restarted broker, and wait for the folder.
void FolderClaim::GiveUpIfWithoutLeadSince(std::int64_t since_us) {
  if (lock_ && MonotonicUs() - since_us > kKeptWithoutLeadUs) lock_.reset();
}

// The broker decides between its own managers, but knows nothing of managers at other brokers.
void FolderClaim::Take(const std::vector<std::string>& earlier_runs,
                       const std::function<void()>& poll, const std::function<bool()>& make_room) {
  if (!context_.HasFolder()) return;
  const std::string& folder = context_.settings.out_dir;
  const std::int64_t begin_us = MonotonicUs();
  std::int64_t say_us = begin_us;
  for (;;) {
    if (lock_ && lock_->IsOwn()) return lock_->SetRun(context_.run);
    std::optional<FolderOwner> owner = FolderLock::OwnerOf(folder);
    const bool had = std::exchange(lock_, nullptr) != nullptr;
    const auto works_here = [&] {
      return std::find(earlier_runs.begin(), earlier_runs.end(), owner->run) != earlier_runs.end();
    };
    if (had && owner && !works_here()) throw FailureError(FolderLock::InUse(folder, *owner));
    std::string said;
    owner.emplace();
    lock_ = FolderLock::Take(folder, context_.run, &*owner, &said, make_room);
    if (!said.empty()) context_.Log(said);
    // The owner is a manager of this job that has lost the lead without noticing.
    if (!lock_ && works_here()) lock_ = FolderLock::TakeOver(folder, context_.run);
    if (lock_) return;
    // A manager that waits for a broker releases the lock soon.
    if (!Leadership::MayWait(context_.settings, begin_us)) {
      throw FailureError(FolderLock::InUse(folder, *owner));
    }
    if (MonotonicUs() >= say_us) {
      context_.Log(fmt::format("waiting: {}", FolderLock::InUse(folder, *owner)));
      say_us = MonotonicUs() + kSayEveryUs;
    }
    const std::int64_t again_us = MonotonicUs() + kLookEveryUs;
    while (MonotonicUs() < again_us) poll();
  }
}

}  // namespace acan
