// HostileHandler: the results that it claims for its tasks.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cluster/hostile_handler.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

// Never exactly the results that the task declares; AnyLie does that.
Complete HostileHandler::AnyCompletion(const LeaseRef& lease, const Observer& observer) {
  Complete complete{lease, {}};
  const TaskSpec* task = observer.tuples().Task(lease.key);
  std::vector<Key> keys;
  if (task != nullptr && random_.OneIn(2)) keys = task->results;
  for (std::uint64_t i = random_.Below(4); i > 0; --i) keys.push_back(AnyKey());
  if (!keys.empty() && random_.OneIn(2)) keys.erase(keys.begin());
  for (Key& key : keys) {
    Tuple tuple = AnyTuple();
    tuple.key = std::move(key);
    complete.results.push_back(std::move(tuple));
  }
  if (task == nullptr) return complete;
  std::set<Key> declared(task->results.begin(), task->results.end());
  for (const Tuple& tuple : complete.results) {
    if (declared.erase(tuple.key) == 0) return complete;  // this one is not declared
  }
  if (!declared.empty()) return complete;
  Tuple more = AnyTuple();
  more.key = Key{"evil", static_cast<std::int64_t>(1), "result"};
  complete.results.push_back(std::move(more));
  return complete;
}

// A vote has other keys than the task that it checks, but makes a result of the same size. Of
// several results only the sum of their sizes is known. Zeros are finite, and no impossible loss.
std::optional<Complete> HostileHandler::AgreedLie(const LeaseRef& lease,
                                                  const TaskSpec& task) const {
  if (!habits_.agrees()) return std::nullopt;
  if (task.results.size() != 1 || task.most_result_bytes == 0) return std::nullopt;
  Complete complete{lease, {}};
  Tuple tuple;
  tuple.key = task.results.front();
  tuple.payload = Payload::Copy(std::string(task.most_result_bytes, '\0'));
  complete.results.push_back(std::move(tuple));
  return complete;
}

// All declared results with wrong bytes, which differ each time, also for the same lease, unless
// its clients agree.
Complete HostileHandler::AnyLie(const LeaseRef& lease, const Observer& observer) {
  const TaskSpec* task = observer.tuples().Task(lease.key);
  if (task == nullptr || task->results.empty()) return AnyCompletion(lease, observer);
  if (std::optional<Complete> agreed = AgreedLie(lease, *task)) return std::move(*agreed);
  Complete complete{lease, {}};
  const std::uint64_t right_one_in = random_.OneIn(2) ? 3 : 1'000'000;
  for (const Key& key : task->results) {
    Tuple tuple;
    tuple.key = key;
    tuple.payload = WrongBytes(key);
    // Some results may be right, if the handler has overheard them.
    if (random_.OneIn(right_one_in)) {
      const std::string bytes = BytesLike(key);
      if (lies_told_.insert(bytes).second) tuple.payload = Payload::Copy(bytes);
    }
    if (random_.OneIn(16)) tuple.payload = Payload();  // all its clients may tell this lie
    tuple.held = random_.OneIn(4);
    // Without a random number, so that the seeds do not change. The results must stay nevertheless.
    tuple.ephemeral = lies_told_.size() % 2 == 0;
    complete.results.push_back(std::move(tuple));
  }
  return complete;
}

// All declared results, of which all or most stay with the client.
Complete HostileHandler::AnyKeeping(const LeaseRef& lease, const Observer& observer) {
  const TaskSpec* task = observer.tuples().Task(lease.key);
  if (task == nullptr || task->results.empty()) return AnyCompletion(lease, observer);
  Complete complete{lease, {}};
  for (const Key& key : task->results) {
    Tuple tuple;
    tuple.key = key;
    if (habits_.lies() && random_.OneIn(4)) {
      tuple.payload = WrongBytes(key);
    } else {
      // With the right size, if it has overheard a similar result.
      tuple.resident_bytes = std::max<std::uint64_t>(BytesLike(key).size(), 1);
      NoteKept(key, tuple.resident_bytes);
    }
    complete.results.push_back(std::move(tuple));
  }
  return complete;
}

Payload HostileHandler::WrongBytes(const Key& result) {
  std::string bytes;
  do {
    bytes = BytesLike(result);
    switch (random_.Below(4)) {
      case 0:
        for (char& byte : bytes) byte = static_cast<char>(random_.Next());
        break;
      case 1:
        if (!bytes.empty()) bytes[random_.Below(bytes.size())] ^= 1 << random_.Below(8);
        break;
      case 2:
        bytes.resize(random_.Below(2 * bytes.size() + 8), 'e');
        break;
      default:  // keeps the bytes of another task
        break;
    }
  } while (!lies_told_.insert(bytes).second);
  return Payload::Copy(bytes);
}

// Bytes that others completed under this key, or under another one.
std::string HostileHandler::BytesLike(const Key& result) {
  const auto same = [&](const auto& known) { return known.first == result; };
  auto known = std::find_if(known_.results.begin(), known_.results.end(), same);
  if (known == known_.results.end() || random_.OneIn(4)) {
    if (known_.results.empty()) return std::string(1 + random_.Below(200), 'e');
    known =
        known_.results.begin() + static_cast<std::ptrdiff_t>(random_.Below(known_.results.size()));
  }
  return std::string(known->second.text());
}

}  // namespace acan::simulation
