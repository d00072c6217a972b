# peers.cmake: bench_peers and the sorters that it is built with. Each is optional: a package that
# is not there leaves its peer out. Debian: libmtbl-dev libsqlite3-dev libstxxl-dev librocksdb-dev
# liblmdb-dev. None is used with the thread and memory sanitizers, which would have to see into
# them.

option(LIBETL_BUILD_PEERS "Compare with other sorters, where their packages are found"
       ${PROJECT_IS_TOP_LEVEL})

etl_bench(bench_peers)
if(NOT LIBETL_BUILD_PEERS OR LIBETL_SANITIZE MATCHES "thread|memory")
    return()
endif()

set(LIBETL_PEERS_FOUND "")

macro(etl_peer name source)
    string(TOUPPER ${name} upper)
    target_sources(bench_peers PRIVATE ${source})
    target_compile_definitions(bench_peers PRIVATE LIBETL_PEER_${upper})
    list(APPEND LIBETL_PEERS_FOUND ${name})
endmacro()

# The peer peer_NAME.c when both its header and its library are there.
macro(etl_peer_library name header library)
    string(TOUPPER ${name} upper)
    libetl_find(${upper} ${header} ${library})
    if(LIBETL_${upper}_FOUND)
        etl_peer(${name} peer_${name}.c)
        target_include_directories(bench_peers SYSTEM PRIVATE ${LIBETL_${upper}_INCLUDE})
        target_link_libraries(bench_peers PRIVATE ${LIBETL_${upper}_LIBRARY})
    endif()
endmacro()

etl_peer_library(mtbl mtbl.h mtbl)
etl_peer_library(sqlite sqlite3.h sqlite3)
etl_peer_library(rocksdb rocksdb/c.h rocksdb)
etl_peer_library(lmdb lmdb.h lmdb)

find_program(LIBETL_SORT sort)
mark_as_advanced(LIBETL_SORT)
if(LIBETL_SORT)
    execute_process(COMMAND ${LIBETL_SORT} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if(version MATCHES "GNU coreutils")
        etl_peer(gnu_sort peer_gnu_sort.c)
    endif()
endif()

libetl_find(STXXL stxxl/sorter stxxl)
if(CMAKE_CXX_COMPILER AND LIBETL_STXXL_FOUND)
    etl_peer(stxxl peer_stxxl.cpp)
    if(LIBETL_SANITIZE) # its headers count on behaviour that is undefined
        set_source_files_properties(peer_stxxl.cpp PROPERTIES
            COMPILE_OPTIONS -fno-sanitize=undefined)
    endif()
    target_include_directories(bench_peers SYSTEM PRIVATE ${LIBETL_STXXL_INCLUDE})
    target_link_libraries(bench_peers PRIVATE ${LIBETL_STXXL_LIBRARY})
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
        target_link_libraries(bench_peers PRIVATE OpenMP::OpenMP_CXX)
    endif()
endif()

list(JOIN LIBETL_PEERS_FOUND " " peers)
message(STATUS "Peers of bench_peers: ${peers}")
