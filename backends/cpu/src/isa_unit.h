// The body of one instruction set's unit, which defines ACAN_ISA_TABLE and includes this.
#include "isa.h"
#include "prelude.h"

namespace acan::cpu {
namespace {

#include "gemm_inline.h"
#include "launch_inline.h"

}  // namespace

const IsaTable ACAN_ISA_TABLE = {&Launch, &Gemm};

}  // namespace acan::cpu
