#include "acan/core/tuple_kinds.h"

#include <cassert>

namespace acan {

const char* WordOf(StepTuple kind) {
  switch (kind) {
    case StepTuple::kTask:
      return "task";
    case StepTuple::kAudit:
      return "audit";
    case StepTuple::kActivation:
      return "act";
    case StepTuple::kForwardPart:
      return "part.forward";
    case StepTuple::kBackwardPart:
      return "part.backward";
    case StepTuple::kGradientPart:
      return "part.gradient";
    case StepTuple::kSquaresPart:
      return "part.squares";
    case StepTuple::kLoss:
      return "loss";
    case StepTuple::kGradientNorm:
      return "norm";
    case StepTuple::kClipFactor:
      return "clip";
    case StepTuple::kTile:
      return "tile";
    case StepTuple::kFirstMoment:
      return "state0";
    case StepTuple::kSecondMoment:
      return "state1";
    case StepTuple::kFrozen:
      return "frozen";
  }
  assert(false);
  return "";
}

const char* WordOf(TaskName name) {
  switch (name) {
    case TaskName::kInitialize:
      return "initialize";
    case TaskName::kForward:
      return "forward";
    case TaskName::kForwardSum:
      return "sum.forward";
    case TaskName::kActivation:
      return "activation";
    case TaskName::kBackward:
      return "backward";
    case TaskName::kBackwardSum:
      return "sum.backward";
    case TaskName::kActivationGradient:
      return "activation_gradient";
    case TaskName::kGradient:
      return "gradient";
    case TaskName::kGradientSum:
      return "sum.gradient";
    case TaskName::kSquares:
      return "squares";
    case TaskName::kSquaresSum:
      return "sum.squares";
    case TaskName::kClipFactor:
      return "clip";
    case TaskName::kUpdate:
      return "update";
    case TaskName::kAudit:
      return "audit";
  }
  assert(false);
  return "";
}

const char* WordOf(OtherTuple kind) {
  switch (kind) {
    case OtherTuple::kHandler:
      return "handler";
    case OtherTuple::kReport:
      return "report";
    case OtherTuple::kLeader:
      return "leader";
    case OtherTuple::kStandby:
      return "standby";
    case OtherTuple::kRun:
      return "run";
    case OtherTuple::kDone:
      return "done";
    case OtherTuple::kMetrics:
      return "metrics";
    case OtherTuple::kState:
      return "state";
    case OtherTuple::kQuarantine:
      return "quarantine";
    case OtherTuple::kProbe:
      return "probe";
  }
  assert(false);
  return "";
}

}  // namespace acan
