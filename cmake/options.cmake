# Options and flags shared by every target.
option(ACAN_TESTS "Build the tests" ON)
option(ACAN_BENCH "Build the benchmarks" ON)
option(ACAN_WERROR "Treat warnings as errors" OFF)
foreach(backend OPENCL CUDA)
  set(ACAN_${backend} AUTO CACHE STRING "Build the ${backend} module: AUTO (if its parts are found), ON, OFF")
  set_property(CACHE ACAN_${backend} PROPERTY STRINGS AUTO ON OFF)
endforeach()
set(ACAN_ONEDNN AUTO CACHE STRING "Use oneDNN on CPUs where it is installed: AUTO (if its headers are found), ON, OFF")
set_property(CACHE ACAN_ONEDNN PROPERTY STRINGS AUTO ON OFF)
set(ACAN_SENTENCEPIECE AUTO CACHE STRING "Read SentencePiece models of tokens: AUTO (if the library is found), ON, OFF")
set_property(CACHE ACAN_SENTENCEPIECE PROPERTY STRINGS AUTO ON OFF)
foreach(part OPENCL CUDA ONEDNN SENTENCEPIECE)
  string(TOUPPER "${ACAN_${part}}" wanted)
  if(wanted MATCHES "^(1|ON|YES|TRUE|Y)$")
    set(ACAN_${part} ON)
  elseif(wanted MATCHES "^(0|OFF|NO|FALSE|N)$")
    set(ACAN_${part} OFF)
  elseif(NOT wanted STREQUAL "AUTO")
    message(FATAL_ERROR "ACAN_${part} is \"${ACAN_${part}}\"; expected AUTO, ON or OFF")
  endif()
endforeach()
set(ACAN_CUDA_ARCHITECTURES "75-real;80-real;86-real;89-real;90-real;100-real;120" CACHE STRING
    "What the CUDA module is compiled for, as CMAKE_CUDA_ARCHITECTURES in numbers; what nvcc lacks is left out")
set(ACAN_CPU_ISAS "avx2;avx512" CACHE STRING
    "Vector instructions of x86 that the CPU backend is compiled for, besides portable code")
set(ACAN_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")

option(ACAN_FUZZ "Build the fuzz targets of tests/fuzz for libFuzzer; needs clang" OFF)
if(ACAN_FUZZ)
  include(${CMAKE_CURRENT_LIST_DIR}/fuzz.cmake)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Assertions guard against our own bugs; they stay on in what users run.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")

# By default, gcc collects garbage too often, each time scanning the whole precompiled header. These
# parameters save a tenth of the time for the longest sources and use 0.1 GB more, 1.5 GB in all.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:SHELL:--param ggc-min-expand=200 --param ggc-min-heapsize=3000000>")

# acan_optimise_little(TARGETS...): for code that runs once per command, job or plan, and for tests
# that compute. Compiling it with -O2 would cost more time than it saves.
function(acan_optimise_little)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-O1>")
  endforeach()
endfunction()

# acan_do_not_optimise(TARGETS...): for tests. Without -O, FORTIFY checks nothing, so it is off.
function(acan_do_not_optimise)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-O0;-U_FORTIFY_SOURCE>")
  endforeach()
endfunction()

find_program(CCACHE_PROGRAM ccache)
include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)
if(CCACHE_PROGRAM)
  # In depend mode, ccache reads the compiler's list of headers instead of preprocessing each source
  # first.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_DEPEND=1)
  if(ACAN_PRECOMPILED_HEADERS)
    list(APPEND CMAKE_CXX_COMPILER_LAUNCHER CCACHE_SLOPPINESS=pch_defines,time_macros)
  endif()
  list(APPEND CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# Warnings and numerics for all of acan's own targets. -ffp-contract=off: fused multiply-add happens
# only where the source says fma; without it the trained bits would depend on the compiler.
# -fno-fast-math: undoes what CXXFLAGS of a site may say; clang requires it before -ffp-contract.
add_library(acan_flags INTERFACE)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wcast-align -Woverloaded-virtual
  -Wimplicit-fallthrough -fno-fast-math -ffp-contract=off
  # gcc 12 falsely reports overflows in fmt's inlined buffers.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<BOOL:${ACAN_WERROR}>:-Werror>)
target_compile_options(acan_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
target_link_libraries(acan_flags INTERFACE fmt::fmt)  # same definitions as the precompiled fmt
# Flags for nvcc's device code, and flags that it passes to the host compiler (without -Wpedantic:
# nvcc's own line directives are not standard C++).
target_compile_options(acan_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-fmad=false -ftz=false \
-prec-div=true -prec-sqrt=true -Xcompiler=-Wall,-Wextra,-Wshadow,-fno-fast-math,-ffp-contract=off\
$<$<BOOL:${ACAN_WERROR}>: -Werror=all-warnings -Xcompiler=-Werror>>")
# The linker gets CXXFLAGS, too. For -ffast-math or -funsafe-math-optimizations it would add start-up
# code that makes a process flush denormals to zero.
add_link_options("$<$<LINK_LANGUAGE:CXX>:-fno-fast-math;-fno-unsafe-math-optimizations>")
if(ACAN_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ACAN_SANITIZE};-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${ACAN_SANITIZE})
endif()
