#define ACAN_ISA_TABLE kAvx2Table
#include "isa_unit.h"
