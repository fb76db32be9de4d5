#include "shadow.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "memory.h"

namespace cuda_on_cpu {
namespace {

constexpr std::uint32_t kSeveral = ~std::uint32_t{0};  // more than one thread

// Shadow of a word of shared memory. Times are intervals between barriers.
struct Word {
  std::uint32_t written_at = 0, writer = 0;
  std::uint32_t read_at = 0, reader = 0;
  std::uint32_t copying_since = 0;  // 0: no copy into it is in progress
};

// Notes an access; returns 0, or the thread that it races with.
std::uint32_t Note(Word& word, bool write, std::uint32_t now, std::uint32_t thread) {
  if (word.written_at == now && word.writer != thread) return word.writer;
  if (!write) {
    word.reader = word.read_at == now && word.reader != thread ? kSeveral : thread;
    word.read_at = now;
    return 0;
  }
  if (word.read_at == now && word.reader != thread) return word.reader;
  word.written_at = now;
  word.writer = thread;
  return 0;
}

// Shadow of a word of the device's memory: who used it in one launch, and in which intervals.
struct GlobalWord {
  std::uint32_t written_launch = 0, written_in = 0, writer = 0;
  std::uint32_t read_launch = 0, first_read_in = 0, last_read_in = 0;
  std::uint32_t reader = 0;  // in last_read_in
};

// Notes an access; returns 0, or the thread that it races with. An earlier access is no race if
// both threads are of one block and a barrier is between the accesses. Intervals of other blocks
// are before now.first_interval.
std::uint32_t NoteGlobal(GlobalWord& word, bool write, const Now& now) {
  const auto before = [&](std::uint32_t interval) {
    return interval >= now.first_interval && interval < now.interval;
  };
  if (word.written_launch == now.launch && word.writer != now.thread && !before(word.written_in)) {
    return word.writer;
  }
  const bool was_read = word.read_launch == now.launch;
  if (!write) {
    if (!was_read) word.first_read_in = now.interval;
    const bool several = was_read && word.last_read_in == now.interval && word.reader != now.thread;
    word.reader = several ? kSeveral : now.thread;
    word.read_launch = now.launch;
    word.last_read_in = now.interval;
    return 0;
  }
  const bool read_before = word.first_read_in >= now.first_interval &&
                           (word.last_read_in < now.interval || word.reader == now.thread);
  if (was_read && !read_before) return word.reader;
  word.written_launch = now.launch;
  word.written_in = now.interval;
  word.writer = now.thread;
  return 0;
}

constexpr std::uint64_t kSharedWords = std::uint64_t{1} << 26;

// Only touched pages take memory.
template <typename T>
T* Reserve(std::uint64_t words) {
  void* const memory = ::mmap(nullptr, words * sizeof(T), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "fake GPU: no addresses are left for its shadow\n");
    std::abort();
  }
  return static_cast<T*>(memory);
}

}  // namespace

std::uint32_t TouchGlobal(std::uintptr_t address, unsigned bytes, bool write, const Now& now) {
  static const std::uintptr_t begin = TheArena().begin;
  static GlobalWord* const words = Reserve<GlobalWord>(TheArena().bytes / 4);
  GlobalWord* const first = words + (address - begin) / 4;
  const unsigned count = bytes <= 4 ? 1 : bytes / 4;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t other = NoteGlobal(first[i], write, now);
    if (other != 0) return other;
  }
  return 0;
}

namespace {

// Shadow of shared memory. All shared variables are near each other, in the segments of one loaded
// file.
Word* shared_words = nullptr;
std::uintptr_t first_shared = 0;  // address / 4

void ReserveShared(std::uintptr_t address) {
  shared_words = Reserve<Word>(kSharedWords);
  first_shared = address / 4 - kSharedWords / 2;
}

// Returns null if the address is too far away.
inline Word* SharedWord(std::uintptr_t address) {
  // Not a static of this function, whose guard would be checked at each access.
  if (shared_words == nullptr) ReserveShared(address);
  const std::uintptr_t at = address / 4 - first_shared;
  return at < kSharedWords ? shared_words + at : nullptr;
}

}  // namespace

const char* TouchShared(std::uintptr_t address, unsigned bytes, bool write, std::uint32_t interval,
                        std::uint32_t first_interval, std::uint32_t thread) {
  Word* word = SharedWord(address);
  Word* const last = SharedWord(address + bytes - 1);
  if (word == nullptr || last == nullptr) return "which is too far away for the fake GPU";
  for (; word <= last; ++word) {
    if (word->copying_since >= first_interval) return "into which a copy is under way";
    if (!write && word->written_at < first_interval) return "which nobody has written yet";
    if (Note(*word, write, interval, thread) != 0) {
      return "which another thread uses before the next barrier";
    }
  }
  return nullptr;
}

const char* BeginCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                                std::uint32_t first_interval, std::uint32_t thread) {
  const char* const problem = TouchShared(address, bytes, true, interval, first_interval, thread);
  if (problem != nullptr) return problem;
  for (unsigned i = 0; i < bytes; i += 4) SharedWord(address + i)->copying_since = interval;
  return nullptr;
}

const char* EndCopyIntoShared(std::uintptr_t address, unsigned bytes, std::uint32_t interval,
                              std::uint32_t first_interval, std::uint32_t thread) {
  for (unsigned i = 0; i < bytes; i += 4) SharedWord(address + i)->copying_since = 0;
  return TouchShared(address, bytes, true, interval, first_interval, thread);
}

}  // namespace cuda_on_cpu
