#!/bin/sh
# The shared library exports exactly the functions that the header declares and needs nothing but
# the C library; the static one defines no global name outside etl_.
#
#     check_exports.sh HEADER SHARED_LIBRARY STATIC_LIBRARY NM
set -eu

header=$1 shared=$2 static=$3 nm=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A declaration's name is the first word before a parenthesis after LIBETL_API.
grep -v '^#' "$header" | tr '\n' ' ' | grep -o 'LIBETL_API [^();]*(' |
    sed 's/.*[ *]\(etl_[a-z0-9_]*\)($/\1/' | sort -u >"$work/declared"
"$nm" -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$work/exported"
test -s "$work/declared"
if ! diff "$work/declared" "$work/exported"; then
    echo "< declared in etl.h, > exported by $shared"
    exit 1
fi

if "$nm" -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | grep -v '^etl_'; then
    echo "the names above, in $static, are not this library's"
    exit 1
fi

if command -v readelf >/dev/null; then
    if readelf -d "$shared" | grep NEEDED | grep -v -E '\[(libc|libpthread|ld-linux[^]]*)\.'; then
        echo "$shared needs the libraries above"
        exit 1
    fi
fi
echo "$(wc -l <"$work/exported") functions exported, as declared"
