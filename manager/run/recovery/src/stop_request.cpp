#include "acan/manager/stop_request.h"

#include "acan/manager/run_context.h"
#include "tuplespace/clock.h"

namespace acan {

void StopRequest::Want(std::int64_t within_us) {
  std::int64_t before = within_us_;
  while (within_us < before && !within_us_.compare_exchange_weak(before, within_us)) {
  }
  client_.Wake();
}

// Before a training begins there is nothing to save.
void StopRequest::Check() {
  if (alive_) alive_();
  const std::int64_t within_us = within_us_;
  if (within_us == kGoOn) return;
  // If the broker is unreachable, its tuples stay there; waiting for it may take forever.
  if (!trains_ || within_us <= 0 || !client_.connected()) throw Stopped{};
  if (stage_ == Stage::kGoesOn) {
    stage_ = Stage::kWanted;
    by_us_ = tuplespace::MonotonicUs() + within_us;
  }
  if (tuplespace::MonotonicUs() >= by_us_) throw Stopped{};
}

bool StopRequest::AsksCore() {
  if (stage_ != Stage::kWanted) return false;
  stage_ = Stage::kCoreAsked;
  return true;
}

void StopRequest::OnReady(const ReadyToStop& ready) {
  stage_ = Stage::kReady;
  saved_version_ = ready.saved_version;
  throw Stopped{};
}

StopRequest::Saved StopRequest::SavedOf(std::int64_t version) const {
  if (stage_ != Stage::kReady) return Saved::kNothing;
  return saved_version_ == version ? Saved::kAll : Saved::kNotAll;
}

}  // namespace acan
