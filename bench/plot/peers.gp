# peers.gp: what bench_peers measured of sorting more than memory holds: wall time and processor
# time of each peer as multiples of libetl's with one background thread, a group for each workload.
#
#     build/bench/bench/bench_peers --csv --modes external --rounds 1 --workloads ABC \
#         --peers "libetl,libetl no thread,STXXL,GNU sort,mtbl" > peers.csv
#     gnuplot -e "csv='peers.csv'; out='docs/img/peers.svg'" bench/plot/peers.gp

set terminal svg size 900,360 font "sans-serif,12" background "white"
set output out

# A row for each workload: its letter, and of each peer the sum of some metrics over libetl's.
names = "libetl,libetl no thread,STXXL,GNU sort,mtbl"
table(metrics) = "< awk -F, -v names='" . names . "' -v wanted='" . metrics . "' "\
    . "'BEGIN { n = split(names, name, \",\") } index(wanted, $3) { split($2, set, \"/\"); "\
    . "if (!(set[1] in known)) { known[set[1]] = 1; sets[++count] = set[1] } "\
    . "sum[set[1], set[2]] += $4 } "\
    . "END { for (i = 1; i <= count; i++) { s = sets[i]; printf \"\\\"%s\\\"\", substr(s, 1, 1); "\
    . "for (j = 1; j <= n; j++) printf \" %f\", sum[s, name[j]] / sum[s, name[1]]; print \"\" } }' " . csv
array color[5] = ["#2a6f97", "#8fb8d0", "#f2cc8f", "#81b29a", "#e07a5f"]

set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set border 3
set tics nomirror
set grid y lc rgb "#dddddd"
set yrange [0:*]

set multiplot layout 1,2
set key below samplen 1.5
set title "Wall time (libetl = 1)"
plot table("wall") using 2:xtic(1) title "libetl, one thread" lc rgb color[1], \
     "" using 3 title "libetl, no thread" lc rgb color[2], "" using 4 title "STXXL" lc rgb color[3], \
     "" using 5 title "GNU sort" lc rgb color[4], "" using 6 title "mtbl" lc rgb color[5]
set title "Processor time (libetl = 1)"
plot table("user system") using 2:xtic(1) title "libetl, one thread" lc rgb color[1], \
     "" using 3 title "libetl, no thread" lc rgb color[2], "" using 4 title "STXXL" lc rgb color[3], \
     "" using 5 title "GNU sort" lc rgb color[4], "" using 6 title "mtbl" lc rgb color[5]
unset multiplot
