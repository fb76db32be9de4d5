# Reads PROGRAM and MODULES with READELF, and fails if a measure of cmake/hardening.cmake is
# missing. FORTIFIED: built with -O, which FORTIFY needs.
set(missing "")
macro(expect text pattern what)
  if(NOT "${${text}}" MATCHES "${pattern}")
    string(APPEND missing "  ${file}: ${what}\n")
  endif()
endmacro()

function(read_elf variable)
  execute_process(COMMAND ${READELF} -W ${ARGN} ${file} OUTPUT_VARIABLE text ERROR_VARIABLE problem
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${READELF} -W ${ARGN} ${file}: ${problem}")
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

foreach(file ${MODULES} ${PROGRAM})
  read_elf(header -h)
  read_elf(segments -l)
  read_elf(dynamic -d)
  read_elf(symbols --dyn-syms)
  expect(header "Type: +DYN" "is not position independent")
  expect(segments "GNU_RELRO" "has no RELRO segment (-z relro)")
  expect(dynamic "Flags:[^\n]* NOW|BIND_NOW" "looks functions up late, so RELRO is not full (-z now)")
  expect(segments "GNU_STACK +[x0-9a-f ]+ RW +0" "may run code on its stack (-z noexecstack)")
  expect(symbols "__stack_chk_fail" "has no stack protector (-fstack-protector-strong)")
endforeach()

set(file ${PROGRAM})  # the last one read above; modules may have no call that FORTIFY checks
expect(dynamic "Flags:[^\n]* PIE" "is no position independent program (-pie)")
expect(symbols "__assert_fail" "has no assertions (it was built with -DNDEBUG)")
if(FORTIFIED)
  expect(symbols "__(memcpy|read|poll|vsnprintf|snprintf|fread|memset|realpath|fdelt|memmove)_chk"
    "calls nothing that FORTIFY checks (-D_FORTIFY_SOURCE)")
endif()
if(NOT missing STREQUAL "")
  message(FATAL_ERROR "not hardened:\n${missing}")
endif()
