#!/bin/sh
# tests/train/null.c passes NULL for every pointer argument of every public function, and tests/train/step_parts.c calls
# every function of a trainer while a step is under way: their rows are those of the headers. So are those of wrong values
# (values.c), of wrong handles (handles.c) and of another order (order.c).
. tests/lib.sh

cat include/*.h | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' >"$dir/plain_headers"
# "function,parameter,parameter" for each function in include/
<"$dir/plain_headers" grep -oE '\btrine_[a-z0-9_]+\([^()]*\);' |
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
# ---- Wrong values, wrong handles, another order ----

# "handle|value function argument": handles are looked up; values are numbers, choices, texts and structs that are read.
# What is neither is a place for a result or a buffer.
<"$dir/functions" awk -F, '{
    for (i = 2; i <= NF; i++) {
        a = $i; sub(/^ +/, "", a); name = a; sub(/.*[* ]/, "", name)
        if (a == "void") continue
        if (a ~ /trine_(world|mesh|comm|trainer|log|generator|linear) \*/) {
            if (a !~ /\*\*/ || $1 !~ /_create/) print "handle", $1, name
        } else if (a !~ /\*/ || a ~ /^const (char|trine_[a-z_]+) \*[a-z_]+$/ ||
                   (a ~ /^trine_(config|run) / && $1 ~ /_config_check|_plan$/))
            print "value", $1, name
    }
}' | sort -u >"$dir/arguments"

# arguments_of KIND: "function argument"
arguments_of() {
    sed -n "s/^$1 //p" "$dir/arguments"
}
# pairs FILE MACROS: the first two words of the rows; a macro that has several rows is taken apart first
pairs() {
    tr '\n' ' ' <"$1" | sed -E 's/ +/ /g
        s/COUNT_AND_TYPE\((trine_[a-z_]+)/WRONG(\1, count) WRONG(\1, type/g; s/OPERATION\(/WRONG(/g; s/ROOT\(/WRONG(/g
        s/(WRONG\(trine_[a-z_]+), *\)/\1, op)/g; s/(WRONG\(trine_[a-z_]+), AND/\1, op/g
        s/INSPECTS\((trine_[a-z_]+)/WRONG(\1, config) WRONG(\1, ranks/g
        s/TENSOR\((trine_[a-z_]+)/WRONG(\1, what) WRONG(\1, name) WRONG(\1, count/g
        s/MEMBER_OF\(/MEMBER(trine_checkpoint, /g; s/SOURCE\(/MEMBER(trine_source, /g; s/MEMORY\(/MEMBER(trine_memory, /g
        s/CREATES\(/MEMBER(trine_generate_config, /g; s/SAMPLES\(/MEMBER(trine_sampling, /g
        s/LAYER\(/MEMBER(trine_linear_config, /g' |
        grep -oE "\b($2)\( ?trine_[a-z0-9_]+, [a-z0-9_]+" | sed -E 's/.*\( ?([a-z0-9_]+), /\1 /' | sort -u
}
# held KIND FILE MACROS: each argument has a row, and each row of a function of the headers an argument
held() {
    arguments_of "$1" >"$dir/wanted"
    pairs "$2" "$3" >"$dir/rows"
    comm -23 "$dir/wanted" "$dir/rows" >"$dir/out"
    [ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/wanted")" -ge 80 ]
}
held value tests/train/values.c 'WRONG|TOLD|RIGHT'
result $? "every value that a public function takes has a row in tests/train/values.c"
held handle tests/train/handles.c 'HANDLE|HANDLE_TOLD|RIGHT'
result $? "every handle that a public function takes has a row in tests/train/handles.c"

# "struct member" of those whose members are rows, too; the others' are options (tests/train/values.c walks over them)
<"$dir/plain_headers" sed -E 's/struct (trine_[a-z_]+) \{([^{}]*)\};/typedef struct {\2} \1;/g' |
    grep -oE 'typedef struct \{[^{}]*\} trine_(checkpoint|sampling|generate_config|linear_config|source|memory|steps);' |
    sed -E 's/^typedef struct \{(.*)\} (trine_[a-z_]+);$/\2;\1/; s/\(\*([a-z_]+)\)\([^()]*\)/\1/g' |
    awk -F';' '{ for (i = 2; i <= NF; i++) { n = split($i, names, ","); for (k = 1; k <= n; k++) {
        sub(/ +$/, "", names[k]); sub(/.*[* ]/, "", names[k]); if (names[k] != "") print $1, names[k] } } }' |
    sort -u >"$dir/members"
pairs tests/train/values.c 'MEMBER|ANY_VALUE' | comm -23 "$dir/members" - >"$dir/out"
[ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/members")" -ge 40 ]
result $? "every member of a struct without options has a row in tests/train/values.c"

cut -d, -f1 "$dir/functions" | sort -u >"$dir/all"
{
    rows tests/train/order.c 'ANY_ORDER|WRONG_ORDER|COLLECTIVE'
    rows tests/train/step_parts.c 'SHUT|FREE|REFUSED'
} | sort -u | comm -23 "$dir/all" - >"$dir/out"
[ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/all")" -ge 110 ]
result $? "every public function has a row in tests/train/order.c or step_parts.c"
done_testing
