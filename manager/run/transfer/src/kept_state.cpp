#include "acan/manager/kept_state.h"

#include <utility>
#include <vector>

#include "acan/core/tuple_kinds.h"

namespace acan {
namespace {

using tuplespace::FieldPattern;
using tuplespace::Pattern;

// A life that ends without notice loses the work of this time from its counts.
constexpr std::int64_t kPutEveryUs = 1'000'000;

}  // namespace

Pattern KeptState::AllOf(const std::string& job_id) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kState)), FieldPattern::Exact(job_id)}, true};
}

Pattern KeptState::AllOf(const std::string& job_id, const std::string& run) {
  return {{FieldPattern::Exact(WordOf(OtherTuple::kState)), FieldPattern::Exact(job_id),
           FieldPattern::Exact(run)},
          true};
}

void KeptState::Put(const RunState& state, std::int64_t now_us) {
  due_us_ = now_us + kPutEveryUs;
  tuplespace::Tuple put;
  put.key = {WordOf(OtherTuple::kState), job_id_, run_, number_};
  put.payload = tuplespace::Payload::Copy(TextOf(state));
  submit_(tuplespace::Put{{std::move(put)}});
  if (number_ > 0) {
    Pattern earlier = AllOf(job_id_, run_);
    earlier.fields.push_back(FieldPattern::AtMost(number_ - 1));
    submit_(tuplespace::Retire{std::move(earlier), false});
  }
  ++number_;
}

std::optional<RunState> KeptState::Read(tuplespace::Client& client, const std::string& job_id,
                                        const std::string& run) {
  const std::vector<tuplespace::FoundTuple> found = client.ListAll(AllOf(job_id, run));
  // The keys are in order.
  if (found.empty()) return std::nullopt;
  return ParseRunState(std::string(found.back().payload.text()));
}

}  // namespace acan
