#include "device_words.h"

#include "ring_32.cu"
#include "ring_register.h"
