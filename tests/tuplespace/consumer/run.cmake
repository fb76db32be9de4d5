# cmake -DBUILD=<build folder> -DSOURCE=<this folder> -DGENERATOR=<of the build> -DCOMPILER=<c++>
#     [-DFLAGS=...] -P run.cmake
# Installs the package from a build, builds the consumer against the installed package only, and
# runs it.
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    file(REMOVE_RECURSE ${WORK})
    message(FATAL_ERROR "${ARGN}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# Not in the build folder, because the path of an ipc endpoint may have at most 107 bytes.
string(RANDOM LENGTH 12 name)
set(WORK $ENV{TMPDIR})
if(WORK STREQUAL "")
  set(WORK /tmp)
endif()
string(APPEND WORK /tuplespace-consumer-${name})
file(MAKE_DIRECTORY ${WORK})
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component tuplespace)
step(${CMAKE_COMMAND} -G "${GENERATOR}" -S ${SOURCE} -B ${WORK}/build
     -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}")
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${WORK}/build/consumer ipc://${WORK}/s)
file(REMOVE_RECURSE ${WORK})
if(NOT output MATCHES "12 squared is 144")
  message(FATAL_ERROR "the consumer said: ${output}")
endif()
