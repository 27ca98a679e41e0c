#!/bin/sh
# docs/planning.md's table of the members of a hardware file has the names that the program knows, and no others; its
# example has each number once. What the example is planned to is in the page itself (tests/docs/planning.t).
. tests/lib.sh
needs awk

page=docs/planning.md
# What a file may have, one a line, from the program's own refusal of another.
sed 's/"about"/"abaut"/' hardware/h100.json >"$dir/other.json"
"$BUILD/trine-plan" --hardware "$dir/other.json" --ranks 1 2>&1 | sed -n 's/.*(valid: \(.*\))$/\1/p' | tr -d ' ' | tr ',' '\n' |
    sort >"$dir/known"

# The rows of the section's table: their names, and the units and what they are of, which only some may leave empty.
awk '/^### /{ on = /^### The members of a file$/ } on && /^\| `/' "$page" >"$dir/rows"
sed 's/^| `\([a-z_0-9]*\)` .*/\1/' "$dir/rows" | sort >"$dir/named"
same() { [ "$(wc -l <"$dir/known")" -gt 20 ] && diff "$dir/known" "$dir/named"; }
check "the table has each member, and no other name" same

full() {
    awk -F ' *[|] *' '
        NF != 6 || $3 == "" || $5 == "" || ($4 !~ /^(rank|node|card|processor)$/ && $2 !~ /^`(about|device|checked|calibrated)`$/) {
            print; bad = 1
        }
        END { exit bad || !NR }' "$dir/rows"
}
check "each with a unit, what it is of, and what it is" full

# The numbers are those with a value; three members are written by programs.
sed -n '/^```json$/,/^```$/p' "$page" | sed -n 's/^    "\([a-z_0-9]*\)": .*/\1/p' | sort >"$dir/example"
complete() { grep -vx -e measured -e checked -e calibrated "$dir/known" | diff - "$dir/example"; }
check "the example has each number once" complete
done_testing
