# The build graph is the architecture. A folder is one target, and a target says what it may see:
#
#   kernels      nothing of the project
#   protos       nothing of the project
#   common       common
#   services/X   kernels, protos, common, services/X itself (never services/Y)
#
# tercet_library refuses a dependency that breaks this, at configure time.

function(_tercet_layer target out)
  get_target_property(layer ${target} TERCET_LAYER)
  if(NOT layer)
    set(layer "external")
  endif()
  set(${out} ${layer} PARENT_SCOPE)
endfunction()

function(_tercet_check_layering target layer)
  foreach(dependency ${ARGN})
    if(NOT TARGET ${dependency})
      continue()
    endif()
    _tercet_layer(${dependency} theirs)
    if(theirs STREQUAL "external")
      continue()
    endif()
    set(allowed FALSE)
    if(layer STREQUAL "common" AND theirs STREQUAL "common")
      set(allowed TRUE)
    elseif(layer MATCHES "^services/" AND (theirs MATCHES "^(kernels|protos|common)$" OR theirs STREQUAL layer))
      set(allowed TRUE)
    elseif(layer STREQUAL "kernels" AND theirs STREQUAL "kernels")
      set(allowed TRUE)
    endif()
    if(NOT allowed)
      message(FATAL_ERROR "layering: ${target} (${layer}) may not depend on ${dependency} (${theirs})")
    endif()
  endforeach()
endfunction()

# The layer of the calling folder: "kernels", "common", "protos", "services/executor", …
function(_tercet_layer_of_folder out)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX MATCH "^(services/[^/]+|[^/]+)" layer ${folder})
  set(${out} ${layer} PARENT_SCOPE)
endfunction()

# tercet_library(name SOURCES a.cc … PUBLIC dep … PRIVATE dep …)
function(tercet_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  _tercet_layer_of_folder(layer)
  _tercet_check_layering(${name} ${layer} ${ARG_PUBLIC} ${ARG_PRIVATE})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES TERCET_LAYER ${layer})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# tercet_program(tercet-executor SOURCES main.cc LINK dep …)
function(tercet_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  _tercet_layer_of_folder(layer)
  _tercet_check_layering(${name} ${layer} ${ARG_LINK})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  install(TARGETS ${name} RUNTIME)
endfunction()

# tercet_test(name SOURCES a_test.cc … LINK dep … [LABELS l …]): one GoogleTest program, one ctest entry.
function(tercet_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "TERCET_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
endfunction()

# tercet_benchmark(name SOURCES a_bench.cc … LINK dep …): one Google Benchmark program.
function(tercet_benchmark name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} benchmark::benchmark_main)
endfunction()
