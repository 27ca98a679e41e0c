#!/bin/sh
# Each option of each tool is in one of two lists here: those that have an effect beside any others, and those that need
# some, or exclude some, and are refused by name where they would have none. An option in neither list fails.
# trine-verify's are those of tests/prove/verify.t.
# shellcheck disable=SC2317 # functions that walk calls
. tests/lib.sh

tried=0
refused=0

# options PROGRAM: all, as the help has them
options() {
    "$BUILD/trine-$1" --help | sed -n 's/^  --\([a-z0-9-]*\).*/\1/p'
}

# The program with what it cannot do without, none of which is there: what is not refused before ends there.
command_of() {
    case $1 in
    generate | eval) echo "$BUILD/trine-$1 $dir/none" ;;
    tokens) echo "$BUILD/trine-tokens $dir/none" ;;
    export) echo "$BUILD/trine-export $dir/none $dir/out" ;;
    plan) echo "$BUILD/trine-plan --hardware h100" ;;
    report) echo "$BUILD/trine-report $dir/none" ;;
    *) echo "$BUILD/trine-$1" ;;
    esac
}

# names PROGRAM OPTION WORDS: whether the program fails and its message names the option, not only before a file that is
# not there
names() {
    # shellcheck disable=SC2046,SC2086 # words
    if $(command_of "$1") $3 >"$dir/says" 2>&1 </dev/null; then return 1; fi
    sed -i '/: No such file or directory$/d' "$dir/says"
    grep -q -e "$2\$" -e "$2[^a-z-]" "$dir/says"
}

# idle PROGRAM "OPTION VALUE" "BESIDE WHAT IT HAS NO EFFECT" "BESIDE WHAT IT HAS ONE"
idle() {
    option=${2%% *}
    echo "${option#--}" >>"$dir/$1"
    tried=$((tried + 1))
    if names "$1" "$option" "$3 $2"; then
        refused=$((refused + 1))
    else
        echo "# trine-$1 $3 $2: not refused: $(head -1 "$dir/says")" && return 1
    fi
    if [ "$4" != - ] && names "$1" "$option" "$4 $2"; then
        echo "# trine-$1 $4 $2: refused: $(cat "$dir/says")" && return 1
    fi
}

# free PROGRAM NAME...: what each of these changes is said by its help, and tested where the program is
free() {
    program=$1
    shift
    tried=$((tried + $#))
    printf '%s\n' "$@" help version >>"$dir/$program"
}

# walked PROGRAM: the lists are the help's options
walked() {
    options "$1" | sort >"$dir/all"
    sort -u "$dir/$1" | diff "$dir/all" - >"$dir/says" || { sed 's/^/# /' "$dir/says" && return 1; }
}

# walk PROGRAM: its function, with all its faults
walk() {
    faults=0
    "walk_$1"
    walked "$1" && [ "$faults" -eq 0 ]
    result $? "trine-$1: each option has an effect, or is refused by name"
}

not() {
    "$@" || faults=$((faults + 1))
}

execution() {
    free "$1" tp pp device bf16 fp16 threads transport timeout progress
    not idle "$1" --tf32 "$2" "$2 --device cuda"
    not idle "$1" "--cuda-library x" "$2 --device ref" - # with cuda it is not there
    free "$1" cpu-level # refused with --device cuda once that is open
}

walk_generate() {
    free generate prompt tokens adapter seq-length temperature repetition-penalty no-cache
    not idle generate "--ids 1" "--prompt a" ""
    not idle generate "--tokenizer x" "--ids 1" ""
    not idle generate --chat "--ids 1" ""
    not idle generate "--system a" "" --chat
    not idle generate --ignore-eos "--ids 1" ""
    not idle generate "--stop a" "--ids 1" ""
    not idle generate "--top-k 3" "--temperature 0" ""
    not idle generate "--top-p 0.5" "--temperature 0" ""
    not idle generate "--seed 7" "--temperature 0" ""
    not idle generate "--tensorboard x" --chat "--chat --prompt a"
    execution generate ""
}

walk_eval() {
    free eval tokenizer adapter seq-length json dp
    for task in text data choices pairs; do not idle eval "--$task x" "--text a --data a" ""; done
    not idle eval "--scores x" "--text a" "--pairs a"
    not idle eval "--stride 2" "--pairs a" "--text a"
    not idle eval "--max-tokens 2" "--choices a" "--data a"
    not idle eval "--limit 2" "--text a" "--choices a"
    execution eval "--text a"
}

walk_tokens() {
    free tokens out json-key skip-bad threads progress tokenizer
    chat="--tokenizer x --chat --seq-length 8"
    for needs in "--end-token a" --no-end-token --no-template --chat; do
        beside="--tokenizer x"
        [ "$needs" != --chat ] || beside="$beside --seq-length 8"
        not idle tokens "$needs" "" "$beside"
    done
    not idle tokens "--end-token a" "--tokenizer x --no-end-token" -
    not idle tokens "--json-key a" "$chat" "--tokenizer x"
    not idle tokens "--out a" "$chat --show 1" ""
    for needs in "--seq-length 8" "--train-on all" "--long-rows drop" --allow-control "--pack none" "--show 1"; do
        beside=$chat
        [ "$needs" != "--seq-length 8" ] || beside="--tokenizer x --chat"
        not idle tokens "$needs" "--tokenizer x" "$beside"
    done
    not idle tokens "--val-split documents" "" "--tokenizer x"
    not idle tokens "--val-split documents" "--tokenizer x --val-fraction 0" -
    not idle tokens "--shard-tokens 8" "" "--tokenizer x"
    for shown in "--val-fraction 0.5" "--val-split documents" "--shard-tokens 8" "--pack none"; do
        not idle tokens "$shown" "$chat --show 1" -
    done
}

walk_tokenizer() {
    free tokenizer vocab-size out special split min-frequency json-key skip-bad threads progress
}

walk_export() {
    free export format adapter progress
    not idle export "--type f16" "" "--format gguf"
    free export merge base # refused by what FROM is: tests/ckpt/peft.t, tests/gguf/adapter.t
}

walk_plan() {
    free plan hardware ranks calibrate
    search="--ranks 1 --model gpt2"
    not idle plan "--csv $dir/none" "--ranks 2" ""
    not idle plan "--tokens 5" "--csv $dir/none" "$search"
    not idle plan --where "$search" "--csv $dir/none"
    not idle plan --range "$search" "--csv $dir/none"
    not idle plan "--out $dir/made" "--csv $dir/none" "--calibrate $dir/none"
    for needs in "--implementation trine" "--without tp" "--recompute full" "--zero 1" --sequence-parallel \
        "--vocab-size 7"; do
        not idle plan "$needs" "--calibrate $dir/none" "--csv $dir/none"
    done
}

walk_prove() {
    free prove unchecked
}

walk_report() {
    free report out
    not idle report --watch --csv "--out $dir/made"
    not idle report "--hardware h100" --csv "--out $dir/made"
    not idle report "--trace $dir/none" --csv "--out $dir/made"
    not idle report "--sample $dir/none" --csv "--out $dir/made"
    not idle report --csv --watch ""
}

walk_doctor() {
    free doctor device cuda-library windows memory ranks-per-node seconds timeout verbose json write-hardware
    refuses="--write-hardware $dir/made --device ref" # of the CPU alone
    not idle doctor "--runs 1" "" "$refuses"
    not idle doctor --quick "" "$refuses"
    not idle doctor --busy "" "$refuses"
}

for program in generate eval tokens tokenizer export plan prove report doctor; do walk $program; done
echo "# $tried options: $refused refusals"
run "$BUILD/trine-prove" --dp 2 --vocab-size 8 --
[ "$status" -eq 1 ] && grep -qx "trine: no configuration B after -- (see --help)" "$dir/err"
result $? "trine-prove with nothing behind -- says so"
run "$BUILD/trine-prove" --vocab-size 8 --dp 2 --vocab-size 8 --pp=2
[ "$status" -eq 1 ] && grep -qx "trine: --vocab-size appears twice; -- separates A and B" "$dir/err"
result $? "and so it does where -- was forgotten"
run "$BUILD/trine-verify" --dp 2 --vocab-size 8
[ "$status" -eq 1 ] && grep -q "unknown option --dp" "$dir/err" && grep -q "options of the trainer come after --: trine-verify" "$dir/err"
result $? "trine-verify, too"
done_testing
