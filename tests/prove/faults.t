#!/bin/bash
# TEST full=proved timeout=7200 ranks=4
# What trine-verify finds: each fault of tests/prove/faults is planted in a copy of the tree (tools/mutants.sh), and a layout
# of the standard set must name it at its place. A line of that file has the fault, the number of the layout, and words of
# the first line that is wrong. FAULTS="NAME..." plants some of them; J=N so many beside each other.
. tests/lib.sh
needs git make

list=$dir/faults
while read -r name rest; do
    case " ${FAULTS:-$name} " in *" $name "*) echo "$name $rest" ;; esac
done < <(grep '^[a-z]' tests/prove/faults) >"$list"

# shellcheck disable=SC2013  # numbers
for layout in $(cut -d ' ' -f 2 "$list" | sort -nu); do
    # shellcheck disable=SC2046  # names have no spaces
    J=${J:-1} TARGETS=build/trine-verify AGAINST="prove/standard - layout $layout" MUTANT_SECONDS=1200 \
        tools/mutants.sh "$BUILD" $(awk -v n="$layout" '$2 == n { print $1 }' "$list") >>"$dir/log" 2>&1
done
found=$(grep -c ^caught "$dir/log")
[ "$found" -eq "$(wc -l <"$list")" ]
result $? "each fault is found"

wrong=0
while read -r name layout place; do
    said=$(grep -A 1 "^caught *$name " "$dir/log" | tail -n 1 | sed 's/^ *//')
    echo "# $name: $said"
    case $said in *": "*"$place"*) ;; *) wrong=1 && echo "# not at its place: $place" ;; esac
done <"$list"
result $wrong "each is named at its place"
grep -v '^caught\|^  ' "$dir/log" | sed 's/^/# /'
done_testing
