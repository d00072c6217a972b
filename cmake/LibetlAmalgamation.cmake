# LibetlAmalgamation.cmake: the target `amalgamation` puts the library into two files to be copied
# into any project, dist/etl.c and dist/etl.h in the build directory. Never part of `all`.

if(PROJECT_IS_TOP_LEVEL)
    find_package(Python3 COMPONENTS Interpreter)
endif()
if(NOT Python3_FOUND)
    return()
endif()

set(LIBETL_AMALGAMATION ${PROJECT_BINARY_DIR}/dist/etl.c)
file(GLOB headers ${PROJECT_SOURCE_DIR}/src/*.h)
get_target_property(sources etl_objects SOURCES)
list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/)
add_custom_command(
    OUTPUT ${LIBETL_AMALGAMATION} ${PROJECT_BINARY_DIR}/dist/etl.h
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/amalgamate.py
            ${PROJECT_BINARY_DIR}/dist ${PROJECT_SOURCE_DIR}
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/amalgamate.py ${PROJECT_SOURCE_DIR}/CMakeLists.txt
            ${LIBETL_HEADER} ${headers} ${sources}
    COMMENT "Putting the library into dist/etl.c and dist/etl.h"
    VERBATIM)
add_custom_target(amalgamation DEPENDS ${LIBETL_AMALGAMATION})
