# Test programs: one per room (unit/<room>/*.cc -> unit_<room>), one shared Catch main.
enable_testing()
find_package(Catch2 2 REQUIRED)
include(Catch)

add_library(unit_main STATIC unit/catch_main.cc)
target_link_libraries(unit_main PUBLIC Catch2::Catch2)
target_include_directories(unit_main PUBLIC ${CMAKE_SOURCE_DIR})

file(GLOB builder_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/unit/build/*.cc)
if(builder_sources)
  add_library(unit_build STATIC ${builder_sources})
  target_link_libraries(unit_build PUBLIC sluice_sim PRIVATE sluice_flags)
else()
  add_library(unit_build INTERFACE)
endif()

set(SLUICE_ROOMS base resource api quota topology queueing flavor preemption admission state jobs
    webhook reconcile sim loop kube serve metrics config cli)
set(unit_programs "")
foreach(room ${SLUICE_ROOMS})
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/unit/${room}/*.cc)
  if(tests)
    add_executable(unit_${room} ${tests})
    target_link_libraries(unit_${room} PRIVATE sluice_flags sluice_${room} unit_main)
    if(room MATCHES "^(base|resource|api|preemption)$")
    else()
      target_link_libraries(unit_${room} PRIVATE unit_build)
    endif()
    # Only these read files of the checkout; its path in others would keep the compiler's cache from
    # knowing them again in another clone.
    if(room MATCHES "^(api|sim|cli)$")
      target_compile_definitions(unit_${room} PRIVATE SLUICE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    endif()
    add_test(NAME ${room} COMMAND unit_${room} --order rand --rng-seed time)
    set_tests_properties(${room} PROPERTIES TIMEOUT 600)
    list(APPEND unit_programs unit_${room})
  endif()
endforeach()

add_test(NAME build_rules COMMAND python3 ${CMAKE_SOURCE_DIR}/unit/build_rules/check.py ${CMAKE_SOURCE_DIR})
add_test(NAME build_rules_self COMMAND python3 ${CMAKE_SOURCE_DIR}/unit/build_rules/check_test.py)
add_custom_target(check
  COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure
  DEPENDS ${unit_programs} USES_TERMINAL)
add_custom_target(check-all
  COMMAND ${CMAKE_SOURCE_DIR}/e2e/test.sh USES_TERMINAL)

find_package(benchmark QUIET)
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/unit/bench/*_bench.cc)
if(benchmark_FOUND AND bench_sources)
  add_executable(sluice-bench EXCLUDE_FROM_ALL ${bench_sources})
  target_link_libraries(sluice-bench PRIVATE sluice_flags sluice_sim unit_build benchmark::benchmark_main)
  # The deciding core by itself, then the whole controller on a real API server.
  add_custom_target(bench
    COMMAND sluice-bench
    COMMAND ${CMAKE_SOURCE_DIR}/e2e/test.sh --bench
    DEPENDS sluice-bench USES_TERMINAL)
endif()

find_program(RUN_CLANG_TIDY NAMES run-clang-tidy-14 run-clang-tidy)
if(RUN_CLANG_TIDY)
  add_custom_target(tidy
    COMMAND ${RUN_CLANG_TIDY} -quiet -p ${CMAKE_BINARY_DIR} "${CMAKE_SOURCE_DIR}/(lib|controller)/.*"
    USES_TERMINAL)
endif()

if(SLUICE_FUZZ)
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/unit/fuzz/*_fuzz.cc)
  foreach(source ${fuzzers})
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer,address)
    target_link_libraries(${name} PRIVATE sluice_flags sluice_webhook)
  endforeach()
endif()
