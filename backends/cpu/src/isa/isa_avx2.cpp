#define ACAN_ISA_TABLE kAvx2Table
#include "isa/isa_unit.h"
