# Tests the function of FILE, cmake/cuda_architectures.cmake, which needs no nvcc.
cmake_minimum_required(VERSION 3.25)
include(${FILE})

function(expect wanted known expected)
  string(REPLACE " " "\n" listed "${known}\n")
  acan_cuda_architectures(architectures "${wanted}" "${listed}")
  if(NOT architectures STREQUAL expected)
    message(SEND_ERROR "${wanted} with an nvcc that knows ${known}: ${architectures}, not ${expected}")
  endif()
endfunction()

set(cuda_12_0 "compute_50 compute_75 compute_80 compute_86 compute_89 compute_90 compute_90a")
set(cuda_12_8 "${cuda_12_0} compute_100 compute_101 compute_120")
set(cuda_13_0 "compute_75 compute_80 compute_86 compute_90 compute_110 compute_103 compute_120")
set(all "75-real;80-real;86-real;90-real;100-real;120")
expect("${all}" "${cuda_12_0}" "75-real;80-real;86-real;90")
expect("${all}" "${cuda_12_8}" "${all}")
expect("90-real" "${cuda_12_0}" "90")
expect("90a-real;75" "${cuda_12_0}" "75;90a")
# GPUs that are newer than nvcc run the PTX of an older architecture.
expect("120-real" "${cuda_12_0}" "90")
expect("103-real" "${cuda_12_8}" "101")
expect("75-real;130-real" "${cuda_13_0}" "75-real;120")
expect("120-real;130-real" "${cuda_13_0}" "120")
# Nothing stands for a GPU that is older than all that nvcc knows, or if there is no nvcc.
expect("70-real" "${cuda_13_0}" "")
expect("60-real" "${cuda_12_0}" "")
expect("${all}" "" "")

# It refuses words that it does not understand. A new process, because a FATAL_ERROR ends it.
if(NOT DEFINED WORD)
  foreach(word native all-major sm_90)
    execute_process(COMMAND ${CMAKE_COMMAND} -DFILE=${FILE} -DWORD=${word}
        -P ${CMAKE_CURRENT_LIST_FILE} RESULT_VARIABLE failed ERROR_VARIABLE problem OUTPUT_QUIET)
    if(failed EQUAL 0 OR NOT problem MATCHES "ACAN_CUDA_ARCHITECTURES has '${word}'")
      message(SEND_ERROR "${word} is not refused (${failed}): ${problem}")
    endif()
  endforeach()
else()
  acan_cuda_architectures(architectures "75-real;${WORD}" "compute_75\n")
endif()
