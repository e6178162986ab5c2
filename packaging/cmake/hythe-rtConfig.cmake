# The library for programs on RTOS cores, as sources, which are compiled with the program's own flags:
#   find_package(hythe-rt)
#   target_link_libraries(firmware PRIVATE hythe::rt hythe::rt-bare)
# `hythe::rt` is the library; a program takes one port with it: `hythe::rt-bare` (no operating
# system), `hythe::rt-freertos` (brings no kernel along) or `hythe::rt-posix` (a process of Linux).
# Sets hythe-rt_SOURCES, the folder. Never chooses a compiler, or flags.

get_filename_component(hythe-rt_SOURCES "${CMAKE_CURRENT_LIST_DIR}/../../hythe/rtos" ABSOLUTE)

if(NOT TARGET hythe::rt)
  function(hythe_rt_target name folder includes)
    file(GLOB sources "${hythe-rt_SOURCES}/${folder}/*.c")
    list(FILTER sources EXCLUDE REGEX "${ARGN}")
    list(TRANSFORM includes PREPEND "${hythe-rt_SOURCES}/")
    add_library(${name} INTERFACE IMPORTED)
    set_target_properties(${name} PROPERTIES
      INTERFACE_SOURCES "${sources}" INTERFACE_INCLUDE_DIRECTORIES "${includes}")
  endfunction()
  hythe_rt_target(hythe::rt src "include;port" "^$")
  hythe_rt_target(hythe::rt-bare port/bare "port/bare" "^$")
  hythe_rt_target(hythe::rt-posix port/posix "port/posix" "^$")
  # Restricted tasks need a kernel with memory protection; such a program adds these files itself.
  hythe_rt_target(hythe::rt-freertos port/freertos "port/freertos"
    "hythe_(gate|gate_client|freertos_mpu|freertos_fault)\\.c$")
endif()
