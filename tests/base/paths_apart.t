#!/bin/bash
# No output destroys an input: every pair of paths that every program has, from the tables themselves (--help=paths), each
# under several names. A pair is refused by a message with both options, status 1, and nothing is written.
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

# names FILE: other names of the file, one for each kind: the same, ./, a link of both kinds, and other ways to the folder
names() {
    case $1 in */*) set -- "$1" "${1%/*}/" "${1##*/}" ;; *) set -- "$1" "" "$1" ;; esac
    ln "$1" hard
    ln -s "$1" link
    spelled=("$1" "./$1" link "alias/$1" "sub/../$1" hard)
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
    for name in ./$file link alias/$file; do
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
done_testing
