#include "envelope.h"

#include <algorithm>

namespace tuplespace {

namespace {

bool AllStored(const std::vector<PutStatus>& statuses) {
  return std::all_of(statuses.begin(), statuses.end(),
                     [](PutStatus status) { return status == PutStatus::kStored; });
}

std::vector<PutStatus> Stored(const std::vector<Tuple>& tuples) {
  return std::vector<PutStatus>(tuples.size(), PutStatus::kStored);
}

}  // namespace

bool IsDone(const ReplyBody& reply) {
  if (const auto* put = std::get_if<PutReply>(&reply)) return AllStored(put->status);
  if (const auto* complete = std::get_if<CompleteReply>(&reply)) {
    return complete->lease == LeaseStatus::kOk && AllStored(complete->results);
  }
  if (const auto* lease = std::get_if<LeaseReply>(&reply)) return lease->lease == LeaseStatus::kOk;
  return std::holds_alternative<Ok>(reply);
}

std::optional<ReplyBody> DoneReply(const RequestBody& request) {
  if (const auto* put = std::get_if<Put>(&request)) return PutReply{Stored(put->tuples)};
  if (const auto* supply = std::get_if<Supply>(&request)) return PutReply{Stored(supply->tuples)};
  if (const auto* complete = std::get_if<Complete>(&request)) {
    return CompleteReply{LeaseStatus::kOk, Stored(complete->results)};
  }
  if (std::holds_alternative<Extend>(request) || std::holds_alternative<Release>(request) ||
      std::holds_alternative<Fail>(request)) {
    return LeaseReply{};
  }
  if (std::holds_alternative<Hold>(request) || std::holds_alternative<Cancel>(request)) return Ok{};
  return std::nullopt;
}

}  // namespace tuplespace
