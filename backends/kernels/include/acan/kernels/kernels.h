/* All kernels, once, for every backend. A backend's prelude defines ACAN_FN (function qualifiers),
 * ACAN_GLOBAL (address space of operands), ACAN_FMA, ACAN_DIV, ACAN_SQRT (correctly rounded),
 * ACAN_AS_U32, ACAN_AS_F32 (bit casts), acan_i32, acan_i64, ACAN_COLUMN_LANES (the most columns one
 * call of a column kernel takes), ACAN_INDEPENDENT (the iterations of the next loop do not depend
 * on each other, even where an output is an operand's own matrix) and ACAN_LANE_LOOP (the next loop
 * is worth vectorising). It then includes this file and wraps each row of
 * acan/core/operators/operators.inc. */
#ifndef ACAN_KERNELS_KERNELS_H
#define ACAN_KERNELS_KERNELS_H

#include "acan/core/operators/kernel_constants.h"
#include "acan/core/philox.h"
#include "acan/kernels/math.h"

#include "acan/kernels/args.h"

#include "acan/kernels/elementwise.h"

#include "acan/kernels/sums/shared_words.h"

#include "acan/kernels/sums/lanes.h"

#include "acan/kernels/reductions.h"

#include "acan/kernels/sums/places.h"

#include "acan/kernels/sums/row_groups.h"

#include "acan/kernels/global_pooling.h"

#include "acan/kernels/norms.h"

#include "acan/kernels/sums/group_lanes.h"

#include "acan/kernels/group_norm.h"

#include "acan/kernels/group_norm_gradient.h"
#include "acan/kernels/tables.h"

#include "acan/kernels/classes.h"
#include "acan/kernels/dropout.h"
#include "acan/kernels/images.h"
#include "acan/kernels/normal.h"

#include "acan/kernels/depthwise.h"

#include "acan/kernels/attention.h"

#include "acan/kernels/attention_gradient.h"

#endif /* ACAN_KERNELS_KERNELS_H */
