#!/bin/sh
# Install a build to a prefix of its own, and build and run the programs in consumer/ against it,
# found by find_package and by pkg-config, in C and (where there is a compiler) in C++. Then build
# them with the sources as a part of the project, by add_subdirectory and by FetchContent.
#
#     check_consumer.sh BUILD_DIRECTORY CMAKE PAIRS
#
# CC, CXX and CMAKE_GENERATOR in the environment choose with what.
set -eu

build=$1 cmake=$2 pairs=$3
source=$(cd "$(dirname "$0")" && pwd)/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
: "${CC:=cc}" "${CXX:=c++}"

# Run a program: the pairs must come in order, all of them, from a library of this prefix.
check() {
    echo "--- $(basename "$1")"
    "$1" "$pairs" >"$work/pairs"
    LC_ALL=C sort -c -k1,1 "$work/pairs"
    test "$(wc -l <"$work/pairs")" -eq "$pairs"
}

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
# What was installed may be moved.
mv "$work/first" "$prefix"
if test -d "$build/man"; then
    man=$(find "$prefix" -name etl_reserve.3)
    test "$(cat "$man")" = ".so man3/etl_collect.3"
    test -s "$(dirname "$man")/etl_collect.3"
fi
libdir=$(dirname "$(find "$prefix" -name libetl.a)")

# configure FROM SETTINGS...: build the project of consumer/ in a directory of this name.
configure() {
    from=$1
    shift
    echo "==== $from"
    "$cmake" -S "$source" -B "$work/$from" -DCMAKE_BUILD_TYPE=Release -DLIBETL_FROM="$from" \
        "$@" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    "$cmake" --build "$work/$from" >"$work/log" || { cat "$work/log"; exit 1; }
    for program in "$work/$from"/consumer_*; do
        check "$program"
    done
}

configure package -DCMAKE_PREFIX_PATH="$prefix"

# What follows is about building: few pairs will do.
many=$pairs pairs=100000

# All that the library itself consists of, as somebody would take it over or release it.
mkdir "$work/libetl"
(cd "$source/../.." && cp -R CMakeLists.txt LICENSE cmake include src "$work/libetl")
configure directory -DLIBETL_SOURCES="$work/libetl"
(cd "$work" && tar -czf libetl.tar.gz libetl)
configure archive -DLIBETL_SOURCES="$work/libetl.tar.gz"
for from in directory archive; do
    "$cmake" --install "$work/$from" --prefix "$work/$from-prefix" >/dev/null
    if (cd "$work/$from-prefix" && find .) | grep etl; then
        echo "$from: installing the project installed libetl too"
        exit 1
    fi
done
pairs=$many

# An adapter, where one was installed: few pairs, for they go to a table of LMDB's default size.
few=3000 lmdb=$(find "$prefix" -name libetl_lmdb.a)
check_lmdb() {
    echo "--- $1"
    "$1" "$few" >"$work/keys"
    LC_ALL=C sort -c "$work/keys"
    test "$(wc -l <"$work/keys")" -eq "$few"
}
test -z "$lmdb" || check_lmdb "$work/package/lmdb"

if ! command -v pkg-config >/dev/null; then
    echo "--- pkg-config is not installed: not checked"
    exit 0
fi
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
strict="-O2 -Wall -Wextra -Wpedantic -pedantic-errors -Werror"
# Unquoted: lists of flags.
$CC -std=c11 $strict "$source/main.c" -o "$work/pkgconf_c" $(pkg-config --cflags --libs libetl)
check "$work/pkgconf_c"
$CC -std=c11 $strict "$source/main.c" -o "$work/pkgconf_c_static" \
    $(pkg-config --static --cflags --libs libetl | sed "s|-letl|$libdir/libetl.a|")
check "$work/pkgconf_c_static"
if command -v "$CXX" >/dev/null; then
    $CXX -std=c++11 $strict "$source/main.cpp" -o "$work/pkgconf_cxx" \
        $(pkg-config --cflags --libs libetl)
    check "$work/pkgconf_cxx"
fi
if test -n "$lmdb"; then
    $CC -std=c11 -D_GNU_SOURCE $strict "$source/lmdb.c" -o "$work/pkgconf_lmdb" \
        $(pkg-config --cflags --libs libetl-lmdb)
    check_lmdb "$work/pkgconf_lmdb"
fi
