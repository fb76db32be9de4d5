#include "device_words.h"

#include "gemm_64.cu"
#include "register_gemm.h"
