#define ACAN_ISA_TABLE kPortableTable
#include "isa/isa_unit.h"
