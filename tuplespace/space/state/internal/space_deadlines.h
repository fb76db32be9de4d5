// All deadlines of the space, by time. Setting and clearing one and finding the next are O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tuplespace::internal {

struct Record;
struct ReadWaiter;
struct GetWaiter;

// A member of the object that it ends. Must be cleared before that object is destroyed.
struct Deadline {
  enum class Kind : std::uint8_t { kLease, kReady, kRead, kGet, kSupply };
  static constexpr std::size_t kUnset = SIZE_MAX;

  explicit Deadline(Record* owner, Kind what) : kind(what), record(owner) {}
  explicit Deadline(ReadWaiter* owner) : kind(Kind::kRead), read(owner) {}
  explicit Deadline(GetWaiter* owner) : kind(Kind::kGet), get(owner) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  bool set() const { return position != kUnset; }

  Kind kind;
  union {
    Record* record;    // kLease, kReady, kSupply
    ReadWaiter* read;  // kRead
    GetWaiter* get;    // kGet
  };
  std::int64_t when_us = 0;
  std::uint64_t sequence = 0;  // deadlines of one time are due in the order in which they were set
  std::size_t position = kUnset;
};

class DeadlineHeap {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  Deadline* first() const { return heap_.empty() ? nullptr : heap_.front(); }

  void Set(Deadline* deadline, std::int64_t when_us);  // moves the deadline if it is set
  void Clear(Deadline* deadline);                      // no effect if the deadline is not set
  bool IsConsistent() const;

 private:
  static bool Before(const Deadline* a, const Deadline* b);
  void Put(std::size_t position, Deadline* deadline);
  void MoveUp(std::size_t position);
  void MoveDown(std::size_t position);

  std::vector<Deadline*> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tuplespace::internal
