# What `cmake --install` puts beside the program and its modules: the license, the examples, and the
# files of deploy/, in which the paths of the program are those of this installation.
include(GNUInstallDirs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/tuplespace COMPONENT tuplespace)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(PROGRAMS deploy/acan.sbatch DESTINATION ${CMAKE_INSTALL_DOCDIR})

# At installation, because `cmake --install --prefix` may name another folder than the configuration
# did. /usr/lib and /usr/local/lib are among the folders that systemd reads.
install(CODE "set(source [[${PROJECT_SOURCE_DIR}/deploy]])
set(binary [[${PROJECT_BINARY_DIR}/deploy]])
set(programs [[${CMAKE_INSTALL_BINDIR}]])")
install(CODE [[
  get_filename_component(prefix "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
  get_filename_component(programs "${programs}" ABSOLUTE BASE_DIR "${prefix}")
  foreach(unit acan-broker acan-handler@ acan-manager@)
    file(READ "${source}/${unit}.service" text)
    string(REPLACE "/usr/local/bin/acan" "${programs}/acan" text "${text}")
    file(WRITE "${binary}/${unit}.service" "${text}")
    file(INSTALL "${binary}/${unit}.service" DESTINATION "${prefix}/lib/systemd/system")
  endforeach()
]])
