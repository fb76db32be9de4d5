#include "space_need_tree.h"

#include <algorithm>
#include <cassert>

namespace tuplespace::internal {
namespace {

// SplitMix64's finalizer. The ranks look random and are the same in every run.
std::uint64_t RankOf(std::uint64_t sequence) {
  std::uint64_t x = sequence + 0x9E3779B97F4A7C15ull;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

void Update(TakeEntry* node) {
  node->least_need_bytes = node->need_bytes;
  for (const TakeEntry* child : {node->left, node->right}) {
    if (child != nullptr) {
      node->least_need_bytes = std::min(node->least_need_bytes, child->least_need_bytes);
    }
  }
}

// Splits `node` into the entries before `at` and those after it.
void Split(TakeEntry* node, const TakeEntry& at, TakeEntry** before, TakeEntry** after) {
  if (node == nullptr) {
    *before = *after = nullptr;
    return;
  }
  if (node->Before(at)) {
    Split(node->right, at, &node->right, after);
    *before = node;
  } else {
    Split(node->left, at, before, &node->left);
    *after = node;
  }
  Update(node);
}

TakeEntry* Join(TakeEntry* before, TakeEntry* after) {
  if (before == nullptr) return after;
  if (after == nullptr) return before;
  if (before->rank > after->rank) {
    before->right = Join(before->right, after);
    Update(before);
    return before;
  }
  after->left = Join(before, after->left);
  Update(after);
  return after;
}

void InsertBelow(TakeEntry** slot, TakeEntry* entry) {
  while (*slot != nullptr && (*slot)->rank >= entry->rank) {
    TakeEntry* node = *slot;
    node->least_need_bytes = std::min(node->least_need_bytes, entry->need_bytes);
    slot = entry->Before(*node) ? &node->left : &node->right;
  }
  Split(*slot, *entry, &entry->left, &entry->right);
  *slot = entry;
  Update(entry);
}

void EraseBelow(TakeEntry** slot, TakeEntry* entry) {
  TakeEntry* node = *slot;
  assert(node != nullptr);
  if (node == entry) {
    *slot = Join(node->left, node->right);
    return;
  }
  EraseBelow(entry->Before(*node) ? &node->left : &node->right, entry);
  Update(node);
}

bool IsConsistentBelow(const TakeEntry* node, const NeedTree* tree) {
  if (node == nullptr) return true;
  std::uint64_t least = node->need_bytes;
  for (const TakeEntry* child : {node->left, node->right}) {
    if (child == nullptr) continue;
    if (child->rank > node->rank || child->Before(*node) != (child == node->left)) return false;
    if (!IsConsistentBelow(child, tree)) return false;
    least = std::min(least, child->least_need_bytes);
  }
  return node->tree == tree && least == node->least_need_bytes;
}

}  // namespace

void NeedTree::Insert(TakeEntry* entry) {
  assert(entry->tree == nullptr);
  entry->tree = this;
  entry->rank = RankOf(entry->sequence);
  InsertBelow(&root_, entry);
}

void NeedTree::Erase(TakeEntry* entry) {
  assert(entry->tree == this);
  EraseBelow(&root_, entry);
  entry->tree = nullptr;
  entry->left = entry->right = nullptr;
}

TakeEntry* NeedTree::FirstThatFits(std::uint64_t offer_bytes) const {
  TakeEntry* node = root_;
  if (node == nullptr || node->least_need_bytes > offer_bytes) return nullptr;
  for (;;) {
    if (node->left != nullptr && node->left->least_need_bytes <= offer_bytes) {
      node = node->left;
    } else if (node->need_bytes <= offer_bytes) {
      return node;
    } else {
      node = node->right;
      assert(node != nullptr && node->least_need_bytes <= offer_bytes);
    }
  }
}

bool NeedTree::IsConsistent() const {
  return IsConsistentBelow(root_, this);
}

}  // namespace tuplespace::internal
