// StepTimeline: when the tasks of some steps begin and end on given handlers, if bytes cross links.
// Tasks are added in an order in which they can run; a handler runs its own tasks in this order.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "acan/manager/placement.h"
#include "step_shape.h"

namespace acan {

class StepTimeline {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr int kAnybody = -1;

  // The references must outlive it. The tiles that the first step reads lie where `home_of` says;
  // other tiles lie with the first handler that needs them.
  StepTimeline(const HandlerNetwork& network, const StepShape& shape,
               const std::map<TileId, int>& home_of, std::size_t steps);
  StepTimeline(const StepTimeline&) = delete;
  StepTimeline& operator=(const StepTimeline&) = delete;

  // A task of one of the steps.
  struct TaskOfStep {
    std::size_t step = 0, task = 0;
  };
  struct Offer {
    double end_us = 0;
    double link_us = 0;  // time for which it occupies links
  };
  // Whether the task, and all tiles that the handler makes in a step, fit into the handler's
  // memory.
  bool Fits(const TaskOfStep& of, int handler) const;
  // The estimate for running the task on the handler, without side effects. REQUIRES: it fits
  // there; as for Settle.
  Offer OfferOf(const TaskOfStep& of, int handler);
  // Assigns the task to the handler.
  void Settle(const TaskOfStep& of, int handler);

  // When all inputs of the task exist. REQUIRES: the tasks that make them are settled.
  double ReadyUs(const TaskOfStep& of) const;
  // When the handler asks for its next task, which is when its last one begins.
  double AsksUs(int handler) const {
    return handlers_[static_cast<std::size_t>(handler)].last_begin_us;
  }
  // When all settled tasks of a step are done.
  double EndUs(std::size_t step) const { return ends_us_[step]; }
  // The placement of the last step; its step_us is the minimum that each machine's cores need.
  Placement Take();

 private:
  struct Link {
    double out_free_us = 0, in_free_us = 0;
  };
  struct At {
    int owner = kAnybody;  // a handler, kManager or kBroker
    double ready_us = 0;   // when it is there and the broker knows it
  };
  // A tuple of one of the steps. The tiles that a step reads are the ones that the step before
  // made.
  using TupleId = std::size_t;

  const HostLink& LinkOf(int handler) const {
    return network_.hosts[network_.handlers[static_cast<std::size_t>(handler)].host];
  }
  bool SharesMemory(int handler) const { return LinkOf(handler).us_per_kib == 0; }
  TupleId TupleOf(std::size_t step, std::size_t tuple) const;
  const StepShape::OfTuple& ShapeOf(TupleId tuple) const {
    return shape_.tuples[tuple % shape_.tuples.size()];
  }
  double& CopyAt(TupleId tuple, int handler) {
    return copies_[tuple * network_.handlers.size() + static_cast<std::size_t>(handler)];
  }
  bool IsLast(std::size_t step) const { return step + 1 == ends_us_.size(); }
  void AddCpu(int handler, double us);
  void AddCpuOfManager(double us);
  void AddCpuOfTransfer(int owner, int handler, std::uint64_t bytes);
  double Known(TupleId tuple, int handler);
  double ArrivalWithinHost(TupleId tuple, int handler, double grant_us, bool commit);
  double ArrivalOverLink(TupleId tuple, int handler, double grant_us, bool commit, double* link_us);
  double ArrivalUs(TupleId tuple, int handler, double grant_us, bool commit, double* link_us);
  double BeginUs(const TaskOfStep& of, int handler, bool commit, double* link_us);
  void Make(TupleId tuple, int handler, double end_us);

  const HandlerNetwork& network_;
  const StepShape& shape_;
  struct OfHandler {
    double free_us = 0;
    double last_begin_us = 0;
    std::vector<std::uint64_t> tile_bytes;  // of each step
    Link within;                            // to and from other handlers of its host
  };
  std::vector<OfHandler> handlers_;
  std::vector<Link> links_;    // by host
  std::vector<double> times_;  // by machine: the factor by which encryption is slower
  Link manager_;
  double broker_us_per_kib_ = 0;
  double broker_out_free_us_ = 0;  // for tuples that the broker holds; others bypass it
  std::vector<At> tuples_;
  std::vector<double> copies_;   // when each handler has a copy of a tuple that it did not make
  std::vector<double> ends_us_;  // by step
  bool counts_ = false;          // whether settled tasks belong to the last step
  Placement placed_;
};

}  // namespace acan
