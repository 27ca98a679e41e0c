#!/bin/bash
# TEST longer=train
# No output destroys an input: every pair of paths that every program has, from the tables themselves (--help=paths), each
# under one of several names, by turns, and with TRINE_FULL=1 under all of them. A pair is refused by a message with both options, status 1, and nothing is written.
set -eu
. tests/lib.sh

bin=$(realpath "$BUILD")
programs=$(cd "$BUILD" && ls -d train_gpt trine-* | grep -v '[.]')
work=$dir/work
text='# an input'

# What a program makes from --out, which is no path as it is: the output is `file`, the option's value `value`.
declare -A made=(
    ["trine-tokens"]="in_train.bin in"
    ["trine-tokenizer"]="sub/tokenizer.json sub"
)

# fresh FILE: a folder with only this input, another name for the folder itself, and a folder below it
fresh() {
    rm -rf "$work"
    mkdir -p "$work/sub"
    ln -s . "$work/alias"
    printf '%s\n' "$text" >"$work/$1"
    cd "$work"
}

# words ROW PATH: $words names the path by this row; a second argument stands behind another one
words() {
    case $1 in
        argument1) words=("$2") ;;
        argument2) words=(none "$2") ;;
        @) words=("@$2") ;;
        *) words=("$1" "$2") ;;
    esac
}

# refused PROGRAM FILE FIRST SECOND WORDS...: the message names both rows; FILE has its text, if it had, and no other
# file is there
refused() {
    local program=$1 file=$2 first=$3 second=$4 status=0 before after said
    shift 4
    before=$(echo -- * sub/*)
    tried=$((tried + 1))
    # The trainer then looks, and MPI does not start: it reads its command line all the same.
    [ "$program" != train_gpt ] || set -- --dry-run "$@"
    first=${first/argument?/argument} second=${second/argument?/argument}
    said=$(timeout 60 "$bin/$program" "$@" 2>&1 </dev/null) || status=$?
    after=$(echo -- * sub/*)
    case $said in
        *"$first"*": the same file as $second"*"; name a"*) ;;
        *"$second"*": the same file as $first"*", which is written as well; name a"*) ;;
        *) status="$status, another message" ;;
    esac
    [ ! -e "$file" ] || [ "$(<"$file")" = "$text" ] || status="$status, the text is gone"
    [ "$before" = "$after" ] || status="$status, other files: $after"
    if [ "$status" = 1 ]; then
        count=$((count + 1))
    else
        echo "$program $*: $status: $said"
    fi
}

# some NAME...: sets $spelled to one of the names, another for each pair of rows; with TRINE_FULL=1 to all
some() {
    spelled=("$@")
    [ -n "${TRINE_FULL:-}" ] || spelled=("${spelled[$((pairs % $#))]}")
}

# names FILE: other names of the file, one for each kind: the same, ./, a link of both kinds, and other ways to the folder
names() {
    case $1 in */*) set -- "$1" "${1%/*}/" "${1##*/}" ;; *) set -- "$1" "" "$1" ;; esac
    ln "$1" hard
    ln -s "$1" link
    some "$1" "./$1" link "alias/$1" hard
}

# pair PROGRAM ROW ROLE ROW ROLE: an output with another path
pair() {
    local program=$1 first=$2 role=$3 second=$4 other=$5 name words one file=in.txt
    # Folders may be the same, and one that is missing is no fault.
    [ "$role $other" != "folder folder" ] || return 0
    pairs=$((pairs + 1))
    fresh $file
    names $file
    for name in "${spelled[@]}"; do
        words "$first" "$name"
        one=("${words[@]}")
        words "$second" $file
        case $first in
            argument2) [ "$second" != argument1 ] || one=("${one[@]:1}")
                refused "$program" $file "$first" "$second" "${words[@]}" "${one[@]}" ;;
            *) refused "$program" $file "$first" "$second" "${one[@]}" "${words[@]}" ;;
        esac
    done
    # Of two outputs none may be there yet.
    case $role$other in outputoutput) ;; *) return 0 ;; esac
    rm in.txt hard
    some ./$file link alias/$file
    for name in "${spelled[@]}"; do
        words "$first" "$name"
        one=("${words[@]}")
        words "$second" $file
        refused "$program" $file "$first" "$second" "${one[@]}" "${words[@]}"
    done
}

# derived PROGRAM ROW: an input that is a file which --out makes
derived() {
    local file value name words
    read -r file value <<<"${made[$1]}"
    pairs=$((pairs + 1))
    fresh "$file"
    names "$file"
    for name in "${spelled[@]}"; do
        words "$2" "$name"
        refused "$1" "$file" --out "$2" --out "$value" "${words[@]}" none
    done
}

walk() {
    local program=$1 rows roles i k
    pairs=0 tried=0 count=0
    mapfile -t rows < <("$bin/$program" --help=paths | cut -d' ' -f1)
    mapfile -t roles < <("$bin/$program" --help=paths | cut -d' ' -f2)
    [ "${#rows[@]}" -gt 0 ] && [ "${rows[-1]}" = @ ] || { echo "$program lists no paths"; return 1; }
    for ((i = 0; i < ${#rows[@]}; i++)); do
        [ -z "${made[$program]-}" ] || derived "$program" "${rows[i]}"
        case ${roles[i]} in output | folder) ;; *) continue ;; esac
        for ((k = 0; k < ${#rows[@]}; k++)); do
            case $((i == k)):${roles[k]} in
                1:* | 0:folder) ;;
                0:output) [ "${roles[i]}" = output ] && [ $k -lt $i ] || pair "$program" "${rows[i]}" "${roles[i]}" "${rows[k]}" output ;;
                *) pair "$program" "${rows[i]}" "${roles[i]}" "${rows[k]}" input ;;
            esac
        done
    done
    cd "$root"
    [ "$count" = "$tried" ]
}

root=$PWD
all=0
for p in $programs; do
    status=0
    walk "$p" >"$dir/said" 2>&1 || status=1
    cd "$root"
    result $status "$p: no output is an input"
    echo "# $p: $pairs pairs of paths, $tried command lines, $count refused"
    all=$((all + count))
    : >"$dir/said"
done
echo "# refused in all: $all command lines"

# ---- Folders, files that no option names, tables of two programs

tiny=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 256 --global-batch-size 4
    --train-iters 2 --threads 1)
mkdir "$dir/cases"
cd "$dir/cases"
mkdir -p mod run/step-5 tok cache/blobs cache/snapshots/x
for f in mod/config.json mod/model.safetensors run/step-5/model.safetensors run/step-5/manifest.json tok/tokenizer.json \
    tok/tokenizer_config.json cache/blobs/abc d_train.bin d_val.bin a_1.bin a_2.bin w.bin w.idx r.jsonl two\ words.bin; do
    printf '%s\n' "$text" >"$f"
done
ln -s ../../blobs/abc cache/snapshots/x/model.safetensors
ln mod/model.safetensors hard
ln run/step-5/model.safetensors hard-step
ln -s mod model-link
ln -s nowhere/new dangling
mkdir nowhere
before=$(find . -type f -exec cksum {} + | sort)

# no PART COMMAND...: refused with this in the message, and all files as before
no() {
    local part=$1 program=$2
    shift 2
    run "$bin/$program" "$@"
    cat "$dir/err"
    [ "$status" = 1 ] && grep -qF -e "$part" "$dir/err" && [ "$(find . -type f -exec cksum {} + | sort)" = "$before" ]
}
of() { # of "OPTION PATH" COMMAND...: the output is a file of this folder
    no "a file of $1, which is in use" "${@:2}"
}
with() { # with "OPTION PATH" COMMAND...: it is the same file
    no "the same file as $1, which is" "${@:2}"
}
look=(train_gpt --dry-run)
check "a model's weights" of "--load mod" "${look[@]}" --load mod --log mod/model.safetensors
check "its configuration" of "argument mod" trine-eval mod --pairs r.jsonl --scores mod/config.json
check "through a link to the folder" of "--load model-link" "${look[@]}" --load model-link --log mod/config.json
check "by a hard link elsewhere" of "--load mod" "${look[@]}" --load mod --trace hard
check "a blob of a Hugging Face cache" of "--load cache/snapshots/x" "${look[@]}" --load cache/snapshots/x --log cache/blobs/abc
check "a checkpoint below --load" of "--load run" "${look[@]}" --load run --log run/step-5/manifest.json
check "a checkpoint below --save" of "--save run" "${look[@]}" --save run --log run/step-5/manifest.json
check "a checkpoint by a hard link" of "--save run" "${look[@]}" --save run --profile-json hard-step
check "a file of the checkpoint itself" of "--load run/step-5" "${look[@]}" --load run/step-5 --log run/step-5/manifest.json
check "a neighbour of a tokenizer's file" of "--tokenizer tok/tokenizer.json" "${look[@]}" --tokenizer tok/tokenizer.json \
    --log tok/tokenizer_config.json
check "what a tokenizer's folder has" of "argument tok" trine-tokenizer --out tok tok
check "a file of a pattern" with "--data-path a_2.bin" "${look[@]}" --data-path 'a_*.bin' --export-schedule a_2.bin
check "a file of a blend" with "--data-path a_1.bin" "${look[@]}" --data-path 0.7 d_train.bin 0.3 'a_*.bin' --log a_1.bin
check "a file with a blank in a blend" with "--data-path two words.bin" "${look[@]}" --data-path a_1.bin 'two words.bin' \
    --log 'two words.bin'
check "a file with a blank" with "--data-path two words.bin" "${look[@]}" --data-path 'two words.bin' --log 'two words.bin'
check "token files without .bin" with "--data-path w.bin" "${look[@]}" --data-path w --log w.bin
check "their index" with "--data-path w.idx" "${look[@]}" --data-path w --log w.idx
check "the validation that nobody named" with "--val-data-path d_val.bin" "${look[@]}" --data-path d_train.bin --log d_val.bin
check "the file of a machine's name" no "--hardware $root/" trine-plan --hardware h100 --calibrate r.jsonl \
    --out "$root/hardware/h100.json"
standard() { no "the same file as argument /dev/stdin" trine-tokens --out d - <d_train.bin; }
check "standard input" standard
check "--fingerprint and the trainer's options" with "--data-path a_1.bin" trine-verify --fingerprint a_1.bin -- \
    --data-path 'a_*.bin'
check "--out and the trainer's options" of "--tokenizer tok" trine-plan --hardware h100 --ranks 2 --calibrate r.jsonl \
    --out tok/tokenizer.json --tokenizer tok --global-batch-size 8 --vocab-size 256
check "two outputs where a link leads that leads nowhere yet" with "--trace nowhere/new" "${look[@]}" --log dangling \
    --trace nowhere/new
check "other trainers read the same table" with "--data-path d_train.bin" own_loop --data-path d_train.bin --log d_train.bin
cd "$root"
once() { # two ranks, one message
    run tools/mpirun.sh -np 2 "$bin/train_gpt" --data-path "$dir/cases/d_train.bin" --log "$dir/cases/d_train.bin"
    cat "$dir/err"
    [ "$status" != 0 ] && [ "$(grep -c 'is read and would be lost' "$dir/err")" = 1 ] && [ "$(<"$dir/cases/d_train.bin")" = "$text" ]
}
check "under mpirun it is said once" once
cd "$dir/cases"

# ---- What stays allowed

mkfifo pipe
mkdir ck
{ head -c 20000 /dev/zero | tr '\0' a; } >text.txt
"$bin/trine-tokens" text.txt --out d >/dev/null
yes() {
    run "$bin/$1" "${@:2}"
    cat "$dir/err"
    [ "$status" = 0 ]
}
go=(train_gpt "${tiny[@]}" --data-path d_train.bin)
check "a run's log, trace and events lie in its folder of checkpoints" yes "${go[@]}" --save ck --load auto --log ck/log \
    --trace ck/trace --trace-steps 1 --tensorboard ck --profile-json ck/profile
check "also when it is resumed" yes "${go[@]}" --train-iters 3 --save ck --load ck --log ck/log --trace ck/trace \
    --trace-steps 3 --tensorboard ck --profile-json ck/profile
check "the log was continued" sh -c '[ "$(grep -c "\"loss\"" ck/log)" = 3 ]'
check "two outputs to /dev/null" yes "${look[@]}" "${tiny[@]}" --data-path d_train.bin --log /dev/null --trace /dev/null \
    --trace-steps 1
check "a tokenizer is made again" yes trine-tokenizer --vocab-size 260 --out tok text.txt
check "a report to another file" yes trine-report ck/log --out ck/log.html
substituted() {
    "$bin/trine-report" ck/log --out >(cat >got) && eventually 60 grep -q "</html>" got
}
check "a process reads the report" substituted
before=$(find . -type f -exec cksum {} + | sort)
check "a pipe that nobody reads ends the wait" no "--export-schedule pipe: nobody reads this pipe" "${look[@]}" "${tiny[@]}" \
    --data-path d_train.bin --export-schedule pipe
check "a pipe is not written and read by one program" with "--data-path pipe" "${look[@]}" "${tiny[@]}" \
    --data-path pipe --export-schedule pipe
cd "$root"
done_testing
