/* Sums over a sample's group of channels by the threads of a GPU's block. The group's elements are
 * one row in the order (position, channel), whose leaves have lanes as in lanes.h. Other devices
 * sum a group with one thread (group_norm.h). */
#ifndef ACAN_KERNELS_GROUP_LANES_H
#define ACAN_KERNELS_GROUP_LANES_H

#if ACAN_ROW_IS_SHARED

/* Element e is in row first_row + e / width, column first_column + e % width of a matrix. */
typedef struct {
  acan_i64 first_row;
  acan_i64 first_column;
  acan_i64 width;
  acan_i64 count;
} acan_group;

/* The row and the column of an element, relative to the first ones; or the distance between two
 * elements. */
typedef struct {
  acan_i64 row;
  acan_i64 column;
} acan_group_place;

ACAN_FN acan_group_place acan_group_place_of(const acan_group* g, acan_i64 element) {
  acan_group_place place;
  place.row = element / g->width;
  place.column = element % g->width;
  return place;
}

/* Threads step from element to element, since a division for each would take longer than the
 * sum. */
ACAN_FN acan_group_place acan_group_behind(const acan_group* g, acan_group_place at,
                                           acan_group_place by) {
  at.row += by.row;
  at.column += by.column;
  if (at.column >= g->width) {
    at.column -= g->width;
    ++at.row;
  }
  return at;
}

ACAN_FN float acan_group_load(const acan_matrix* m, const acan_group* g, acan_group_place at) {
  return acan_load(m, g->first_row + at.row, g->first_column + at.column);
}

#define ACAN_LANE_ELEMENTS (ACAN_LANE_LEAF / ACAN_LANES)

/* The position of this thread's lane in the leaf of its turn. */
typedef struct {
  acan_group_place at;      /* the first of its elements */
  acan_group_place by_lane; /* from one of them to the next */
  acan_group_place by_turn; /* to the first one in the leaf of the next turn */
} acan_group_walk;

ACAN_FN acan_group_walk acan_begin_walk(const acan_group* g) {
  const acan_i64 leaf = ACAN_ROW_THREAD / ACAN_LANES;
  acan_group_walk walk;
  walk.at = acan_group_place_of(g, leaf * ACAN_LANE_LEAF + ACAN_ROW_THREAD % ACAN_LANES);
  walk.by_lane = acan_group_place_of(g, ACAN_LANES);
  walk.by_turn = acan_group_place_of(g, (acan_i64)ACAN_ROW_LEAVES * ACAN_LANE_LEAF);
  return walk;
}

/* The places of the lane's elements, some of which may be beyond the group's last element. */
ACAN_FN void acan_lane_places(const acan_group* g, const acan_group_walk* walk,
                              acan_group_place* places) {
  int t;
  places[0] = walk->at;
  ACAN_UNROLL for (t = 1; t < ACAN_LANE_ELEMENTS; ++t) {
    places[t] = acan_group_behind(g, places[t - 1], walk->by_lane);
  }
}

/* By a row's threads: the sum over the group of x - minus, or of its squares, x being operand 2;
 * all threads get the result. `squares` is a constant. */
ACAN_FN float acan_group_sum(const acan_args* a, const acan_group* g, float minus, int squares) {
  ACAN_TREE_VARIABLE float levels[ACAN_TREE_LEVELS];
  const acan_i64 leaves = acan_leaves_of(g->count);
  acan_group_walk walk = acan_begin_walk(g);
  acan_i64 first;
  int t;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place lane = acan_place_of_thread(first, g->count);
    acan_group_place places[ACAN_LANE_ELEMENTS];
    float sum = 0.0f;
    acan_lane_places(g, &walk, places);
    ACAN_UNROLL for (t = 0; t < ACAN_LANE_ELEMENTS; ++t) {
      const int there = t * ACAN_LANES + lane.lane < lane.n;
      const float d = there ? acan_group_load(&a->m[2], g, places[t]) - minus : 0.0f;
      sum = squares ? ACAN_FMA(d, d, sum) : sum + d;
    }
    acan_push_lanes(a, sum, first, leaves, levels);
    walk.at = acan_group_behind(g, walk.at, walk.by_turn);
  }
  return acan_share_lanes(a, levels, leaves);
}

#endif /* ACAN_ROW_IS_SHARED */

#endif /* ACAN_KERNELS_GROUP_LANES_H */
