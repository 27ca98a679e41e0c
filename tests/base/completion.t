#!/bin/bash
# The completion of each program for bash, as bash calls it: every option of the help, the words of choices, files.
set -eu
. tests/lib.sh

programs=$(cd "$BUILD" && ls -d train_gpt trine-* | grep -v '[.]')
bin=$(realpath "$BUILD")
for p in $programs; do
    "$bin/$p" --help=bash >"$dir/$p.bash"
    # shellcheck disable=SC1090  # made above
    . "$dir/$p.bash"
done
mkdir "$dir/files"
cd "$dir/files"
touch text_train.bin 'two words.bin' options.txt
mkdir folder

# complete_words PROGRAM WORDS...: what bash offers for the last word, a line each; it has read --name=value as three words
complete_words() {
    local function
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    function=$(complete -p "$1" | sed 's/.* -F \([^ ]*\) .*/\1/')
    "$function" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' ${COMPREPLY+"${COMPREPLY[@]}"}
}
# offers "LINES" PROGRAM WORDS...: exactly these, sorted
offers() {
    local want=$1
    shift
    complete_words "$@" >"$dir/offered"
    sort "$dir/offered" | tr '\n' ' ' >"$dir/said"
    [ "$(cat "$dir/said")" = "$want " ]
}

# options_of PROGRAM: of its help, with the second names
options_of() {
    "$bin/$1" --help | sed -n 's/^  \(-[-a-z0-9]*\),* *\(-[-a-z0-9]*\)\{0,1\}.*/\1\n\2/p' | sed '/^$/d' | sort -u
}
every_option() {
    local p
    for p in $programs; do
        complete_words "$p" - | sort -u >"$dir/offered"
        options_of "$p" >"$dir/wanted"
        [ "$(wc -l <"$dir/wanted")" -gt 3 ] && cmp "$dir/wanted" "$dir/offered" || { echo "$p"; return 1; }
    done
}
check "each program: every option of its help" every_option

# choices_of PROGRAM: of its help, "--name a|b|c"
choices_of() {
    "$bin/$1" --help | sed -n 's/^  .*\(--[-a-z0-9]*\) \([a-z0-9_-]*|[a-z0-9_|-]*\).*/\1 \2/p'
}
every_choice() {
    local p option words count=0
    for p in $programs; do
        while read -r option words; do
            [ -n "$option" ] || continue
            count=$((count + 1))
            offers "$(echo "$words" | tr '|' '\n' | sort | tr '\n' ' ' | sed 's/ $//')" "$p" "$option" "" ||
                { echo "$p $option: $words"; return 1; }
        done <<<"$(choices_of "$p")"
    done
    [ "$count" -gt 8 ]
}
check "each program: the words of every choice" every_choice

files="folder options.txt text_train.bin two words.bin"
check "a beginning" offers "--seed --seq-length --sequence-parallel --serial" train_gpt --se
check "a choice after =" offers "0 1 2 3" train_gpt --zero =
check "the beginning of one after =" offers "zb zbv" train_gpt --schedule = zb
check "a choice that may be a file" offers "zb zbv" train_gpt --schedule z
check "the file" offers "text_train.bin" train_gpt --schedule te
check "families" offers "gpt2 llama mistral qwen2 qwen3" train_gpt --family ""
check "devices" offers "cpu cuda ref" train_gpt --device ""
check "models" offers "qwen2.5-0.5b qwen2.5-1.5b qwen2.5-7b" train_gpt --model qwen2.5
check "a file, with a blank in its name" offers "two words.bin" train_gpt --data-path tw
check "a word or a file" offers "auto $files" train_gpt --load ""
check "a file of options" offers "@options.txt" train_gpt @o
check "a number has none" offers "" train_gpt --num-layers ""
check "a flag is followed by options" offers "--exact --exact-dp --exact-threads --exact-tp" train_gpt --audit --exact
check "and an optional word by both" offers "layers" train_gpt --explain l
check "or an option" offers "--layouts" train_gpt --explain --la
check "arguments are files" offers "$files" trine-eval ""
done_testing
