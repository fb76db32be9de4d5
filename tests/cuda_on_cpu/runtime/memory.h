// Memory of fake GPUs and pinned memory: where it lies, whether it is still there, and how much the
// driver would have taken. Addresses are never given twice. REQUIRES: the state's mutex is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cuda_on_cpu {

inline constexpr int kPinned = -1;  // in place of a device's number

struct Piece {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  int owner = 0;  // a device or kPinned
  bool freed = false;
  int slab = -1;  // of small pieces
};

// One range of addresses holds all pieces, with gaps between them.
struct Arena {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
};
const Arena& TheArena();

// Poisoned memory of the device, or null if it has too little left.
void* NewDevicePiece(int device, std::uint64_t bytes);
void* NewPinnedPiece(std::uint64_t bytes);
// False: there is no such piece (which is a finding). Its content is gone at once.
bool FreePiece(void* begin, bool pinned);
bool MakeRoomForLocal(int device, std::uint64_t bytes_a_thread);

// The piece that an address is in or was in; null if it never was in one.
const Piece* PieceAt(std::uintptr_t address);
// Whether [begin, begin + bytes) lies in one piece of `owner` that is not freed; else a finding.
bool CheckRange(const void* begin, std::uint64_t bytes, int owner, std::string_view what);
// In words, for findings.
std::string Describe(std::uintptr_t address);

struct PieceCounts {
  std::uint64_t device_bytes = 0, device = 0, pinned = 0, pinned_made = 0;
};
PieceCounts CountPieces(int device);

}  // namespace cuda_on_cpu
