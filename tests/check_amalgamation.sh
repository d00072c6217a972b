#!/bin/sh
# The amalgamation compiles alone, without flags and with strict ones, and without a warning; it
# shows a linker what etl.h declares and nothing else; and a name that two sources claim is found
# when it is made.
#
#     check_amalgamation.sh ETL_C COMPILER NM PYTHON
set -eu

etl=$1 cc=$2 nm=$3 python=$4
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cc" -Werror -c "$etl" -o "$work/etl.o"
"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -O2 -DNDEBUG -c "$etl" -o "$work/etl.o"
"$nm" -g --defined-only "$work/etl.o" | awk '{ print $3 }' | sort >"$work/defined"
grep -v '^#' "$source/include/etl.h" | tr '\n' ' ' | grep -o 'LIBETL_API [^();]*(' |
    sed 's/.*[ *]\(etl_[a-z0-9_]*\)($/\1/' | sort -u >"$work/declared"
test -s "$work/declared"
diff "$work/declared" "$work/defined"

# Kept inside a shared library of somebody else.
"$cc" -fPIC -fvisibility=hidden -DLIBETL_API= -shared "$etl" -pthread -o "$work/host.so"
if "$nm" -D --defined-only "$work/host.so" | grep etl_; then
    echo "the names above can be seen from outside"
    exit 1
fi

mkdir "$work/source"
cp -R "$source/src" "$source/include" "$source/CMakeLists.txt" "$work/source"
for planted in 'static int adopt(int x) {' 'enum { ADOPTED = 1 };' 'struct adopted {'; do
    for file in load.c merge.c; do
        cp "$source/src/$file" "$work/source/src/$file"
        echo "$planted" >>"$work/source/src/$file"
    done
    if "$python" "$source/cmake/amalgamate.py" "$work/out" "$work/source" 2>"$work/message"; then
        echo "not found in two files: $planted"
        exit 1
    fi
    grep -i 'load.c:[0-9]*: .*adopt.* is merge.c:[0-9]*' "$work/message"
done
