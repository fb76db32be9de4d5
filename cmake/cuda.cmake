# Looks for CUDA. Sets ACAN_BUILD_CUDA and, before the language is enabled, the architectures.
if(NOT CMAKE_CUDA_COMPILER AND DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER $ENV{CUDACXX})
endif()
if(NOT CMAKE_CUDA_COMPILER)
  find_program(ACAN_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin)
  find_program(ACAN_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(ACAN_NVCC)
    set(CMAKE_CUDA_COMPILER ${ACAN_NVCC})
  endif()
endif()

# Keep the architectures that this nvcc can compile for.
include(${CMAKE_CURRENT_LIST_DIR}/cuda_architectures.cmake)
set(known "")
if(CMAKE_CUDA_COMPILER)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
endif()
acan_cuda_architectures(CMAKE_CUDA_ARCHITECTURES "${ACAN_CUDA_ARCHITECTURES}" "${known}")
if(CMAKE_CUDA_COMPILER AND NOT CMAKE_CUDA_ARCHITECTURES)
  string(REPLACE "\n" " " known "${known}")
  message(STATUS "CUDA is left out: ${CMAKE_CUDA_COMPILER} does not compile for any of "
                 "${ACAN_CUDA_ARCHITECTURES}, but for: ${known}")
endif()

# Checks whether nvcc can compile the code here: it supports C++20 since CUDA 12 and refuses host
# compilers newer than those it knows. Otherwise CMake would stop with an error. ACAN_NVCC_SAYS is
# empty if it works.
if(CMAKE_CUDA_ARCHITECTURES AND NOT ACAN_NVCC_TRIED STREQUAL CMAKE_CUDA_COMPILER)
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/acan_nvcc_probe)
  file(WRITE ${probe}.cu "#include <string>\n__global__ void Probe() {}\n")
  set(host_compiler "")
  if(CMAKE_CUDA_HOST_COMPILER)
    set(host_compiler -ccbin ${CMAKE_CUDA_HOST_COMPILER})
  elseif(DEFINED ENV{CUDAHOSTCXX})
    set(host_compiler -ccbin $ENV{CUDAHOSTCXX})
  endif()
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} ${host_compiler} -std=c++20 -c ${probe}.cu -o ${probe}.o
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said_too)
  set(says "")
  if(NOT failed EQUAL 0)
    string(REGEX MATCH "[^\n]*(error|fatal|Unsupported)[^\n]*" says "${said}\n${said_too}")
    if(says STREQUAL "")
      set(says "it failed (${failed})")
    endif()
  endif()
  set(ACAN_NVCC_SAYS "${says}" CACHE INTERNAL "why nvcc cannot be used")
  if(says STREQUAL "")  # a failure is tried again: the host compiler may be another one by then
    set(ACAN_NVCC_TRIED "${CMAKE_CUDA_COMPILER}" CACHE INTERNAL "the nvcc that can be used")
  endif()
endif()
if(CMAKE_CUDA_ARCHITECTURES AND NOT ACAN_NVCC_SAYS STREQUAL "")
  string(CONCAT acan_nvcc_problem "${CMAKE_CUDA_COMPILER} does not compile C++20 here "
    "(${ACAN_NVCC_SAYS}). It takes CUDA 12.0 or later, and a host compiler that it accepts "
    "(CUDAHOSTCXX)")
  if(ACAN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ACAN_CUDA=ON, but ${acan_nvcc_problem}")
  endif()
  message(STATUS "CUDA is left out: ${acan_nvcc_problem}")
  set(CMAKE_CUDA_ARCHITECTURES "")
endif()
if(CMAKE_CUDA_COMPILER AND CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  if(CCACHE_PROGRAM)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc supports C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  # Not find_package(CUDAToolkit): in CMake 3.25 it fails for CUDA 13, which has no nvToolsExt.
  find_path(ACAN_CUDA_INCLUDE_DIR cuda_runtime_api.h
    HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  find_path(ACAN_CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  find_library(ACAN_CUDART_LIBRARY cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
  if(ACAN_CUDA_INCLUDE_DIR AND ACAN_CUBLAS_INCLUDE_DIR AND ACAN_CUDART_LIBRARY)
    set(ACAN_BUILD_CUDA ON)
    # The CUDA runtime, for code that the C++ compiler compiles.
    add_library(acan_cudart INTERFACE)
    target_include_directories(acan_cudart SYSTEM INTERFACE
      ${ACAN_CUDA_INCLUDE_DIR} ${ACAN_CUBLAS_INCLUDE_DIR})
    target_link_libraries(acan_cudart INTERFACE
      ${ACAN_CUDART_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} rt)
    get_filename_component(ACAN_CUDA_LIBRARY_FOLDER ${ACAN_CUDART_LIBRARY} DIRECTORY)
  endif()
endif()
if(ACAN_CUDA STREQUAL "ON" AND NOT ACAN_BUILD_CUDA)
  message(FATAL_ERROR "ACAN_CUDA=ON, but nvcc (${CMAKE_CUDA_COMPILER}), one of the architectures "
                      "${ACAN_CUDA_ARCHITECTURES}, cudart_static or cublas_v2.h is missing")
endif()
message(STATUS "CUDA module: ${ACAN_BUILD_CUDA}; nvcc: ${CMAKE_CUDA_COMPILER} for "
               "${CMAKE_CUDA_ARCHITECTURES}")
