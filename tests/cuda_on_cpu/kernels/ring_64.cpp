#include "device_words.h"

#include "ring_64.cu"
#include "ring_register.h"
