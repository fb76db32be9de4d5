// The kinds of tuples that managers and handlers agree on, and the layout of their keys. The words
// and the order of the fields are on the wire and never change.
//
// Keys of a step's tuples begin with (run, step, kind), so that one watermark retires everything
// that a finished step leaves behind. `run` is the id of the job, "-", and letters that no other
// life of the job has. `step` counts from 0; for tiles it is the version, which is the number of
// steps before it. A range is two fields, [begin, end): b is a range of the batch's samples, f of
// the features of a boundary (boundary 0: the model's inputs; l: the inputs of layer l, which layer
// l - 1 computes), o of a layer's outputs, i of its inputs. `batch` is 0 in training and counts
// from 1 in an evaluation.
//
//   (run, step, "task", precision, task, batch, layer, b, o, i)
//                                                 a task; `task` is a word of TaskName
//   (run, step, "task", precision, "audit", audit, vote)
//                                                 a repetition of a finished task
//   (run, step, "audit", audit, vote, output)     the results of such a repetition
//   (run, step, "act" | "pre" | "delta", batch, boundary, b, f)
//                                                 [b, f]: activations, the inputs of the activation
//                                                 function, and the gradients with respect to these
//   (run, step, "part.*", batch, layer, b, o, i)  a partial sum over one of the ranges
//   (run, step, "target" | "loss", batch, b)      labels [b, 1] or values [b, outputs]; the sums of
//                                                 the losses and of right answers [1, 1 or 2]
//   (run, step, "part.squares", batch, parameter, place, o, i)
//                                                 sums of the squares of a gradient: of all of
//                                                 [o, i], or of each row [o, 1]
//   (run, step, "norm" | "clip", batch)           of all gradients: the sum of the squares, and
//                                                 the factor that multiplies them, both [1, 1]
//   (run, kFrozenVersion, "frozen", parameter, o, i)
//                                                 [o, i] of a parameter that is not trained: the
//                                                 same tuple in all versions, which no watermark of
//                                                 a step retires
//   (run, version, "tile" | "state0" | "state1", parameter, o, i)
//                                                 [o, i] of a parameter, or of the optimizer's
//                                                 state for it; [1, o] of a bias
//
// Other tuples outlive a step:
//
//   ("handler", id)                what a handler is (Capacity); there while it is connected
//   ("report", id, number)         the handler's counts so far (Report)
//   ("leader", job)                held under a lease by the job's manager
//   ("standby", job, id)           a manager that waits for the lead
//   ("run", job, run)              a life of a job; the space may still have tuples of it
//   ("done", job)                  the receipt of the job's last finished run, for managers that
//                                  stand by
//   ("metrics", job, run, first step, steps)
//                                  lines of metrics.jsonl, for managers on other hosts; 0 steps:
//                                  one of an earlier life
//   ("state", job, run, number)    what else such a manager must know: RunState as JSON; only the
//   one
//                                  with the greatest number counts
//   ("quarantine", job, id)        a handler that computed a wrong result; it gets no task of
//                                  the job
//   ("probe", id, number)          bytes with which a client measures its link (acan check). For a
//                                  handler: 0 means that it measures, 1 that it waits for others
//                                  that measure
#pragma once

#include <cstdint>

namespace acan {

enum class StepTuple : std::uint8_t {
  kTask,
  kAudit,
  kActivation,
  kPreActivation,
  kDelta,
  kForwardPart,       // over inputs
  kBackwardPart,      // over outputs
  kGradientPart,      // over the batch
  kBiasGradientPart,  // over the batch
  kSquaresPart,       // of gradients, over their elements
  kTarget,
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
  kLoss,
  kBackward,
  kBackwardSum,
  kActivationGradient,
  kGradient,
  kGradientSum,
  kBiasGradientSum,
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
