# scaling.gp: what bench_scaling measured: cost of a pair over the size of the data and over the
# number of runs (flat is good), and anonymous memory over time under the limit. Processor time of
# all threads: what a busy machine cannot stretch as it does wall time.
#
#     build/bench/bench/bench_scaling --csv --rounds 1 --parts size,runs,memory > scaling.csv
#     gnuplot -e "csv='scaling.csv'; out='docs/img/scaling.svg'" bench/plot/scaling.gp

set terminal svg size 900,300 font "sans-serif,12" background "white"
set output out

# Rows of a part, "POINT unit" and a metric: the point's number and the value.
rows(part, metric) = "< awk -F, '$2 ~ /^" . part . " of/ && $3 == \"" . metric . "\" "\
    . "{ sub(/.*\\/(after )?/, \"\", $2); print $2 + 0, $4 }' " . csv

set border 3
set tics nomirror
set grid y lc rgb "#dddddd"
set yrange [0:*]
set offsets graph 0.04, graph 0.04, graph 0.25, 0
unset key

set multiplot layout 1,3
set title "Data, MiB, under a limit of 64 MiB"
set ylabel "ns of processor time a pair"
set logscale x 2
set xtics 64, 4
plot rows("size", "processor") using 1:2 with linespoints lw 2 pt 7 ps 0.5 lc rgb "#2a6f97"
set title "Runs that are merged at once"
unset ylabel
set xtics autofreq
plot rows("runs", "processor") using 1:2 with linespoints lw 2 pt 7 ps 0.5 lc rgb "#2a6f97"
set title "Anonymous memory, MiB, over seconds"
unset logscale x
set key bottom right samplen 1.5
stats rows("memory", "limit") using 2 name "limit" nooutput
plot limit_max title "memory\\_limit" lw 2 lc rgb "#e07a5f", \
     rows("memory", "anonymous") using 1:2 title "measured" with lines lw 2 lc rgb "#2a6f97"
unset multiplot
