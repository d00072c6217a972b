# databases.gp: what bench_databases measured, as bars: processor time and size of each database
# filled pair by pair, against libetl. Databases that were not measured are left out. Processor
# time is user and system: what a busy machine cannot stretch as it does wall time.
#
#     build/bench/bench/bench_databases --csv > databases.csv
#     gnuplot -e "csv='databases.csv'; out='docs/img/databases.svg'" bench/plot/databases.gp

set terminal svg size 760,300 font "sans-serif,12" background "white"
set output out

# A row for each database: its name, time and size of put as multiples of libetl's.
table = "< awk -F, 'NR > 1 { split($2, set, \":\"); way = $2; sub(/.*\\//, \"\", way); "\
    . "if (!(set[1] in known)) { known[set[1]] = 1; names[++n] = set[1] } "\
    . "if ($3 == \"user\" || $3 == \"system\") busy[set[1], way] += $4; "\
    . "if ($3 == \"size\") size[set[1], way] = $4 } "\
    . "END { for (i = 1; i <= n; i++) { d = names[i]; "\
    . "print d, busy[d, \"put\"] / busy[d, \"libetl\"], size[d, \"put\"] / size[d, \"libetl\"] } }' " . csv

set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set border 3
set tics nomirror
set grid y lc rgb "#dddddd"
set yrange [0:*]
set offsets 0, 0, graph 0.35, 0
set key top right samplen 1.5

set multiplot layout 1,2
set title "Processor time to fill it (libetl = 1)"
plot table using (1):xtic(1) title "through libetl" lc rgb "#2a6f97", \
     table using 2 title "put one by one" lc rgb "#e07a5f"
set title "Size of the database (libetl = 1)"
plot table using (1):xtic(1) title "through libetl" lc rgb "#2a6f97", \
     table using 3 title "put one by one" lc rgb "#e07a5f"
unset multiplot
