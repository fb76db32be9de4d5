#include "cuts.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace acan {
namespace {

// Until they are known: a CPU core, and a broker on the same machine.
constexpr double kAssumedGflops = 100;
constexpr double kAssumedOverheadUs = 80;
// What a worker reads or writes of results: a core's share of memory, or of the bus of a device.
constexpr double kBytesPerUs = 5000;
// Half of what a task costs is hidden: the next one's messages travel while it is computed.
constexpr double kOverheadSeen = 0.5;

std::int64_t Parts(std::int64_t axis, std::int64_t span) {
  return (axis + span - 1) / span;
}

}  // namespace

double GflopsOf(const PlanRequest& request) {
  return request.handlers.gflops > 0 ? request.handlers.gflops : kAssumedGflops;
}

double OverheadUsOf(const PlanRequest& request) {
  return request.overhead_us > 0 ? request.overhead_us : kAssumedOverheadUs;
}

std::int64_t Cuts::OutputSpan(int layer, const Levels& levels) const {
  return std::min(request_.training.block << levels.outputs, request_.model.outputs(layer));
}

std::int64_t Cuts::InputSpan(int layer, const Levels& levels) const {
  return std::min(request_.training.block << levels.inputs, request_.model.inputs(layer));
}

std::int64_t Cuts::OutputParts(int layer, const Levels& levels) const {
  return Parts(request_.model.outputs(layer), OutputSpan(layer, levels));
}

std::int64_t Cuts::InputParts(int layer, const Levels& levels) const {
  return Parts(request_.model.inputs(layer), InputSpan(layer, levels));
}

std::vector<Levels> Cuts::Options(int layer, const CutLimits& limits) const {
  const int outputs = RootLevel(request_.model.outputs(layer), request_.training.block);
  const int inputs = RootLevel(request_.model.inputs(layer), request_.training.block);
  std::vector<Levels> options;
  for (int of_outputs = limits.halvings; of_outputs >= 0; --of_outputs) {
    const Levels levels{outputs - of_outputs, inputs - (limits.halvings - of_outputs),
                        limits.batch_level};
    if (levels.outputs < 0 || levels.inputs < 0) continue;
    if (OutputSpan(layer, levels) + InputSpan(layer, levels) > limits.most_span) continue;
    options.push_back(levels);
  }
  return options;
}

bool Cuts::Possible(int layer, const CutLimits& limits) const {
  return !Options(layer, limits).empty();
}

// Tasks that need nothing of each other, given to whoever is free: at most the average, and the
// last one's time that others wait (R. L. Graham, Bounds on multiprocessing timing anomalies,
// 1969).
double Cuts::StageUs(double tasks, double all_us, double largest_us) const {
  const double overhead_us = OverheadUsOf(request_) * kOverheadSeen;
  const double workers = request_.handlers.workers;
  return (all_us + tasks * overhead_us) / workers + (largest_us + overhead_us) * (1 - 1 / workers);
}

double Cuts::LayerUs(int layer, const Levels& levels) const {
  const std::int64_t batch = request_.training.batch;
  const std::int64_t row_span = std::min(request_.training.block << levels.batch, batch);
  const auto all_rows = static_cast<double>(batch), rows = static_cast<double>(row_span);
  const auto all_o = static_cast<double>(request_.model.outputs(layer));
  const auto all_i = static_cast<double>(request_.model.inputs(layer));
  const auto o = static_cast<double>(OutputSpan(layer, levels));
  const auto i = static_cast<double>(InputSpan(layer, levels));
  const auto row_parts = static_cast<double>(Parts(batch, row_span));
  const auto o_parts = static_cast<double>(OutputParts(layer, levels));
  const auto i_parts = static_cast<double>(InputParts(layer, levels));
  const double us_per_flop = 1 / (GflopsOf(request_) * 1e3);
  constexpr double kUsPerFloat = 4 / kBytesPerUs;
  const bool backward = layer > 0;
  const bool last = layer + 1 == request_.model.layer_count();

  // Forward, backward and update each multiply a box, and move its edges along the batch.
  const double product = StageUs(o_parts * i_parts * row_parts,
                                 all_rows * (2 * all_o * all_i * us_per_flop +
                                             (o_parts * all_i + i_parts * all_o) * kUsPerFloat),
                                 rows * (2 * o * i * us_per_flop + (o + i) * kUsPerFloat));
  double us = (backward ? 3 : 2) * product;
  const auto sum = [&](double tasks, double parts, double all, double largest) {
    us += StageUs(tasks, all_rows * all * (parts + 1) * kUsPerFloat,
                  rows * largest * (parts + 1) * kUsPerFloat);
  };
  if (i_parts > 1) sum(o_parts * row_parts, i_parts, all_o, o);
  if (o_parts > 1 && backward) sum(i_parts * row_parts, o_parts, all_i, i);
  // The loss of outputs in parts is a task of its own: it reads and writes them, copies them
  // together, and its gradients apart. That is as much as to add five parts.
  constexpr double kLossAsParts = 5;
  if (o_parts > 1 && last) sum(row_parts, kLossAsParts, all_o, all_o);
  return us;
}

// What is copied where `layer`, cut as `above`, begins and the one before it, cut as `below`, ends:
// between them are cells of the finer of both cuts.
double Cuts::BoundaryUs(int layer, const Levels& below, const Levels& above) const {
  const std::int64_t features = request_.model.inputs(layer);
  const std::int64_t below_span = OutputSpan(layer - 1, below),
                     above_span = InputSpan(layer, above);
  if (below_span == above_span) return 0;
  double copies = 1;  // the results of who is cut coarser, apart
  if (below_span > above_span) {
    // Deltas for the updates, and for the backward pass if there is one; by each tile of a row.
    const auto readers = static_cast<double>(InputParts(layer - 1, below));
    copies += readers * (layer - 1 > 0 ? 2 : 1);
  } else {
    // Activations for the forward pass and the updates, by each row of tiles; and for the slopes.
    const auto readers = static_cast<double>(OutputParts(layer, above));
    copies += 2 * readers + 1;
  }
  constexpr double kBytesOfCopy = 8;  // a float is read and written
  return copies * static_cast<double>(request_.training.batch * features) * kBytesOfCopy /
         (kBytesPerUs * request_.handlers.workers);
}

std::vector<Levels> Cuts::Choose(const std::vector<CutLimits>& limits) const {
  // The shortest way through the layers: for each cut of a layer, the best of those before it.
  struct Step {
    Levels levels;
    double us = 0;
    std::size_t before = 0;
  };
  std::vector<std::vector<Step>> ways;
  for (std::size_t l = 0; l < limits.size(); ++l) {
    const int layer = static_cast<int>(l);
    std::vector<Step> steps;
    for (const Levels& levels : Options(layer, limits[l])) {
      Step step{levels, l == 0 ? 0 : std::numeric_limits<double>::infinity(), 0};
      for (std::size_t b = 0; l > 0 && b < ways[l - 1].size(); ++b) {
        const Step& before = ways[l - 1][b];
        const double us = before.us + BoundaryUs(layer, before.levels, levels);
        if (us < step.us) step = {levels, us, b};
      }
      step.us += LayerUs(layer, levels);
      steps.push_back(step);
    }
    assert(!steps.empty());
    ways.push_back(std::move(steps));
  }
  const auto faster = [](const Step& a, const Step& b) { return a.us < b.us; };
  const std::vector<Step>& ends = ways.back();
  auto at =
      static_cast<std::size_t>(std::min_element(ends.begin(), ends.end(), faster) - ends.begin());
  std::vector<Levels> chosen(limits.size());
  for (std::size_t l = limits.size(); l-- > 0;) {
    chosen[l] = ways[l][at].levels;
    at = ways[l][at].before;
  }
  return chosen;
}

}  // namespace acan
