# LibetlFlags.cmake: how everything of this project is compiled, as targets to link against.
#
#   libetl_flags   the language, warnings, sanitizers and coverage: for every target
#   libetl_strict  warnings that only the library itself promises to be free of
#
# Neither is installed, and nothing is set for projects that add this directory.

option(LIBETL_WERROR "Treat warnings as errors" OFF)
set(LIBETL_SANITIZE "" CACHE STRING
    "Sanitizers to build everything with, as for -fsanitize: address,undefined or thread")
option(LIBETL_COVERAGE "Build for coverage and add the test `coverage` (needs gcovr)" OFF)

# Plain -std=c11: what the headers show beyond ISO C is asked for by _GNU_SOURCE, in the open.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(libetl_flags INTERFACE)
target_compile_definitions(libetl_flags INTERFACE _GNU_SOURCE)
target_compile_options(libetl_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wundef -Wvla -Wformat=2
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>
    $<$<BOOL:${LIBETL_WERROR}>:-Werror>)

add_library(libetl_strict INTERFACE)
target_compile_options(libetl_strict INTERFACE -Wmissing-prototypes -Wwrite-strings)

if(LIBETL_SANITIZE)
    set(sanitize -fsanitize=${LIBETL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(libetl_flags INTERFACE ${sanitize})
    target_link_options(libetl_flags INTERFACE ${sanitize})
endif()

if(LIBETL_COVERAGE)
    # The counters are shared by the library's threads, hence atomic.
    target_compile_options(libetl_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(libetl_flags INTERFACE --coverage)
endif()

# Export from a shared library what the map lists and nothing else, where the linker knows such
# maps (ELF); elsewhere hidden visibility alone does it. A symbol left undefined is an error here
# rather than in the program that links the library, but a sanitizer's are found only there.
include(CheckLinkerFlag)
function(libetl_export_only target map)
    check_linker_flag(C "-Wl,--version-script=${map}" LIBETL_HAVE_VERSION_SCRIPT)
    if(LIBETL_HAVE_VERSION_SCRIPT)
        target_link_options(${target} PRIVATE "-Wl,--version-script=${map}")
        set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
    endif()
    check_linker_flag(C "-Wl,--no-undefined" LIBETL_HAVE_NO_UNDEFINED)
    if(LIBETL_HAVE_NO_UNDEFINED AND NOT LIBETL_SANITIZE)
        target_link_options(${target} PRIVATE "-Wl,--no-undefined")
    endif()
endfunction()
