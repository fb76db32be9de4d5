#include "space_notices.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/excluded.h"
#include "fmt/format.h"
#include "tuplespace/clock.h"

namespace acan {
namespace {

// The prefix of handlers' messages when they refuse a task description, as from DecodeTask.
constexpr std::string_view kOfDescription = "task: ";

std::string WhyParked(const tuplespace::Notice& notice) {
  return fmt::format("task {} failed too often; the last error, of handler {}: {}",
                     notice.key.ToString(), notice.by, notice.text);
}

}  // namespace

void SpaceNotices::On(tuplespace::Notice&& notice, const Audits* audits, bool spares) {
  switch (notice.kind) {
    case tuplespace::Notice::Kind::kParked:
      if (goes_back_ || wants_spares_) return;
      if (spares) {
        wants_spares_ = true;
        return post_(SparesWanted{WhyParked(notice)});
      }
      parked_.push_back(std::move(notice));
      return FollowParked(audits);
    case tuplespace::Notice::Kind::kLost:
      results_lost_ = true;
      post_(ResultsLost{notice.text});
      return;
    case tuplespace::Notice::Kind::kOrphaned:
      // The task is removed in this case, or will be.
      if (results_lost_ || goes_back_ || begins_anew_) return;
      throw JobFailed(fmt::format("task {} can never run, because its inputs are gone: {}",
                                  notice.key.ToString(), notice.text));
    case tuplespace::Notice::Kind::kConflict:
      return OnConflict(notice);
    case tuplespace::Notice::Kind::kMistrusted:
      return OnMistrusted(notice);
    case tuplespace::Notice::Kind::kWanted:
    case tuplespace::Notice::Kind::kReleased:
      return;  // KeptData follows these
  }
}

void SpaceNotices::FollowParked(const Audits* audits) const {
  if (begins_anew_) return;
  for (const tuplespace::Notice& notice : parked_) {
    if (audits != nullptr && !audits->InputsAreDecided(notice.key)) continue;
    if (notice.text.starts_with(kOfDescription)) {
      throw JobFailed(
          fmt::format("task {} cannot run, because its description is refused ({}), at last by "
                      "\"{}\". Unless only this handler refuses it, the fault is in the plan that "
                      "acan made for this job: report this as a defect of acan, with the job",
                      notice.key.ToString(), notice.text, notice.by));
    }
    throw JobFailed(WhyParked(notice));
  }
}

// A client may be mistrusted several times a second, and the holder of a key may have many.
void SpaceNotices::OnMistrusted(const tuplespace::Notice& notice) {
  const std::string owner = OwnerOf(notice.by);
  const auto left_out = mistrusted_.Take(owner, tuplespace::MonotonicUs());
  if (!left_out) return;
  if (*left_out == 0) return context_.Log(notice.text);
  context_.Log(fmt::format("{} ({} lines like this about clients of \"{}\" are left out)",
                           notice.text, *left_out, owner));
}

// In fast precision, devices of different kinds round differently, which is not an error.
void SpaceNotices::OnConflict(const tuplespace::Notice& notice) {
  if (context_.job.training.precision != Precision::kExact) return;
  const ResultConflict conflict{notice.key.ToString(), notice.text};
  if (!AddConflict(conflict)) return;  // a client may repeat it for ever, and must not fill the log
  context_.Log(
      fmt::format("corruption: {} was put twice with different bytes, the second time by {}; "
                  "the first counts. {}",
                  notice.key.ToString(), notice.by, notice.text));
  keep_(conflict);
}

void SpaceNotices::OnUndecided(const AuditConflict& conflict) {
  context_.Log("corruption: " + conflict.text);
  Keep({conflict.result.ToString(), conflict.text});
}

void SpaceNotices::OnNotRepeated(std::int64_t step, const std::string& text) {
  if (context_.job.training.precision != Precision::kExact) return context_.Log(text);
  context_.Log(fmt::format("corruption: {}: a handler computes wrong results", text));
  Keep({fmt::format("step {}", step), text});
}

void SpaceNotices::Keep(const ResultConflict& conflict) {
  if (AddConflict(conflict)) keep_(conflict);
}

bool SpaceNotices::AddConflict(const ResultConflict& conflict) {
  constexpr std::size_t kMaxConflicts = 100;
  const bool known = std::any_of(conflicts_.begin(), conflicts_.end(), [&](const auto& other) {
    return other.key == conflict.key && other.text == conflict.text;
  });
  if (known || conflicts_.size() >= kMaxConflicts) return false;
  conflicts_.push_back(conflict);
  return true;
}

}  // namespace acan
