# cmake -DPROGRAM=FILE -P unknown_bug.cmake: checks that cuda_programs refuses a bug that it does
# not know, and names those that it knows.
execute_process(COMMAND ${PROGRAM} --plant SlotIsNotAwaitd
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
if(NOT code EQUAL 2 OR NOT output MATCHES "\"SlotIsNotAwaitd\" is not a bug"
    OR NOT output MATCHES " SlotIsNotAwaited,")
  message(FATAL_ERROR "cuda_programs ended with ${code}, must be 2, and said:\n${output}")
endif()
