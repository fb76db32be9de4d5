# Flags that make memory errors in acan or its dependencies harder to exploit. docs/decisions.md
# states the cost of each. Sanitizers have checks of their own and intercept the functions that
# FORTIFY replaces.
option(ACAN_HARDENING "Harden the programs: FORTIFY, stack protector, PIE, full RELRO" ON)
if(NOT ACAN_HARDENING OR ACAN_SANITIZE)
  message(STATUS "Hardening: OFF")
  return()
endif()

include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # without it CMake compiles with -fPIE and links without -pie

# Level 3 also checks sizes that are computed at run time. It needs gcc 12 or clang 9 and glibc
# 2.34, and acts like level 2 with an older glibc. Without -O, it does nothing but warn.
set(fortify 3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(fortify 2)
endif()
add_compile_options(
  "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${fortify}>")

set(hardening_flags "")
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "ACAN_HAS${flag}" known)
  check_cxx_compiler_flag(${flag} ${known})
  if(${known})
    list(APPEND hardening_flags ${flag})
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${flag}>")
  endif()
endforeach()

# The addresses of all functions are resolved at startup and become read-only.
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
message(STATUS "Hardening: FORTIFY ${fortify}, ${hardening_flags}, PIE, full RELRO")
