# LibetlTest.cmake: how a test is added.
#
#   libetl_add_test(NAME label COMMAND program arguments...)
#
# LIBETL_TEST_LAUNCHER  a list to put before the program, such as valgrind and its options
# LIBETL_TEST_LIGHT     tests are told by LIBETL_TEST_LIGHT=1 in their environment to do less of the
#                       same: for launchers and sanitizers that slow them down many times
# LIBETL_TEST_LONG      adds the tests that take minutes, with the label long

set(LIBETL_TEST_LAUNCHER "" CACHE STRING "Command before each test program, a list")
option(LIBETL_TEST_LIGHT "Tell the tests to scale down" OFF)
option(LIBETL_TEST_LONG "Add the tests that take minutes" OFF)

function(libetl_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;LABEL;TIMEOUT" "COMMAND;ENVIRONMENT")
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 600)
    endif()
    if(LIBETL_TEST_LIGHT)
        list(APPEND arg_ENVIRONMENT LIBETL_TEST_LIGHT=1)
    endif()
    set_tests_properties(${arg_NAME} PROPERTIES
        LABELS ${arg_LABEL}
        TIMEOUT ${arg_TIMEOUT}
        SKIP_RETURN_CODE 77
        ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
