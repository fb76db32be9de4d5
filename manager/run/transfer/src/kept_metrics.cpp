#include "acan/manager/kept_metrics.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "acan/core/tuple_kinds.h"
#include "acan/manager/planted.h"
#include "await_reply.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Key;
using tuplespace::Pattern;

constexpr std::size_t kTuplesOfOneRead = 64;
constexpr std::uint64_t kMostBytesOfStep = 256;

}  // namespace

Pattern KeptMetrics::AllOf(const std::string& job_id) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kMetrics)), FieldPattern::Exact(job_id)}, true};
}

Pattern KeptMetrics::AllOf(const std::string& job_id, const std::string& run) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kMetrics)), FieldPattern::Exact(job_id),
           FieldPattern::Exact(run)},
          true};
}

Key KeptMetrics::KeyOf(const Tuple& tuple) const {
  return {WordOf(OtherTuple::kMetrics), job_id_, run_, tuple.first, tuple.steps};
}

void KeptMetrics::Put(const Tuple& tuple) {
  tuplespace::Tuple put;
  put.key = KeyOf(tuple);
  put.payload = tuplespace::Payload::Copy(tuple.lines);
  submit_(tuplespace::Put{{std::move(put)}});
}

// A pack of one step has 0 as its number of steps, because AddStep retires the tuples with 1.
void KeptMetrics::PutPacked(Tuple tuple) {
  if (tuple.steps == 1) tuple.steps = 0;
  Put(tuple);
  packed_.emplace_back(KeyOf(tuple), tuple.lines.size());
  packed_bytes_ += tuple.lines.size();
  packed_end_ = tuple.first + std::max<std::int64_t>(tuple.steps, 1);
  while (packed_bytes_ > max_bytes_ && packed_.size() > 1) {
    submit_(tuplespace::Retire{Pattern::Of(packed_.front().first), false});
    packed_bytes_ -= packed_.front().second;
    packed_.pop_front();
  }
}

void KeptMetrics::AddEarlier(const MetricsLines& lines) {
  Tuple packed;
  for (const auto& [step, text] : lines) {
    const bool follows = step == packed.first + packed.steps && packed.steps < kStepsOfOneTuple;
    if (!follows) {
      if (packed.steps > 0) PutPacked(std::move(packed));
      packed = Tuple{step, 0, {}};
    }
    packed.lines += text;
    ++packed.steps;
  }
  if (packed.steps > 0) PutPacked(std::move(packed));
}

// Puts each step at once, before the weights before it are retired: a manager that continues from
// these weights must find the lines of all steps that made them.
void KeptMetrics::AddStep(std::int64_t step, const std::string& line) {
  const Tuple one{step, 1, std::exchange(evaluations_, {}) + line};
  if (!IsPlanted(ManagerBug::kMetricsAreNotKept)) Put(one);
  if (open_.steps == 0) open_.first = step;
  ++open_.steps;
  open_.lines += one.lines;
  if (open_.steps < kStepsOfOneTuple) return;
  PutPacked(std::exchange(open_, {}));
  Pattern singles = AllOf(job_id_, run_);
  singles.fields.push_back(FieldPattern::AtMost(step));
  singles.fields.push_back(FieldPattern::Exact(std::int64_t{1}));
  submit_(tuplespace::Retire{std::move(singles), false});
}

bool KeptMetrics::KeepOnlyNewest() {
  if (packed_.empty()) return false;
  max_bytes_ = 0;
  packed_.clear();
  packed_bytes_ = 0;
  Pattern old = AllOf(job_id_, run_);
  old.fields.push_back(FieldPattern::AtMost(packed_end_ - 1));
  // The watermark also refuses puts that wait for room.
  submit_(tuplespace::Retire{std::move(old), true});
  return true;
}

std::uint64_t KeptMetrics::BytesOf(std::int64_t steps) {
  // Steps are put alone, until they are put again together.
  const auto lines = static_cast<std::uint64_t>(steps + kStepsOfOneTuple);
  return std::min<std::uint64_t>(lines * kMostBytesOfStep, kMaxBytes);
}

MetricsLines KeptMetrics::Read(tuplespace::Client& client, const std::string& job_id,
                               const std::string& run, const std::function<void()>& check) {
  std::vector<Pattern> patterns;
  for (const auto& found : client.ListAll(AllOf(job_id, run), /*metadata_only=*/true)) {
    patterns.push_back(Pattern::Of(found.key));
  }
  MetricsLines lines;
  for (std::size_t begin = 0; begin < patterns.size(); begin += kTuplesOfOneRead) {
    const std::size_t end = std::min(patterns.size(), begin + kTuplesOfOneRead);
    tuplespace::Read read;
    read.patterns.assign(patterns.begin() + static_cast<std::ptrdiff_t>(begin),
                         patterns.begin() + static_cast<std::ptrdiff_t>(end));
    // Nobody removes these tuples, because their manager is gone. If it is not, fewer are found.
    const auto answer = AwaitReply<tuplespace::Found>(client, std::move(read), check);
    for (const auto& found : answer.tuples) {
      // A step may have been put alone and with others; the lines are the same.
      lines.merge(LinesByStep(found.payload.text()));
    }
  }
  return lines;
}

}  // namespace acan
