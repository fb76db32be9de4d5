# Installs what cmake/install.cmake adds to the program from BUILD into WORK, and checks it.
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${WORK} -DCMAKE_INSTALL_LOCAL_ONLY=1
    -DCMAKE_INSTALL_COMPONENT=Unspecified -P ${BUILD}/cmake_install.cmake
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "the installation ended with ${failed}:\n${output}")
endif()
foreach(file LICENSE acan.sbatch examples/regression.toml)
  if(NOT EXISTS ${WORK}/${DOCUMENTS}/${file})
    message(SEND_ERROR "${DOCUMENTS}/${file} is not installed:\n${output}")
  endif()
endforeach()
foreach(unit acan-broker acan-handler@ acan-manager@)
  file(STRINGS ${WORK}/lib/systemd/system/${unit}.service start REGEX "^ExecStart=")
  string(FIND "${start}" "ExecStart=${WORK}/${PROGRAMS}/acan " at)
  if(NOT at EQUAL 0)
    message(SEND_ERROR "${unit}.service does not start the installed program: '${start}'")
  endif()
endforeach()
