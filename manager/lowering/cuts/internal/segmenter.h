// Segmenter: cuts one of a model's two graphs into segments whose tasks fit into a handler.
//
// It goes through the nodes once and makes each segment as long as fits, given the segments before
// it and with all later nodes as one segment. Then it refines the segments that do not fit among
// the neighbours that they really got.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "cut_cost.h"
#include "pass_context.h"
#include "tilings.h"

namespace acan {

// The next finer cut of values with this many positions; nullopt if there is none.
std::optional<RowCut> Halved(const RowCut& cut, std::int64_t positions);
// Whether the operator is attention or its gradient.
bool IsAttention(const model::Operator& op);
// The minimum number of positions of a box within a sample.
inline constexpr std::int64_t kMinPositions = 16;

// How attention is spread over the workers if boxes are cut within samples. It is cut further if it
// does not fit into a task.
enum class AttentionSpread : std::uint8_t {
  kNone,     // a task has all queries of a sample
  kQueries,  // a task has as many queries as boxes have positions
  kHeads,    // a task has a part of the heads
};

class Segmenter {
 public:
  // The references must outlive it. `by_tiles`, by parameter: what is computed by its tiles.
  Segmenter(const CutRequest& request, const GraphCuts& cuts,
            const std::vector<TiledWork>& by_tiles, AttentionSpread spread, bool train);
  Segmenter(const Segmenter&) = delete;
  Segmenter& operator=(const Segmenter&) = delete;

  // Cuts with boxes of `rows` where the operators allow them. nullopt: something does not fit.
  std::optional<std::vector<Segment>> Cut(const RowCut& rows);
  // For the segments that Cut returned: in training the cost of each, in evaluation the need of the
  // largest task. Cut measures both to see whether segments fit.
  const std::vector<SegmentCost>& costs() const { return costs_; }
  std::uint64_t need_bytes() const { return need_bytes_; }

 private:
  bool Allows(std::int64_t n, const RowCut& rows) const;
  bool HasSameBoxes(std::int64_t first, std::int64_t node, const RowCut& rows) const;
  bool AllowsAlone(std::int64_t n, const RowCut& rows) const;
  bool CanCutQueries(std::int64_t n, const RowCut& rows) const;
  bool CanCutPositions(std::int64_t n, const RowCut& rows) const;
  std::optional<RowCut> AllowedFor(std::int64_t node, RowCut rows) const;
  bool ReadsSumSince(std::int64_t node, std::int64_t first) const;
  bool ReadsKeysSince(std::int64_t node, std::int64_t first, const RowCut& rows) const;
  std::int64_t PositionsOf(int node) const;

  std::uint64_t LeastNeed(std::int64_t node, const RowCut& rows) const;
  std::int64_t EndByMemory(std::int64_t first, std::int64_t limit, const RowCut& rows) const;
  bool TouchesTooMuch(const Segment& segment) const;
  bool Fits(const Segment& segment);
  void ChargeFor(int segment) const;
  bool FitsAt(int segment) const;
  bool MeasureAt(int segment);

  bool IsByTiles(std::int64_t node) const;
  std::optional<Segment> ByTiles(std::int64_t node, const RowCut& rows);
  Segment TiledProduct(std::int64_t node, const RowCut& rows) const;
  Segment JoinTiles(Segment segment);
  double UsOf(const Segment& segment);
  Segment InUpdates(std::int64_t node) const;
  std::int64_t EndOfProduct(std::int64_t node) const;
  bool IsSpread(std::int64_t node, const RowCut& rows) const;
  std::optional<Segment> Spread(std::int64_t node, const RowCut& rows);
  std::optional<Segment> Longest(std::int64_t first, const RowCut& rows);
  std::optional<Segment> Alone(std::int64_t node, const RowCut& rows);
  std::optional<Segment> ByColumns(Segment segment);
  std::optional<Segment> ByClasses(Segment segment);
  std::optional<Segment> InPhases(Segment segment);
  std::optional<Segment> BySquares(Segment segment);
  bool Refine();
  std::optional<std::vector<Segment>> Finer(int at);
  void Commit(const Segment& segment);
  void Restart(const std::vector<Segment>& segments);

  const CutRequest& request_;
  const LoweredGraph& graph_;
  const GraphCuts& cuts_;
  const std::vector<TiledWork>& by_tiles_;
  const AttentionSpread spread_;
  const bool train_;
  const Pass pass_;
  std::vector<Segment> segments_;
  ValueGrid grid_;  // of segments_
  const PassContext context_;
  std::vector<std::int64_t> tiles_;  // of each parameter, their number
  std::vector<SegmentCost> costs_;   // of segments_, once refined
  std::uint64_t need_bytes_ = 0;
  int replaced_ = -1;  // the segment that Fits replaces by others; -1: it appends them
};

}  // namespace acan
