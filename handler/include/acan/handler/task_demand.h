// TaskDemand: how many tasks a handler requests, when, and how many bytes it offers for them. Pure;
// a part of HandlerCore.
//
// A handler takes enough tasks to be busy until the next one arrives, and no more, because a faster
// handler cannot compute tasks that wait here (pace.h). That is one or two long tasks. Short tasks
// are taken many at a time, because a message costs more than they do, but in at most half of the
// memory, so that cached entries stay. If that offer is not taken up, or an older offer was made
// beside a task that is done since, a waiting task may need more memory: then all of it is offered.
// A task may instead request that a whole chunk of tasks of its run is taken together. A task of
// another run ends the chunk. If the request for the rest of a chunk brings such tasks, the handler
// keeps the first of them, or the chunk that it begins, and puts the others back. Otherwise a task
// with a large chunk would let this handler hoard the tasks of all runs.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/handler/handler_events.h"
#include "acan/handler/largest_need.h"
#include "acan/handler/pace.h"

namespace acan {

inline constexpr std::int32_t kMaxAskedAtOnce = 64;  // tasks in one get
// An open get that offers less than the free memory is replaced after this time in vain.
inline constexpr std::int64_t kOfferInVainUs = 10'000;

// A handler's work and free memory.
struct Workload {
  int working = 0;                   // tasks that are not computed yet
  std::int64_t all_us = 0;           // remaining time to compute them; 0: unknown
  std::int64_t longest_us = 0;       // of the longest of them
  bool is_empty = true;              // not even results that have not left are here
  std::uint64_t free_bytes = 0;      // for another task
  std::uint64_t reserved_bytes = 0;  // for tasks that are here
  std::uint32_t ns_per_kib = 0;      // the time that bytes take to leave
};

class TaskDemand {
 public:
  TaskDemand(std::uint64_t limit_bytes, int depth) : limit_bytes_(limit_bytes), depth_(depth) {}

  const Pace& pace() const { return pace_; }
  std::uint64_t largest_need_bytes() const { return largest_need_.bytes(); }
  // When to call Ask again if nothing happens before.
  std::int64_t next_us() const { return ask_at_us_; }

  // Returns whether the handler should keep the task; otherwise it should put it back.
  [[nodiscard]] bool NoteGrant(const TaskGranted& event, std::int64_t now_us);
  void NoteRun(std::uint64_t flops, std::int64_t took_us) { pace_.NoteRun(flops, took_us); }
  void NoteInputs(std::int64_t took_us) { pace_.NoteInputs(took_us); }
  void NoteGetEnded() { asking_ = false; }

  // Opens a get, replaces the open one, or ends it.
  void Ask(const Workload& work, std::int64_t now_us, std::vector<HandlerAction>& out);
  void StopAsking(std::vector<HandlerAction>& out);  // until Ask is called again

 private:
  struct Want {
    std::uint32_t count = 0;
    std::uint64_t offer_bytes = 0;
    bool share = false;
  };
  // Whether the latest get is for the rest of a chunk; kEnded: it is, and has brought a task of no
  // chunk, or the first one of another chunk.
  enum class Rest : std::uint8_t { kNotAskedFor, kAskedFor, kEnded };
  bool TakesPart(const TaskGranted& event);
  Want Wanted(const Workload& work, std::int64_t now_us);
  void EndGet(std::vector<HandlerAction>& out);
  bool OffersLess(const Workload& work) const;
  bool IsInVain(const Workload& work, std::int64_t now_us) const;

  const std::uint64_t limit_bytes_;
  const int depth_;
  Pace pace_;
  bool asking_ = false;
  AskForTask asked_;  // the latest
  std::int64_t asked_us_ = 0;
  std::int64_t ask_at_us_ = tuplespace::kForeverUs;
  std::int32_t chunk_left_ = 0;  // of a chunk in progress,
  tuplespace::Key chunk_run_;    // which is of this run
  Rest rest_ = Rest::kNotAskedFor;
  bool chunked_ = false;  // the last task belonged to a chunk
  LargestNeed largest_need_;
};

}  // namespace acan
