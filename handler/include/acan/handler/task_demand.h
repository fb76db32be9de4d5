// TaskDemand: how many tasks a handler asks for, when, and how many bytes it offers for them. Pure;
// a part of HandlerCore.
//
// A handler takes enough to be busy while the next task is on its way, and no more, because what
// waits here cannot be computed by somebody faster (pace.h). That is one or two long tasks; short
// ones are taken many at a time, as a message costs more than they do, in at most half of the
// memory, so that what is kept there stays. Where that finds nothing, or what was offered beside a
// task that is done since, a task may be waiting that needs more: then all is offered. A task may
// instead ask for a whole chunk to be taken together.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/handler/handler_events.h"
#include "acan/handler/pace.h"

namespace acan {

inline constexpr std::int32_t kMostAskedAtOnce = 64;  // tasks of one get
// So long less than the free memory is offered in vain.
inline constexpr std::int64_t kOfferInVainUs = 10'000;

// What a handler has to do, and room for.
struct Workload {
  int working = 0;                   // tasks that are not computed yet
  std::int64_t all_us = 0;           // what is left to compute of them; 0 while that is not known
  std::int64_t longest_us = 0;       // of one of them
  bool is_empty = true;              // not even results are here that have not left
  std::uint64_t free_bytes = 0;      // for a task
  std::uint64_t reserved_bytes = 0;  // for tasks that are here
  std::uint32_t ns_per_kib = 0;      // what bytes take to leave
};

class TaskDemand {
 public:
  TaskDemand(std::uint64_t limit_bytes, int depth) : limit_bytes_(limit_bytes), depth_(depth) {}

  const Pace& pace() const { return pace_; }
  std::uint64_t largest_need_bytes() const { return largest_need_bytes_; }
  // When Ask is to be called again, if nothing happens before.
  std::int64_t next_us() const { return ask_at_us_; }

  void NoteGrant(const TaskGranted& event, std::int64_t now_us);
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
  std::int32_t chunk_left_ = 0;           // of a chunk that is being taken
  bool chunked_ = false;                  // the last task was one of a chunk
  std::uint64_t largest_need_bytes_ = 0;  // of any task granted so far
};

}  // namespace acan
