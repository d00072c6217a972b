#!/bin/sh
# run_fuzzer.sh: start a fuzzer from a copy of its corpus.
#
#   run_fuzzer.sh clean|planted FUZZER CORPUS DIRECTORY SECONDS MAX_LEN
#
# clean    for so many seconds: fails on the first finding, whose input stays in DIRECTORY.
# planted  FUZZER has a planted bug: fails unless it is found within so many seconds. Inputs of the
#          corpus that show the bug by themselves are left out, so that the finding is the fuzzer's.
#
# The corpus is only read; what is learned goes to the copy in DIRECTORY. Leaks are not looked for
# after each input, which would take half of the time: an allocator that counts is one of the
# options that are fuzzed, and the corpus is replayed under AddressSanitizer's leak check.
set -eu
kind=$1 fuzzer=$2 corpus=$3 directory=$4 seconds=$5 max_len=$6

rm -rf "$directory"
mkdir -p "$directory/corpus"
cp "$corpus"/* "$directory/corpus/"
options="-max_len=$max_len -timeout=60 -rss_limit_mb=3000 -detect_leaks=0 -print_final_stats=1"
options="$options -verbosity=0 -artifact_prefix=$directory/"
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1"

if [ "$kind" = clean ]; then
    # shellcheck disable=SC2086
    exec "$fuzzer" $options -max_total_time="$seconds" "$directory/corpus"
fi

for input in "$directory"/corpus/*; do
    # shellcheck disable=SC2086
    "$fuzzer" $options "$input" >"$directory/log" 2>&1 || rm "$input"
done
rm -f "$directory"/crash-*
echo "$(ls "$directory/corpus" | wc -l) of $(ls "$corpus" | wc -l) inputs do not show the bug"

# shellcheck disable=SC2086
if "$fuzzer" $options -max_total_time="$seconds" "$directory/corpus" >"$directory/log" 2>&1; then
    echo "the planted bug was not found in $seconds seconds"
    exit 1
fi
tail -n 30 "$directory/log"
for input in "$directory"/crash-*; do
    test -f "$input"
    echo "found: $input"
done
