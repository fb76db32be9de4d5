// How many bytes of payload the keys of a tuple count as.
//
// `limits.tuples` allows for tuples with usual keys. A key may have thousands of bytes, and a task
// may name thousands of keys. So what exceeds the usual counts as payload bytes: otherwise tuples
// without payloads could take any amount of memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "space_records.h"

namespace tuplespace::internal {

// What the keys of one tuple may take without being counted.
inline constexpr std::uint64_t kUncountedKeyBytes = 1024;

// The memory for the keys of a task's inputs and results and for the clients that it names; an
// upper estimate.
inline std::uint64_t KeyBytesOf(const TaskSpec& task) {
  constexpr std::uint64_t kOfInput = 96;   // the key, a link, and the allocations of two texts
  constexpr std::uint64_t kOfResult = 48;  // the key, and the allocation of its text
  constexpr std::uint64_t kOfClient = 48;
  constexpr std::uint64_t kListsOfClient = 3;  // not_by, TaskState::barred, and one of all tasks
  std::uint64_t bytes = task.prefers.size() + sizeof(task.due[0]) * task.due.size() +
                        kOfInput * task.inputs.size() + kOfResult * task.results.size();
  // An input that is not stored has a record of its own.
  for (const Key& input : task.inputs) bytes += 2 * input.bytes().size();
  for (const Key& result : task.results) bytes += result.bytes().size();
  for (const ClientId& client : task.not_by) bytes += kListsOfClient * (kOfClient + client.size());
  return bytes;
}

// For a tuple with this key that is put as this task; null: as a plain tuple.
inline std::uint64_t CountedKeyBytes(const Key& key, const TaskSpec* task) {
  const std::uint64_t bytes = key.bytes().size() + (task != nullptr ? KeyBytesOf(*task) : 0);
  return bytes - std::min(bytes, kUncountedKeyBytes);
}

inline std::uint64_t CountedKeyBytes(const Record& record) {
  if (record.task) return CountedKeyBytes(record.key, &record.task->spec);
  // Whoever waits for the tuple is charged for its key.
  if (record.state == RecordState::kWanted) return 0;
  std::uint64_t bytes = record.key.bytes().size();
  if (record.done) {
    for (const Key& result : record.done->results) bytes += sizeof(Key) + result.bytes().size();
  }
  return bytes - std::min(bytes, kUncountedKeyBytes);
}

// What a tuple that is put adds to the payload bytes.
inline std::uint64_t CountedBytes(const Tuple& tuple) {
  return tuple.payload.size() + CountedKeyBytes(tuple.key, tuple.task ? &*tuple.task : nullptr);
}

}  // namespace tuplespace::internal
