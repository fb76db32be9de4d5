#include "device_pipeline.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace acan {

DeviceJob DevicePipeline::StartNext(std::int64_t now_us) {
  assert(Next() != nullptr);
  if (!IsBusy()) busy_since_us_ = now_us;
  starting_ = true;
  DeviceJob job = std::move(waiting_.front());
  waiting_.pop_front();
  return job;
}

void DevicePipeline::OnStarted(StartedTask task) {
  starting_ = false;
  started_.push_back(std::move(task));
}

StartedTask DevicePipeline::TakeStarted() {
  assert(HasStarted());
  StartedTask task = std::move(started_.front());
  started_.pop_front();
  finishing_ = true;
  return task;
}

std::int64_t DevicePipeline::OnEnded(std::int64_t begin_us, std::int64_t end_us) {
  const std::int64_t from_us = std::max(begin_us, last_end_us_);
  last_end_us_ = busy_since_us_ = end_us;
  return from_us;
}

std::optional<std::int64_t> DevicePipeline::BusySinceUs() const {
  if (!IsBusy()) return std::nullopt;
  return busy_since_us_;
}

}  // namespace acan
