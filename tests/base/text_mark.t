#!/bin/bash
# A byte order mark at the beginning of each kind of file that people write by hand: the program says what it says
# without the mark; the mark of UTF-16 is refused.
set -eu
. tests/lib.sh

root=$PWD
bin=$(realpath "$BUILD")
cd "$dir"
small=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 256 --global-batch-size 4)
"$bin/train_gpt" --dry-run --ranks 2 --pp 2 "${small[@]}" --export-schedule plain.csv >/dev/null
printf -- '--num-layers 2\n' >plain.txt
cp "$root/hardware/h100.json" plain.json
printf 'heads,hidden,layers,seq,tp,pp,dp,batch,mbs\n8,512,4,128,1,1,1,4,1\n' >plain.table
printf '{"text": "one"}\n{"text": "two"}\n' >plain.jsonl
# The files of ids as they are read, and the command for each: FILE stands for the file.
readers=(
    "plain.txt train_gpt --dry-run ${small[*]} @FILE"
    "plain.csv train_gpt --dry-run --ranks 2 --pp 2 --schedule ./FILE ${small[*]}"
    "plain.json trine-plan --hardware ./FILE --csv plain.table"
    "plain.table trine-plan --hardware h100 --csv FILE"
    "plain.jsonl trine-tokens --out made FILE"
)

# says FILE COMMAND...: what the program prints of it, without names and speeds, and the files that it makes
says() {
    local file=$1 program=$2
    shift 2
    rm -f made_*.bin
    "$bin/$program" "${@/FILE/$file}" 2>&1 | sed "s/$file/FILE/g; s/[0-9.]* [kMG]*B\/s for .*//"
    cat made_*.bin 2>/dev/null | cksum
}

marked() {
    local plain=$1
    shift
    says "$plain" "$@" >want || true
    { printf '\357\273\277'; cat "$plain"; } >"m-$plain"
    says "m-$plain" "$@" >got || true
    ! grep -q '^trine:' want && diff want got
}

wide() {
    local plain=$1 program=$2 bytes args
    shift 2
    args=("${@/FILE/w-$plain}")
    for bytes in '\377\376' '\376\377'; do
        # shellcheck disable=SC2059  # the bytes
        { printf "$bytes"; cat "$plain"; } >"w-$plain"
        run "$bin/$program" "${args[@]}" && [ "$status" = 1 ] && grep -q "w-$plain.*: is UTF-16 or UTF-32" err || { cat err; return 1; }
    done
}

for line in "${readers[@]}"; do
    read -ra words <<<"$line"
    check "${words[1]}: a mark before ${words[0]} is skipped" marked "${words[@]}"
    check "${words[1]}: UTF-16 in ${words[0]} is refused" wide "${words[0]}" "${words[1]}" "${words[@]:2}"
done
done_testing
