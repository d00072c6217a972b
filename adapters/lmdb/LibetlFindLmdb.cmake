# LibetlFindLmdb.cmake: the target libetl::liblmdb, where LMDB is there. Also installed: LMDB brings
# no CMake package, and what was installed must find it anew.

if(NOT TARGET libetl::liblmdb)
    find_path(LIBETL_LMDB_INCLUDE lmdb.h)
    find_library(LIBETL_LMDB_LIBRARY lmdb)
    mark_as_advanced(LIBETL_LMDB_INCLUDE LIBETL_LMDB_LIBRARY)
    if(LIBETL_LMDB_INCLUDE AND LIBETL_LMDB_LIBRARY)
        add_library(libetl::liblmdb INTERFACE IMPORTED)
        set_target_properties(libetl::liblmdb PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${LIBETL_LMDB_INCLUDE}"
            INTERFACE_LINK_LIBRARIES "${LIBETL_LMDB_LIBRARY}")
    endif()
endif()
