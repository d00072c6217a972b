# LibetlInstall.cmake: what an installed libetl consists of: the libraries, etl.h, a CMake package
# (find_package(libetl): libetl::etl, libetl::etl_static), a pkg-config file (libetl) and, where
# Python is there to make them, the manual pages. The whole may be moved to another prefix after it
# was configured or installed.

include(CMakePackageConfigHelpers)

set(LIBETL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/libetl)

install(TARGETS ${LIBETL_LIBRARIES}
    EXPORT libetlTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/etl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT libetlTargets NAMESPACE libetl:: DESTINATION ${LIBETL_CMAKE_DIR})
configure_package_config_file(cmake/libetlConfig.cmake.in
    ${CMAKE_CURRENT_BINARY_DIR}/libetlConfig.cmake
    INSTALL_DESTINATION ${LIBETL_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/libetlConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/libetlConfig.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/libetlConfigVersion.cmake
    DESTINATION ${LIBETL_CMAKE_DIR})

# The prefix in libetl.pc is relative to the file itself, unless the directories are absolute.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(LIBETL_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
    set(LIBETL_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
    set(LIBETL_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" up "${up}")
    set(LIBETL_PC_PREFIX "\${pcfiledir}/${up}")
    set(LIBETL_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(LIBETL_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
configure_file(cmake/libetl.pc.in ${CMAKE_CURRENT_BINARY_DIR}/libetl.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libetl.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Made of etl.h while building; nothing else waits for them.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    set(man ${CMAKE_CURRENT_SOURCE_DIR}/docs/man)
    file(GLOB frames CONFIGURE_DEPENDS ${man}/*.3.in)
    add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/man/man3/libetl.3
        COMMAND Python3::Interpreter -B ${man}/make_man.py ${LIBETL_HEADER} ${man}
                ${CMAKE_CURRENT_BINARY_DIR}/man/man3
        DEPENDS ${LIBETL_HEADER} ${man}/make_man.py ${man}/header.py ${man}/date ${frames}
        COMMENT "Making the manual pages of etl.h"
        VERBATIM)
    add_custom_target(libetl_man ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/man/man3/libetl.3)
    install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
else()
    message(STATUS "No Python: no manual pages")
endif()
