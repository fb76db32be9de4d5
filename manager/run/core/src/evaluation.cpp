#include "acan/manager/evaluation.h"

#include <algorithm>
#include <utility>

namespace acan {

bool Evaluation::OpenedUntil(std::int64_t end) {
  next_sample_ = end;
  if (end < samples_) return false;
  next_sample_ = 0;
  opening_ = Opening::kWhole;
  return true;
}

std::optional<Evaluation::Sums> Evaluation::Add(std::int64_t version, const LossTotal& total,
                                                double losses, bool last) {
  sums_.loss += static_cast<double>(total.loss);
  sums_.right += total.right;
  sums_.losses += losses;
  if (!last) return std::nullopt;
  Sums all = std::exchange(sums_, {});
  all.is_new = version > newest_version_;
  newest_version_ = std::max(newest_version_, version);
  return all;
}

void Evaluation::GoBackTo(std::int64_t version) {
  opening_ = newest_version_ == version ? Opening::kWhole : Opening::kNotWhole;
  next_sample_ = 0;
  sums_ = {};
}

}  // namespace acan
