// Memory of fake GPUs, and pinned memory: where pieces are, whether they still exist, and how much
// memory the driver would have taken. Addresses are never reused. REQUIRES: the state's mutex is
// held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cuda_on_cpu {

inline constexpr int kPinned = -1;  // instead of a device's number

struct Piece {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  int owner = 0;  // a device's number or kPinned
  bool freed = false;
  int slab = -1;  // the slab of a small piece
};

// The range of addresses that holds all pieces, with gaps between them.
struct Arena {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
};
const Arena& TheArena();

// Returns poisoned memory of the device, or null if it has too little left.
void* NewDevicePiece(int device, std::uint64_t bytes);
void* NewPinnedPiece(std::uint64_t bytes);
// Frees a piece and destroys its contents. Returns false if there is no such piece, which is a
// finding.
bool FreePiece(void* begin, bool pinned);
bool MakeRoomForLocal(int device, std::uint64_t bytes_a_thread);
// The driver loads a kernel's code at its first use. Returns false if the device has too little
// left.
bool LoadKernel(int device, const void* function);

// The piece that contains or once contained the address; null if there was none.
const Piece* PieceAt(std::uintptr_t address);
// Whether [begin, begin + bytes) is in one piece of `owner` that is not freed. If not, adds a
// finding.
bool CheckRange(const void* begin, std::uint64_t bytes, int owner, std::string_view what);
// Describes an address for findings.
std::string Describe(std::uintptr_t address);

struct PieceCounts {
  std::uint64_t device_bytes = 0, device = 0, pinned = 0, pinned_made = 0;
};
PieceCounts CountPieces(int device);

}  // namespace cuda_on_cpu
