#!/bin/sh
# The amalgamation on other machines, C libraries and compilers: compiled without a warning, and
# portable.c prints the same with each, checksums of run files and encoded keys included; each
# reads the run that the one before it saved, and the first one that of the last. Then
# etl.h in each C++ from 11 on, and the layouts of its structs.
#
#     check_portability.sh [--all]
#
# A compiler or an emulator that is not installed is skipped, or with --all is a failure. On Debian
# the packages clang g++ gcc-12-multilib gcc-aarch64-linux-gnu gcc-s390x-linux-gnu musl-tools
# qemu-user are what it can use, and libc6-dev-arm64-cross and libc6-dev-s390x-cross with them.
set -eu

tests=$(cd "$(dirname "$0")" && pwd)
all=${1-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seed=20260101
strict="-pedantic -Wall -Wextra -Werror"

skip() {
    echo "$1: not checked, no $2"
    test "$all" != --all
}

# try NAME RUNNER COMPILER FLAGS...: RUNNER is "" for this machine's own programs.
try() {
    name=$1 runner=$2 cc=$3
    shift 3
    command -v "$cc" >/dev/null || { skip "$name" "$cc"; return; }
    test -z "$runner" || command -v "$runner" >/dev/null || { skip "$name" "$runner"; return; }
    "$cc" -c $strict "$@" -I"$work" "$work/${etl:-etl}.c" -o "$work/etl.o"
    "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L $strict "$@" -I"$work" -I"$tests" \
        "$tests/portable.c" "$tests/oracle.c" "$work/etl.o" -pthread -o "$work/$name"
    # What one machine has saved, the next one reads.
    test -f "$work/saved" || "$work/$name" $seed "$work/saved" >/dev/null
    $runner "$work/$name" $seed "$work/run" "$work/saved" >"$work/$name.out"
    mv "$work/run" "$work/saved"
    test -f "$work/expected" || cp "$work/$name.out" "$work/expected"
    diff "$work/expected" "$work/$name.out"
    echo "$name: as expected"
}

python3 "$tests/../cmake/amalgamate.py" "$work"

try gcc "" gcc -std=c11 -O2
cat "$work/expected"
try clang "" clang -std=c11 -O1
try sanitized "" gcc -std=c11 -O1 -fsanitize=address,undefined -fno-sanitize-recover=all

# What only Linux has, and what only GNU's headers show, left out.
sed 's/^#define _GNU_SOURCE 1$/#define _DEFAULT_SOURCE 1/' "$work/etl.c" >"$work/etl_plain.c"
etl=etl_plain
try plain_posix "" gcc -std=c11 -O1 -U__linux__
etl=etl

# The kernel's headers of gcc-12-multilib are where the host's are.
try musl "" musl-gcc -std=c11 -O1 -static
try i386 "" gcc -std=c11 -O1 -m32 -Wno-psabi -idirafter /usr/include/x86_64-linux-gnu
try aarch64 qemu-aarch64 aarch64-linux-gnu-gcc -std=c11 -O1 -static
try s390x qemu-s390x s390x-linux-gnu-gcc -std=c11 -O1 -static
"$work/gcc" $seed "$work/run" "$work/saved" >"$work/again"
diff "$work/expected" "$work/again"

# etl.h in C and C++ of every age, and a program that uses it.
for standard in c99 c11 c17 c2x; do
    gcc -std=$standard $strict -I"$work" -x c -fsyntax-only "$work/etl.h"
done
for cc in g++ clang++; do
    command -v $cc >/dev/null || { skip "C++" $cc; continue; }
    for standard in c++11 c++14 c++17 c++20; do
        $cc -std=$standard $strict -I"$work" -fsyntax-only "$tests/consumer/main.cpp"
    done
    echo "$cc: C++11 to C++20"
done

# layout NAME RUNNER COMPILER FLAGS...
layout() {
    name=$1 runner=$2
    shift 2
    command -v "$1" >/dev/null && command -v "${runner:-sh}" >/dev/null || return 0
    python3 "$tests/check_abi.py" --cc "$*" --run "$runner" --layout $name
}
layout i386 "" gcc -m32 -idirafter /usr/include/x86_64-linux-gnu
layout lp64 qemu-s390x s390x-linux-gnu-gcc -static
