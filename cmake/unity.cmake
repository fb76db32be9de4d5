# Unity builds. For each source, the compiler spends one to three seconds on headers and their
# templates before it reaches the source's own code. So a target's sources are compiled in groups:
# each group is one source that includes up to ACAN_UNITY_BYTES of them. Every source still includes
# what it uses and also builds with this option off, which is better for work on a few sources.
option(ACAN_UNITY "Compile the sources of each target in groups" OFF)
set(ACAN_UNITY_BYTES 120000 CACHE STRING "The size of a group of sources that are compiled together")
mark_as_advanced(ACAN_UNITY_BYTES)
if(ACAN_UNITY)
  # The warning is meant for headers that give each including source a different type. In a group,
  # gcc also gives it for classes with members of types from their source's anonymous namespace.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endif()

# acan_unity_apart(TARGET SOURCES...): compiles these sources together but apart from TARGET's other
# sources. The variable acan_unity_apart is the name of their object in a unity build, without ".o".
function(acan_unity_apart target)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP apart)
endfunction()
set(acan_unity_apart unity_apart_cxx.cxx)

# The sources of TARGET that may share a compilation: not those with their own flags or without the
# precompiled header, nor those that already have a group.
function(acan_unity_sources target variable)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  set(chosen "")
  foreach(source ${sources})
    if(NOT source MATCHES "^[^$]*\\.cpp$")
      continue()
    endif()
    get_filename_component(path ${source} ABSOLUTE BASE_DIR ${folder})
    set(alone "")
    foreach(property UNITY_GROUP SKIP_PRECOMPILE_HEADERS COMPILE_OPTIONS COMPILE_DEFINITIONS GENERATED)
      get_source_file_property(value ${path} TARGET_DIRECTORY ${target} ${property})
      if(value)
        set(alone ${property})
      endif()
    endforeach()
    if(alone STREQUAL "")
      list(APPEND chosen ${path})
    elseif(NOT alone STREQUAL "UNITY_GROUP")
      set_property(SOURCE ${path} TARGET_DIRECTORY ${target} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set(${variable} ${chosen} PARENT_SCOPE)
endfunction()

# Divides TARGET's sources into groups of about the same size: at most ACAN_UNITY_BYTES, or the
# value of TARGET's property of this name.
function(acan_unite target)
  acan_unity_sources(${target} sources)
  set(total 0)
  foreach(source ${sources})
    file(SIZE ${source} bytes)
    math(EXPR total "${total} + ${bytes}")
  endforeach()
  get_target_property(most ${target} ACAN_UNITY_BYTES)
  if(NOT most)
    set(most ${ACAN_UNITY_BYTES})
  endif()
  math(EXPR groups "${total} / ${most} + 1")
  set(before 0)
  foreach(source ${sources})
    math(EXPR group "${before} * ${groups} / ${total}")
    file(SIZE ${source} bytes)
    math(EXPR before "${before} + ${bytes}")
    set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# acan_unite_folder(FOLDER): calls acan_unite for all targets of a folder and its subfolders.
function(acan_unite_folder folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type STREQUAL "INTERFACE_LIBRARY")
      acan_unite(${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(each ${folders})
    acan_unite_folder(${each})
  endforeach()
endfunction()
