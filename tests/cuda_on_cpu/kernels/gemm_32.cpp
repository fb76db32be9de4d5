#include "device_words.h"

#include "gemm_32.cu"
#include "register_gemm.h"
