# fuzz.cmake: the fuzz targets; included, not a directory of its own, so that its tests are among
# the others.
#
# Always      a test NAME_corpus for each target: replays corpus/NAME, without libFuzzer.
# LIBETL_FUZZ the fuzzers themselves (clang, with LIBETL_SANITIZE=fuzzer-no-link,…): a test NAME
#             that fuzzes for LIBETL_FUZZ_SECONDS, and a test NAME_planted that passes when the
#             fuzzer finds a bug which only its build has. Target libetl_fuzzers builds them all.

set(fuzz_directory ${CMAKE_CURRENT_LIST_DIR})

# A common oracle, not watched by sanitizers: what it costs is most of what an input costs.
if(LIBETL_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT LIBETL_SANITIZE MATCHES "fuzzer-no-link")
        message(FATAL_ERROR "LIBETL_FUZZ needs clang and LIBETL_SANITIZE=fuzzer-no-link,address,"
                            "undefined: see the preset fuzz")
    endif()
    set(LIBETL_FUZZ_SECONDS 300 CACHE STRING "How long each fuzzer runs")
    add_library(etl_fuzz_oracle OBJECT oracle.c)
    target_include_directories(etl_fuzz_oracle PRIVATE ${PROJECT_SOURCE_DIR}/include)
    add_custom_target(libetl_fuzzers)
endif()

function(etl_fuzzer name max_len wrapped)
    set(sources ${ARGN})
    list(TRANSFORM sources PREPEND ${fuzz_directory}/)
    foreach(kind clean planted)
        set(target ${name})
        if(kind STREQUAL "planted")
            set(target ${name}_planted)
        endif()
        add_executable(${target} ${sources} $<TARGET_OBJECTS:etl_fuzz_oracle>)
        target_include_directories(${target} PRIVATE ${fuzz_directory})
        target_link_libraries(${target} PRIVATE etl_test_support)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        add_dependencies(libetl_fuzzers ${target})
        set(seconds ${LIBETL_FUZZ_SECONDS})
        if(kind STREQUAL "planted")
            string(REPLACE "fuzz_" "planted_" bug ${name})
            target_sources(${target} PRIVATE ${fuzz_directory}/${bug}.c)
            target_link_options(${target} PRIVATE -Wl,--wrap=${wrapped})
            set(seconds 60)
        endif()
        math(EXPR timeout "${seconds} + 300")
        libetl_add_test(NAME ${target} LABEL fuzz TIMEOUT ${timeout}
            COMMAND sh ${fuzz_directory}/run_fuzzer.sh ${kind} $<TARGET_FILE:${target}>
                    ${fuzz_directory}/corpus/${name} ${CMAKE_CURRENT_BINARY_DIR}/${target}_run
                    ${seconds} ${max_len})
    endforeach()
endfunction()

function(etl_fuzz_target label name max_len wrapped)
    set(sources ${ARGN})
    list(TRANSFORM sources PREPEND ${fuzz_directory}/)
    add_executable(${name}_corpus ${sources} ${fuzz_directory}/replay.c)
    target_include_directories(${name}_corpus PRIVATE ${fuzz_directory})
    target_link_libraries(${name}_corpus PRIVATE etl_test_support)
    libetl_add_test(NAME ${name}_corpus LABEL ${label}
        COMMAND ${LIBETL_TEST_LAUNCHER} $<TARGET_FILE:${name}_corpus>
                ${fuzz_directory}/corpus/${name})
    if(LIBETL_FUZZ)
        etl_fuzzer(${name} ${max_len} ${wrapped} ${ARGN})
    endif()
endfunction()

etl_fuzz_target(unit fuzz_run_reader 4096 etl__run_check_block
    fuzz_run_reader.c run_reference.c)
etl_fuzz_target(api fuzz_api 1024 etl__merge_same_as_next
    fuzz_api.c api_machine.c api_readers.c)
