// The kinds of tuples that managers and handlers agree on, and the layout of their keys. The words
// and the order of the fields are on the wire and never change.
//
// Keys of a step's tuples begin with (run, step, kind), so that one watermark retires everything
// that a finished step leaves behind. `run` is the id of the job, "-", and letters that no other
// life of the job has. `step` counts from 0; for tiles it is the version, which is the number of
// steps before it. `batch` is 0 in training and counts from 1 in an evaluation. `value` and `node`
// are numbers of the lowered graph, `parameter` is one of the model. A range is two fields, [begin,
// end): b is a range of the batch's rows; r and c are ranges of the rows and columns of a
// parameter, or of any matrix; `place` is a range in the tree in which the rows of the batch are
// added (RowOrder::PlaceOf).
//
//   (run, step, "task", precision, task, batch, of, range, range, range)
//                                                 a task; `task` is a word of TaskName. The ranges
//                                                 tell apart the tasks that are alike in the rest.
//                                                 `of` is the segment. For initialize, update and
//                                                 squares it is the place among such tasks, for
//                                                 sum.gradient the value, for sum.squares and clip
//                                                 the parameter (-1: all)
//   (run, step, "task", precision, "audit", audit, vote)
//                                                 a repetition of a finished task
//   (run, step, "audit", audit, vote, output)     the results of such a repetition
//   (run, step, "act", batch, value, b, c)        [b, c] of an input of the model, of a value that
//                                                 tasks of other segments read, or of a table,
//                                                 whose rows are its own
//   (run, step, "part.forward" | "part.backward", batch, node, b, range, range)
//                                                 what a node's tasks make for other tasks of its
//                                                 segment. Of a product: columns of its result, and
//                                                 the range of columns over which it is summed so
//                                                 far. Of other nodes: the range of what has been
//                                                 combined so far, and [n, n + 1) for the kind n of
//                                                 such parts
//   (run, step, "part.gradient", batch, value, place, r, c)
//                                                 [r, c] of a sum over the rows of the batch: the
//                                                 part at `place`; an empty place: all of it
//   (run, step, "loss", batch, place)             the sums of the losses and, for classes, of right
//                                                 answers, [1, 1 or 2]
//   (run, step, "part.squares", batch, parameter, 0, 0, r, c)
//                                                 sums of the squares of a gradient: of all of [r,
//                                                 c] if it has all columns, otherwise of each row.
//                                                 Parameter -1: of some parameters, r is empty
//   (run, step, "norm" | "clip", batch)           of all gradients: the sum of the squares, and
//                                                 the factor that multiplies them, both [1, 1]
//   (run, kFrozenVersion, "frozen", parameter, r, c)
//                                                 [r, c] of a parameter that is not trained: the
//                                                 same tuple in all versions, which no watermark of
//                                                 a step retires
//   (run, version, "tile" | "state0" | "state1", parameter, r, c)
//                                                 [r, c] of a parameter, or of the optimizer's
//                                                 state for it; a vector is one row
//
// Other tuples outlive a step:
//
//   ("handler", id)                what a handler is (Capacity); there while it is connected
//   ("report", id, number)         the handler's counts so far, and its present speed (Report)
//   ("leader", job)                held under a lease by the job's manager
//   ("standby", job, id)           a manager that waits for the lead
//   ("run", job, run)              a life of a job; the space may still have tuples of it
//   ("done", job)                  the receipt of the job's last finished run, for managers that
//                                  stand by
//   ("metrics", job, run, first step, steps)
//                                  lines of metrics.jsonl, for managers on other hosts; 0 steps:
//                                  one of an earlier life
//   ("state", job, run, number)    what else such a manager must know: RunState as JSON; only the
//                                  one with the greatest number counts
//   ("quarantine", job, id)        a handler that computed a wrong result; it gets no task of
//                                  the job
//   ("probe", id, number)          bytes with which a client measures its link
//   ("probe", "turn")              put by the broker when it starts; the handler that measures its
//                                  link holds it under a lease
#pragma once

#include <cstdint>

namespace acan {

enum class StepTuple : std::uint8_t {
  kTask,
  kAudit,
  kActivation,
  kForwardPart,
  kBackwardPart,
  kGradientPart,  // over the batch
  kSquaresPart,   // of gradients, over their elements
  kLoss,
  kGradientNorm,
  kClipFactor,
  kTile,
  kFirstMoment,
  kSecondMoment,
  kFrozen,
};
const char* WordOf(StepTuple kind);
// Replaces the step in keys of tuples that never change.
inline constexpr std::int64_t kFrozenVersion = INT64_MAX;
// All kinds of partial sums begin with this prefix, and no other kind does.
inline constexpr const char* kPartPrefix = "part.";

// What a task of a step is for.
enum class TaskName : std::uint8_t {
  kInitialize,
  kForward,
  kForwardSum,
  kActivation,
  kBackward,
  kBackwardSum,
  kActivationGradient,
  kGradient,
  kGradientSum,
  kSquares,
  kSquaresSum,
  kClipFactor,
  kUpdate,
  kAudit,
};
const char* WordOf(TaskName name);

enum class OtherTuple : std::uint8_t {
  kHandler,
  kReport,
  kLeader,
  kStandby,
  kRun,
  kDone,
  kMetrics,
  kState,
  kQuarantine,
  kProbe,
};
const char* WordOf(OtherTuple kind);

}  // namespace acan
