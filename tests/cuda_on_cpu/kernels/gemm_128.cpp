#include "device_words.h"

#include "gemm_128.cu"
#include "register_gemm.h"
