# databases.cmake: bench_databases and the databases that it is built with. Each is optional: a
# package that is not there leaves its database out. Debian: liblmdb-dev libsqlite3-dev
# librocksdb-dev. None is used with the thread and memory sanitizers.

option(LIBETL_BUILD_DATABASES "Fill databases, where their packages are found"
       ${PROJECT_IS_TOP_LEVEL})

etl_bench(bench_databases)
if(NOT LIBETL_BUILD_DATABASES OR LIBETL_SANITIZE MATCHES "thread|memory")
    return()
endif()

set(LIBETL_DATABASES_FOUND "")

# database_NAME.c, when both its header and its library are there.
macro(etl_database name header library)
    string(TOUPPER ${name} upper)
    libetl_find(${upper} ${header} ${library})
    if(LIBETL_${upper}_FOUND)
        target_sources(bench_databases PRIVATE database_${name}.c ${ARGN})
        target_compile_definitions(bench_databases PRIVATE LIBETL_DATABASE_${upper})
        target_include_directories(bench_databases SYSTEM PRIVATE ${LIBETL_${upper}_INCLUDE})
        target_link_libraries(bench_databases PRIVATE ${LIBETL_${upper}_LIBRARY})
        list(APPEND LIBETL_DATABASES_FOUND ${name})
    endif()
endmacro()

set(adapter ${PROJECT_SOURCE_DIR}/adapters/lmdb)
target_include_directories(bench_databases PRIVATE ${adapter})
etl_database(lmdb lmdb.h lmdb ${adapter}/load.c ${adapter}/writer.c ${adapter}/source.c)
etl_database(sqlite sqlite3.h sqlite3)
etl_database(rocksdb rocksdb/c.h rocksdb)

list(JOIN LIBETL_DATABASES_FOUND " " databases)
message(STATUS "Databases of bench_databases: ${databases}")
