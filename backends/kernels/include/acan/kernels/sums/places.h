/* Sums down columns by the threads of a GPU's block. Its prelude defines ACAN_COLUMN_PLACES, the
 * number of places that a block sums side by side (a power of two), ACAN_COLUMN_PLACE, the one of
 * this thread, ACAN_COLUMNS, the number of columns of a block, and ACAN_COLUMN, the one of this
 * thread. All threads of a block call these functions together. Other devices sum a column with one
 * thread.
 *
 * The leaves of row groups have places in one aligned tree, as if the number of leaves in each
 * group were a power of two. The places that a group lacks come after its others, so they are only
 * ever a missing right child:
 *
 *   groups of 3 leaves    place  0   1   2   -  |  4   5   6   -  |  8   9
 *                                 \ /    |         \ /    |         \ /
 *                                  +-----+          +-----+          |
 *                                      +---------------+             |
 *                                              +---------------------+ */
#ifndef ACAN_KERNELS_PLACES_H
#define ACAN_KERNELS_PLACES_H

#if ACAN_COLUMN_IS_SHARED

typedef struct {
  acan_i64 rows;
  acan_i64 block;
  acan_i64 group;  /* rows of a group */
  int group_bits;  /* a group has 2^group_bits places */
  acan_i64 places; /* up to the last leaf */
} acan_places;

ACAN_FN acan_places acan_places_of(acan_i64 rows, acan_i64 block, acan_i64 group) {
  const acan_i64 last = rows - (rows - 1) % group - 1; /* the first row of the last group */
  acan_places p;
  acan_i64 covered;
  p.rows = rows;
  p.block = block;
  p.group = group;
  p.group_bits = 0;
  for (covered = block; covered < group; covered *= 2) ++p.group_bits;
  p.places = (last / group << p.group_bits) + (rows - 1 - last) / block + 1;
  return p;
}

/* The rows of a leaf; none where a place has no leaf. */
typedef struct {
  acan_i64 begin;
  acan_i64 end;
} acan_leaf_rows;

ACAN_FN acan_leaf_rows acan_rows_at(const acan_places* p, acan_i64 place) {
  const acan_i64 group = place >> p->group_bits;
  const acan_i64 first = group * p->group;
  const acan_i64 last = acan_leaf_end(first, p->group, p->rows);
  acan_leaf_rows leaf;
  leaf.begin = first + (place - (group << p->group_bits)) * p->block;
  leaf.end = leaf.begin < last ? acan_leaf_end(leaf.begin, p->block, last) : leaf.begin;
  return leaf;
}

ACAN_FN int acan_is_place(const acan_places* p, acan_i64 place) {
  const acan_leaf_rows leaf = acan_rows_at(p, place);
  return leaf.begin < leaf.end;
}

/* A block sums ACAN_COLUMN_PLACES places at a turn. The first place of the turn after the one at
 * `first`, or a place after the last one. Where a turn would begin with a place that has no leaf,
 * the group has no more leaves, and the next turn begins with the next group. */
ACAN_FN acan_i64 acan_next_turn(const acan_places* p, acan_i64 first) {
  const acan_i64 next = first + ACAN_COLUMN_PLACES;
  const acan_i64 next_group = ((next >> p->group_bits) + 1) << p->group_bits;
  return next < p->places && !acan_is_place(p, next) ? next_group : next;
}

/* The nodes that wait for their right siblings. The prelude defines ACAN_OPEN_COLUMNS, the number
 * of columns that share an ACAN_TREE_VARIABLE, and ACAN_OPEN_COLUMN, the one of this thread. A
 * block that takes more than one turn may have only so many columns, if they share one. */
typedef struct {
  float* nodes;      /* [ACAN_TREE_LEVELS][ACAN_OPEN_COLUMNS] */
  acan_i32* numbers; /* the same; the turn of each node's last leaf */
  int depth;
} acan_open_nodes;

#define ACAN_OPEN_WORDS (ACAN_TREE_LEVELS * ACAN_OPEN_COLUMNS)

ACAN_FN acan_open_nodes acan_no_nodes(float* nodes, acan_i32* numbers) {
  acan_open_nodes open;
  open.nodes = nodes;
  open.numbers = numbers;
  open.depth = 0;
  return open;
}

/* By the threads of place 0: pushes the node of turn `number`. Two neighbours are added as soon as
 * the next turn is outside of the smallest node that has both. The highest bit in which two numbers
 * differ is the level of the node that holds both. */
ACAN_FN void acan_open_push(acan_open_nodes* open, acan_i32 number, float node) {
  float* nodes = open->nodes + ACAN_OPEN_COLUMN;
  acan_i32* numbers = open->numbers + ACAN_OPEN_COLUMN;
  int top = open->depth - 1;
  for (; top > 0 && (numbers[(top - 1) * ACAN_OPEN_COLUMNS] ^ numbers[top * ACAN_OPEN_COLUMNS]) <
                        (numbers[top * ACAN_OPEN_COLUMNS] ^ number);
       --top) {
    nodes[(top - 1) * ACAN_OPEN_COLUMNS] =
        nodes[(top - 1) * ACAN_OPEN_COLUMNS] + nodes[top * ACAN_OPEN_COLUMNS];
    numbers[(top - 1) * ACAN_OPEN_COLUMNS] = numbers[top * ACAN_OPEN_COLUMNS];
  }
  ++top;
  nodes[top * ACAN_OPEN_COLUMNS] = node;
  numbers[top * ACAN_OPEN_COLUMNS] = number;
  open->depth = top + 1;
}

ACAN_FN float acan_open_total(const acan_open_nodes* open) {
  const float* nodes = open->nodes + ACAN_OPEN_COLUMN;
  int top = open->depth - 1;
  float sum = nodes[top * ACAN_OPEN_COLUMNS];
  while (--top >= 0) sum = nodes[top * ACAN_OPEN_COLUMNS] + sum;
  return sum;
}

/* The node of the places from `first` on, whose leaves the block's threads have summed. Only the
 * threads of place 0 get it. */
ACAN_FN float acan_node_of_places(const acan_args* a, const acan_places* p, acan_i64 first,
                                  float sum) {
  ACAN_SHARED_ARRAY(a, float, sums, ACAN_MOST_COLUMN_THREADS,
                    ACAN_AT_PLACES(ACAN_COLUMNS * ACAN_COLUMN_PLACES));
  ACAN_LOCAL float* own = sums + ACAN_COLUMN_PLACE * ACAN_COLUMNS + ACAN_COLUMN;
  int width;
  *own = sum;
  ACAN_BARRIER();
  for (width = 1; width < ACAN_COLUMN_PLACES; width *= 2) {
    if ((ACAN_COLUMN_PLACE % (2 * width) == 0) &&
        acan_is_place(p, first + ACAN_COLUMN_PLACE + width)) {
      *own = *own + own[width * ACAN_COLUMNS];
    }
    ACAN_BARRIER();
  }
  return *own;
}

/* Pushes the sums of the places from `first` on, of which each thread has one. The turn has
 * leaves. */
ACAN_FN void acan_push_places(const acan_args* a, acan_open_nodes* open, const acan_places* p,
                              acan_i64 first, float sum) {
  const float node = acan_node_of_places(a, p, first, sum);
  if (ACAN_COLUMN_PLACE != 0) return;
  acan_open_push(open, (acan_i32)(first / ACAN_COLUMN_PLACES), node);
}

#endif /* ACAN_COLUMN_IS_SHARED */

#endif /* ACAN_KERNELS_PLACES_H */
