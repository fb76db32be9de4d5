#define ACAN_ISA_TABLE kAvx512Table
#include "isa/isa_unit.h"
