#define ACAN_ISA_TABLE kAvx512Table
#include "isa_unit.h"
