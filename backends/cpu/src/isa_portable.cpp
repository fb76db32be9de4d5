#define ACAN_ISA_TABLE kPortableTable
#include "isa_unit.h"
