// How a JobRun stops when it is asked to: what it has done is saved first.
#include "acan/core/names.h"
#include "fmt/format.h"
#include "job_run.h"

namespace acan {

using tuplespace::Pattern;

namespace {

constexpr auto kAnswerWait = std::chrono::seconds(2);

}  // namespace

void JobRun::Stop(std::int64_t within_us) {
  std::int64_t before = stop_within_us_;
  while (within_us < before && !stop_within_us_.compare_exchange_weak(before, within_us)) {
  }
  client_.Wake();
}

// Whatever waits asks this. Before there is a training there is nothing to save.
void JobRun::ThrowIfStopped() {
  if (options_.alive) options_.alive();
  const std::int64_t within_us = stop_within_us_;
  if (within_us == kGoOn) return;
  // What a broker has that cannot be asked stays there; waiting for it may take for ever.
  if (!trains_ || within_us <= 0 || !client_.connected()) throw Stopped{};
  if (!stopping_) stopping_ = Stopping{NowUs() + within_us};
  if (NowUs() >= stopping_->by_us) throw Stopped{};
}

// Between two turns: the core is asked once to save the newest version.
void JobRun::FollowStop() {
  if (!stopping_ || !leads_ || std::exchange(stopping_->asked_core, true)) return;
  Step(StopWanted{});
}

void JobRun::Do(const ReadyToStop& action) {
  stopping_->ready = action;
  throw Stopped{};
}

void JobRun::SayStopped() const {
  if (!trains_) return;
  const std::int64_t done = core_->committed_steps();
  if (stopping_ && stopping_->ready && stopping_->ready->saved_version == done) {
    Log(fmt::format("stopped after step {}: nothing of it is lost", done));
  } else if (snapshots_ && (!stopping_ || !stopping_->ready)) {
    Log(fmt::format("stopped after step {} without a snapshot of it: {}", done,
                    client_.connected() ? "it was not written in the time that a stop may take"
                                        : "there is no connection to the broker"));
  }
}

// He goes on from what this run has in the space, which would be removed otherwise.
bool JobRun::SomebodyStandsBy() {
  client_.SetInterrupt(nullptr);
  try {
    if (!client_.connected() || !leads_) return false;
    return client_.CountOf(AllStandbys(job_id_), kAnswerWait).value_or(0) > 0;
  } catch (const std::exception&) {
  } catch (const RunLost&) {
  }
  return false;
}

}  // namespace acan
