# Precompiled headers. Parsing the standard library, fmt, nlohmann/json and gtest costs most sources
# more than their own code does, so a few targets compile such headers once and others reuse the
# result. Every source still includes what it uses, and builds with this option off.
option(ACAN_PRECOMPILED_HEADERS "Precompile the headers that most sources include" ON)

set(ACAN_STANDARD_HEADERS
  <algorithm> <array> <atomic> <cassert> <cerrno> <chrono> <cmath> <cstddef> <cstdint> <cstring>
  <deque> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <optional> <set> <span>
  <stdexcept> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)

# acan_precompile(TARGET HEADERS...): TARGET compiles these headers first.
function(acan_precompile target)
  if(ACAN_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# acan_reuse_precompiled(TARGET OWNER): TARGET uses the headers that OWNER precompiled. REQUIRES:
# both have the same compile options and the same definitions that those headers read; gcc rejects
# the precompiled header otherwise (-Winvalid-pch, an error with ACAN_WERROR).
function(acan_reuse_precompiled target owner)
  if(ACAN_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# acan_precompiled_program(PROGRAMS...): these programs use the headers that acan_core precompiled,
# so they are compiled like a library.
function(acan_precompiled_program)
  foreach(program ${ARGN})
    target_compile_options(${program} PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
    acan_reuse_precompiled(${program} acan_core)
  endforeach()
endfunction()

# acan_skip_precompiled(SOURCES...): these sources of this folder's targets parse their headers
# themselves, because gcc 12 gives false warnings about inlined copies of std::string
# (-Warray-bounds, -Wrestrict). It suppresses them for code in system headers, but not if these are
# precompiled.
function(acan_skip_precompiled)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

if(ACAN_PRECOMPILED_HEADERS AND CCACHE_PROGRAM)
  # ccache caches sources that use a precompiled header only if it may ignore which macros the
  # header used (pch_defines: these files define all of them) and __TIME__ (time_macros: acan uses
  # none), and only if the compiler keeps the header's name in its preprocessed output.
  add_compile_options(
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>"
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
