#include "request_cost.h"

#include <string>
#include <variant>
#include <vector>

#include "wire.h"

namespace tuplespace {

namespace {

struct Cost {
  std::uint64_t operator()(const Put& put) const { return put.tuples.size(); }
  std::uint64_t operator()(const Supply& supply) const { return supply.tuples.size(); }
  std::uint64_t operator()(const Complete& complete) const { return complete.results.size(); }
  std::uint64_t operator()(const Read& read) const { return read.patterns.size(); }
  std::uint64_t operator()(const Hold& hold) const {
    return hold.held.size() + hold.dropped.size();
  }
  template <typename Other>
  std::uint64_t operator()(const Other&) const {
    return 0;
  }
};

// Of a string, besides its characters: as a member of a list, and the overhead of the heap.
constexpr std::uint64_t kOfAString = sizeof(std::string) + 16;
static_assert(sizeof(Key) == sizeof(std::string));

// The keys and ids that a request lists, which may be short.
std::uint64_t ListedIn(const TaskSpec& task) {
  return task.inputs.size() + task.results.size() + task.not_by.size();
}

const std::vector<Tuple>* TuplesOf(const RequestBody& body) {
  if (const auto* put = std::get_if<Put>(&body)) return &put->tuples;
  if (const auto* complete = std::get_if<Complete>(&body)) return &complete->results;
  if (const auto* supply = std::get_if<Supply>(&body)) return &supply->tuples;
  return nullptr;
}

}  // namespace

std::uint64_t CostOf(const RequestBody& body) {
  return 1 + std::visit(Cost{}, body);
}

std::uint64_t BytesOf(const RequestBody& body) {
  std::uint64_t bytes = ControlBytesBound(body);
  if (const auto* hold = std::get_if<Hold>(&body)) {
    return bytes + kOfAString * (hold->held.size() + hold->dropped.size());
  }
  const std::vector<Tuple>* tuples = TuplesOf(body);
  if (tuples == nullptr) return bytes;
  for (const Tuple& tuple : *tuples) {
    bytes += sizeof(Tuple) + (tuple.payload.region() == nullptr ? tuple.payload.size() : 0);
    if (tuple.task) bytes += kOfAString * ListedIn(*tuple.task);
  }
  return bytes;
}

bool HasTuples(const RequestBody& body) {
  return TuplesOf(body) != nullptr;
}

}  // namespace tuplespace
