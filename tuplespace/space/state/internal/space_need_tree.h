// Ready tuples in the order in which they should be taken, with the search that a Get needs: the
// first tuple whose need fits an offer. A treap in which every node knows the smallest need of its
// subtree; all operations are O(log n) expected.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tuplespace::internal {

struct ClientState;
struct GetGroup;
struct Record;
class NeedTree;

// One tuple in one tree. Order: priority (low first), then need (large first), then sequence.
struct TakeEntry {
  Record* record = nullptr;
  std::size_t at = 0;  // index in the record's entries
  GetGroup* group = nullptr;
  NeedTree* tree = nullptr;
  const ClientState* preferred_by = nullptr;  // set if the tree is that of GetGroup::preferred

  std::int64_t priority = 0;
  std::uint64_t need_bytes = 0;
  std::uint64_t sequence = 0;

  TakeEntry* left = nullptr;
  TakeEntry* right = nullptr;
  std::uint64_t rank = 0;  // heap order of the treap
  std::uint64_t least_need_bytes = 0;

  bool Before(const TakeEntry& other) const {
    if (priority != other.priority) return priority < other.priority;
    if (need_bytes != other.need_bytes) return need_bytes > other.need_bytes;
    return sequence < other.sequence;
  }
};

// Does not own its entries.
class NeedTree {
 public:
  NeedTree() = default;
  NeedTree(const NeedTree&) = delete;
  NeedTree& operator=(const NeedTree&) = delete;

  bool empty() const { return root_ == nullptr; }
  TakeEntry* root() const { return root_; }

  // REQUIRES: the entry is in no tree; no other entry here has its sequence.
  void Insert(TakeEntry* entry);
  // REQUIRES: the entry is in this tree.
  void Erase(TakeEntry* entry);
  // The first entry in order with need_bytes <= offer_bytes, or null.
  TakeEntry* FirstThatFits(std::uint64_t offer_bytes) const;

  bool IsConsistent() const;

 private:
  TakeEntry* root_ = nullptr;
};

}  // namespace tuplespace::internal
