#include "device_words.h"

#include "ring_256.cu"
#include "ring_register.h"
