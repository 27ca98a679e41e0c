#!/bin/sh
# tests/train/null.c passes NULL for every pointer argument of every public function, and tests/train/step_parts.c calls
# every function of a trainer while a step is under way: their rows are those of the headers.
. tests/lib.sh

# "function,parameter,parameter" for each function in include/
cat include/*.h | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' |
    grep -oE '\btrine_[a-z0-9_]+\([^()]*\);' |
    sed -E 's/^(trine_[a-z0-9_]+)\((.*)\);$/\1,\2/' >"$dir/functions"

# rows FILE MACROS: the functions that the file has rows for
rows() {
    tr '\n' ' ' <"$1" | grep -oE "\b($2)\( *trine_[a-z0-9_]+" | sed -E 's/.*\( *//' | sort -u
}

# "function argument" for each pointer
<"$dir/functions" awk -F, '{ for (i = 2; i <= NF; i++) if ($i ~ /\*/) { sub(/.*[* ]/, "", $i); print $1, $i } }' |
    sort -u >"$dir/headers"
tr '\n' ' ' <tests/train/null.c | grep -oE '(REFUSE|ALLOW)\(trine_[a-z0-9_]+, [a-z]+' |
    sed -E 's/^[A-Z]+\(([a-z0-9_]+), /\1 /' | sort -u >"$dir/rows"

functions=$(cut -d' ' -f1 "$dir/headers" | sort -u | wc -l)
[ "$functions" -ge 70 ]
result $? "the headers have $functions functions with pointers"
diff "$dir/headers" "$dir/rows" >"$dir/out"
result $? "every pointer of a public function has a row in tests/train/null.c"

grep -v '\*' "$dir/functions" | cut -d, -f1 | sort -u >"$dir/plain"
rows tests/train/null.c PLAIN | diff "$dir/plain" - >"$dir/out" && [ "$(wc -l <"$dir/plain")" -ge 10 ]
result $? "every public function without a pointer has a row in tests/train/null.c"

grep -E 'trine_trainer \*[^*]' "$dir/functions" | cut -d, -f1 | sort -u >"$dir/trainers"
rows tests/train/step_parts.c 'SHUT|FREE|REFUSED' | grep -vx trine_trainer_destroy | diff "$dir/trainers" - >"$dir/out" &&
    [ "$(wc -l <"$dir/trainers")" -ge 25 ]
result $? "every function of a trainer has a row in tests/train/step_parts.c"
done_testing
