#include "device_words.h"

#include "ring_128_wide.cu"
#include "ring_register.h"
