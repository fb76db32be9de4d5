#include "device_words.h"

#include "ring_128.cu"
#include "ring_register.h"
