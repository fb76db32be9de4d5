# All dependencies come from system packages (Debian names in scripts/setup.sh).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
pkg_check_modules(ZeroMQ REQUIRED IMPORTED_TARGET libzmq>=4.3)
pkg_check_modules(Zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(OpenBLAS REQUIRED openblas)  # the header only; the library is loaded at run time
find_path(CPPZMQ_INCLUDE_DIR zmq_addon.hpp REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
# For programs: an allocator that is faster for small blocks, if installed. Sanitizers have their
# own.
find_library(JEMALLOC_LIBRARY jemalloc)
set(ACAN_ALLOCATOR "")
if(JEMALLOC_LIBRARY AND NOT ACAN_SANITIZE)
  set(ACAN_ALLOCATOR ${JEMALLOC_LIBRARY})
endif()
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
find_program(FLATC flatc REQUIRED)
if(ACAN_TESTS)
  find_package(GTest REQUIRED)
endif()

# acan_flatbuffers(TARGET schema.fbs): generates <name>_generated.h and puts it on TARGET's include path.
function(acan_flatbuffers target schema)
  get_filename_component(name ${schema} NAME_WE)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/generated)
  add_custom_command(
    OUTPUT ${out}/${name}_generated.h
    COMMAND ${FLATC} --cpp --scoped-enums -o ${out} ${CMAKE_CURRENT_SOURCE_DIR}/${schema}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${schema})
  target_sources(${target} PRIVATE ${out}/${name}_generated.h)
  target_include_directories(${target} PRIVATE ${out})
  target_include_directories(${target} SYSTEM PRIVATE ${FLATBUFFERS_INCLUDE_DIR})
endfunction()

# Device modules: those that are requested and can be built. ACAN_BUILD_OPENCL tells whether OpenCL
# is.
set(ACAN_BUILD_OPENCL OFF)
if(NOT ACAN_OPENCL STREQUAL "OFF")
  if(ACAN_OPENCL STREQUAL "AUTO")
    find_package(OpenCL 1.2 QUIET)
  else()
    find_package(OpenCL 1.2 REQUIRED)
  endif()
  set(ACAN_BUILD_OPENCL ${OpenCL_FOUND})
  find_library(CLBLAST_LIBRARY clblast)
  find_path(CLBLAST_INCLUDE_DIR clblast.h)
  message(STATUS "OpenCL module: ${ACAN_BUILD_OPENCL}; CLBlast: ${CLBLAST_LIBRARY}")
endif()

# ACAN_BUILD_ONEDNN: only its headers are needed; the library is loaded at run time.
set(ACAN_BUILD_ONEDNN OFF)
if(NOT ACAN_ONEDNN STREQUAL "OFF")
  find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
  if(ONEDNN_INCLUDE_DIR)
    set(ACAN_BUILD_ONEDNN ON)
  elseif(ACAN_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "ACAN_ONEDNN=ON, but oneapi/dnnl/dnnl.h was not found (Debian: libdnnl-dev)")
  endif()
endif()
message(STATUS "oneDNN for fast products on CPUs: ${ACAN_BUILD_ONEDNN}")

# ACAN_BUILD_SENTENCEPIECE: this library is linked. Not pkg-config: Debian 13's file names a package
# that need not be installed.
set(ACAN_BUILD_SENTENCEPIECE OFF)
if(NOT ACAN_SENTENCEPIECE STREQUAL "OFF")
  find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
  find_library(SENTENCEPIECE_LIBRARY sentencepiece)
  find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)  # for the tests
  if(SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY)
    set(ACAN_BUILD_SENTENCEPIECE ON)
    add_library(acan_sentencepiece INTERFACE)
    target_include_directories(acan_sentencepiece SYSTEM INTERFACE ${SENTENCEPIECE_INCLUDE_DIR})
    target_link_libraries(acan_sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY})
  elseif(ACAN_SENTENCEPIECE STREQUAL "ON")
    message(FATAL_ERROR "ACAN_SENTENCEPIECE=ON, but it was not found (Debian: libsentencepiece-dev)")
  endif()
endif()
message(STATUS "SentencePiece models of tokens: ${ACAN_BUILD_SENTENCEPIECE}")

# ACAN_BUILD_CUDA: needs nvcc, CUDA's runtime and cuBLAS' header; the cuBLAS library is loaded at
# run time.
set(ACAN_BUILD_CUDA OFF)
if(NOT ACAN_CUDA STREQUAL "OFF")
  include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()
