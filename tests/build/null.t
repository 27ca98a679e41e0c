#!/bin/sh
# tests/train/null.c passes NULL for every pointer argument of every public function: its rows are those of the headers.
. tests/lib.sh

# "function argument" for each pointer in the parameters of a function in include/
cat include/*.h | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' |
    grep -oE '\btrine_[a-z0-9_]+\([^()]*\);' |
    sed -E 's/^(trine_[a-z0-9_]+)\((.*)\);$/\1,\2/' |
    awk -F, '{ for (i = 2; i <= NF; i++) if ($i ~ /\*/) { sub(/.*[* ]/, "", $i); print $1, $i } }' |
    sort -u >"$dir/headers"
tr '\n' ' ' <tests/train/null.c | grep -oE '(REFUSE|ALLOW)\(trine_[a-z0-9_]+, [a-z]+' |
    sed -E 's/^[A-Z]+\(([a-z0-9_]+), /\1 /' | sort -u >"$dir/rows"

functions=$(cut -d' ' -f1 "$dir/headers" | sort -u | wc -l)
[ "$functions" -ge 70 ]
result $? "the headers have $functions functions with pointers"
diff "$dir/headers" "$dir/rows" >"$dir/out"
result $? "every pointer of a public function has a row in tests/train/null.c"
done_testing
