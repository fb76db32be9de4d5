#include "memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "forbidden_access.h"
#include "state.h"

namespace cuda_on_cpu {
namespace {

#if defined(__SANITIZE_THREAD__)  // leaves fewer addresses to the program
constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 35;
#else
constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 40;
#endif
const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
constexpr std::uint64_t kAlignment = 256;  // all that CUDA promises
// The driver takes whole chunks, and splits a chunk for small pieces.
constexpr std::uint64_t kChunk = 2 << 20;
constexpr std::uint64_t kMaxSmall = 1 << 20;
constexpr std::uint64_t kSmallGrain = 512;
constexpr int kPoison = 0xff;  // NaN as a float, out of range as an index

struct Pieces {
  std::map<std::uintptr_t, Piece> by_begin;  // including freed ones
  std::vector<int> pieces_of_slab;
  std::uintptr_t next = 0;  // address of the next piece
  std::uint64_t pinned_made = 0;
};
Pieces& ThePieces() {
  static auto& pieces = *new Pieces;
  return pieces;
}

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

// The pages before and after every piece are never accessible. AddressSanitizer also finds accesses
// to the rest of the first and the last page; without it, the kernels' hooks do (access_hooks.cpp).
void* NewPiece(Piece piece) {
  Pieces& pieces = ThePieces();
  const Arena& arena = TheArena();
  if (pieces.next == 0) pieces.next = arena.begin;
  const std::uint64_t shift = TheState().Draw(kPage / kAlignment) * kAlignment;
  const std::uint64_t pages = RoundUp(shift + piece.bytes, kPage);
  const std::uintptr_t at = pieces.next + kPage;
  pieces.next = at + pages;
  auto* const memory = reinterpret_cast<void*>(at);
  if (pieces.next + kPage > arena.begin + arena.bytes ||
      ::mprotect(memory, pages, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "fake GPU: the addresses for its memory are used up\n");
    std::abort();
  }
  std::memset(memory, kPoison, pages);
  piece.begin = at + shift;
  ForbidAccess(at, shift);
  ForbidAccess(piece.begin + piece.bytes, pages - shift - piece.bytes);
  pieces.by_begin[piece.begin] = piece;
  return reinterpret_cast<void*>(piece.begin);
}

}  // namespace

const Arena& TheArena() {
  static const Arena arena = [] {
    void* const memory =
        ::mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "fake GPU: 1 TiB of addresses cannot be reserved\n");
      std::abort();
    }
    return Arena{reinterpret_cast<std::uintptr_t>(memory), kArenaBytes};
  }();
  return arena;
}

void* NewDevicePiece(int device, std::uint64_t bytes) {
  Gpu& gpu = TheState().gpus[static_cast<std::size_t>(device)];
  Pieces& pieces = ThePieces();
  const std::uint64_t small = RoundUp(bytes, kSmallGrain);
  const bool is_small = bytes <= kMaxSmall;
  const bool new_slab = is_small && (gpu.slab < 0 || gpu.slab_used + small > kChunk);
  const std::uint64_t takes = is_small ? (new_slab ? kChunk : 0) : RoundUp(bytes, kChunk);
  if (gpu.TakenBytes() + takes > gpu.model.memory_bytes) return nullptr;
  gpu.device_bytes += takes;
  Piece piece{0, bytes, device, false, -1};
  if (is_small) {
    if (new_slab) {
      gpu.slab = static_cast<int>(pieces.pieces_of_slab.size());
      gpu.slab_used = 0;
      pieces.pieces_of_slab.push_back(0);
    }
    gpu.slab_used += small;
    piece.slab = gpu.slab;
    ++pieces.pieces_of_slab[static_cast<std::size_t>(gpu.slab)];
  }
  return NewPiece(piece);
}

void* NewPinnedPiece(std::uint64_t bytes) {
  ++ThePieces().pinned_made;
  return NewPiece({0, bytes, kPinned, false, -1});
}

bool FreePiece(void* begin, bool pinned) {
  Pieces& pieces = ThePieces();
  const auto found = pieces.by_begin.find(reinterpret_cast<std::uintptr_t>(begin));
  const char* const call = pinned ? "cudaFreeHost" : "cudaFree";
  if (found == pieces.by_begin.end() || found->second.freed ||
      (found->second.owner == kPinned) != pinned) {
    Find(fmt::format("{} of {}", call, Describe(reinterpret_cast<std::uintptr_t>(begin))));
    return false;
  }
  Piece& piece = found->second;
  piece.freed = true;
  const std::uintptr_t first = piece.begin / kPage * kPage;
  const std::uint64_t pages = RoundUp(piece.begin + piece.bytes - first, kPage);
  ::madvise(reinterpret_cast<void*>(first), pages, MADV_DONTNEED);
  ::mprotect(reinterpret_cast<void*>(first), pages, PROT_NONE);
  if (pinned) return true;
  Gpu& gpu = TheState().gpus[static_cast<std::size_t>(piece.owner)];
  if (piece.slab < 0) {
    gpu.device_bytes -= RoundUp(piece.bytes, kChunk);
  } else if (--pieces.pieces_of_slab[static_cast<std::size_t>(piece.slab)] == 0) {
    gpu.device_bytes -= kChunk;
    if (gpu.slab == piece.slab) gpu.slab = -1;
  }
  return true;
}

bool MakeRoomForLocal(int device, std::uint64_t bytes_a_thread) {
  Gpu& gpu = TheState().gpus[static_cast<std::size_t>(device)];
  if (bytes_a_thread <= gpu.local_bytes_a_thread) return true;
  Gpu grown = gpu;
  grown.local_bytes_a_thread = bytes_a_thread;
  if (grown.TakenBytes() > grown.model.memory_bytes) return false;
  DrainDevice(device);
  gpu.local_bytes_a_thread = bytes_a_thread;
  ++gpu.local_resizes;
  return true;
}

bool LoadKernel(int device, const void* function) {
  Gpu& gpu = TheState().gpus[static_cast<std::size_t>(device)];
  if (!gpu.loaded.insert(function).second) return true;
  if (gpu.TakenBytes() <= gpu.model.memory_bytes) return true;
  gpu.loaded.erase(function);
  return false;
}

const Piece* PieceAt(std::uintptr_t address) {
  const Pieces& pieces = ThePieces();
  auto it = pieces.by_begin.upper_bound(address);
  if (it == pieces.by_begin.begin()) return nullptr;
  --it;
  return address < it->first + it->second.bytes ? &it->second : nullptr;
}

std::string Describe(std::uintptr_t address) {
  const Piece* const piece = PieceAt(address);
  if (piece == nullptr) return fmt::format("{:#x}, which CUDA did not give", address);
  const std::string owner =
      piece->owner == kPinned ? "pinned memory" : fmt::format("memory of cuda:{}", piece->owner);
  return fmt::format("byte {} of {} bytes of {}{}", address - piece->begin, piece->bytes, owner,
                     piece->freed ? ", which was freed" : "");
}

bool CheckRange(const void* begin, std::uint64_t bytes, int owner, std::string_view what) {
  if (bytes == 0) return true;
  const auto at = reinterpret_cast<std::uintptr_t>(begin);
  const Piece* const piece = PieceAt(at);
  if (piece != nullptr && !piece->freed && piece->owner == owner &&
      at + bytes <= piece->begin + piece->bytes) {
    return true;
  }
  Find(fmt::format("{} uses {} bytes at {}, must be {}", what, bytes, Describe(at),
                   owner == kPinned ? "pinned memory" : fmt::format("memory of cuda:{}", owner)));
  return false;
}

PieceCounts CountPieces(int device) {
  PieceCounts counts;
  for (const auto& [begin, piece] : ThePieces().by_begin) {
    if (piece.freed) continue;
    if (piece.owner == device) ++counts.device;
    if (piece.owner == device) counts.device_bytes += piece.bytes;
    if (piece.owner == kPinned) ++counts.pinned;
  }
  counts.pinned_made = ThePieces().pinned_made;
  return counts;
}

}  // namespace cuda_on_cpu
