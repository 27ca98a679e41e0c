#!/bin/sh
# Prints the runs of make check: for each test and each of its numbers of ranks a line TEST RANKS SECONDS, such as
# zero/bytes 4 900, with the time limit; RANKS is - for a script. For tools that choose tests by what they execute;
# tests/plan.sh, which checks the markers, makes the runs of make check itself.
set -eu

cd "$(dirname "$0")/.."
find tests -mindepth 2 -maxdepth 2 \( -name '*.c' -o -name '*.t' \) | LC_ALL=C sort | xargs awk '
    FNR > 2 || FNR == 1 && FILENAME ~ /\.t$/ || FNR == 2 && FILENAME ~ /\.c$/ { next }
    {
        name = FILENAME
        sub(/^tests\//, "", name)
        script = sub(/\.t$/, "", name)
        if (!script) sub(/\.c$/, "", name)
        n = split($0, words, " ")
        ranks = script ? "-" : "none"
        seconds = 900
        marked = words[2] == "TEST"
        for (i = 3; marked && i <= n; i++) {
            if (words[i] ~ /^np=/) ranks = substr(words[i], 4)
            if (words[i] ~ /^timeout=/) seconds = substr(words[i], 9)
            if (words[i] ~ /^full=/) ranks = "none"
        }
        if (ranks == "none") next
        n = split(ranks, sizes, ",")
        for (i = 1; i <= n; i++) print name, sizes[i], seconds
    }'
