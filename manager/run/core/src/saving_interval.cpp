#include "acan/manager/saving_interval.h"

#include <algorithm>
#include <cmath>

namespace acan {
namespace {

constexpr double kAssumedUsBetweenLosses = 3600e6;  // an assumed interval that ends with a loss
constexpr std::int64_t kFirstIntervalUs = 1'000'000;
constexpr std::int64_t kMinIntervalsOfOne = 10;

}  // namespace

std::int64_t SavingIntervalUs(const SavingHistory& history) {
  const double between_us =
      (kAssumedUsBetweenLosses + history.lived_us) / static_cast<double>(1 + history.losses);
  const auto young_us =
      static_cast<std::int64_t>(std::sqrt(2 * static_cast<double>(history.took_us) * between_us));
  return std::max(std::min(young_us, std::max(kFirstIntervalUs, history.at_last_us)),
                  kMinIntervalsOfOne * history.took_us);
}

}  // namespace acan
