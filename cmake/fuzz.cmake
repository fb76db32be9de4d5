# ACAN_FUZZ=ON: instruments everything for libFuzzer, which only clang has.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "ACAN_FUZZ=ON needs clang with libFuzzer, but the compiler is "
    "${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID}). Set -DCMAKE_CXX_COMPILER=clang++, or use "
    "scripts/fuzz.sh. Without ACAN_FUZZ every compiler builds programs that run the corpora")
endif()
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
set(CMAKE_REQUIRED_LINK_OPTIONS -fsanitize=fuzzer)
check_cxx_source_compiles("#include <cstddef>
extern \"C\" int LLVMFuzzerTestOneInput(const unsigned char*, std::size_t) { return 0; }"
  ACAN_HAS_LIBFUZZER)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(NOT ACAN_HAS_LIBFUZZER)
  unset(ACAN_HAS_LIBFUZZER CACHE)  # it may be installed before the next attempt
  message(FATAL_ERROR "ACAN_FUZZ=ON, but ${CMAKE_CXX_COMPILER} cannot link with -fsanitize=fuzzer: "
    "its runtime libraries are missing (Debian 12: libclang-rt-14-dev for clang 14)")
endif()
if(NOT ACAN_SANITIZE)
  set(ACAN_SANITIZE "address,undefined,float-cast-overflow")
endif()
# Every sanitizer report ends the run, because libFuzzer keeps the input only then.
add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-recover=all -O1)
add_compile_definitions(_GLIBCXX_ASSERTIONS)
