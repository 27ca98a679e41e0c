#!/bin/bash
# README.md: its size, its Chinese twin and its commands, which are run; links, columns and the index of all pages; the
# program in docs/design.md.
set -eu
. tests/lib.sh

# ---- Text

# A first page: what does not fit belongs to a page of docs/. The Chinese page's columns are not counted.
for page in README.md README.zh-CN.md; do
    check "$page has at most 90 lines" test "$(wc -l <"$page")" -le 90
done
check "README.md has lines of at most 118 columns" test "$(LC_ALL=C.UTF-8 wc -L <README.md)" -le 118

# What both languages must share: code blocks, the number of headings and of rows in each table, and link targets.
shape() {
    awk '/^    / { print; next }
         /^#/ { print substr($1, 1) }
         /^\|/ { rows++; next }
         rows { print "table of " rows; rows = 0 }' "$1"
    grep -o '](\([^)]*\))' "$1" | grep -v -e README -e '(#' | sort -u # a page's own headings are in its language
    grep -o '`[-a-z][-a-z0-9_ /]*`' "$1" | sort -u
}
twins() {
    shape README.md >"$dir/en"
    shape README.zh-CN.md >"$dir/zh"
    diff "$dir/en" "$dir/zh"
}
check "README.zh-CN.md has the commands, tables, links and names of README.md" twins

# The Chinese page names the README that it translates.
translated() {
    sum=$(cksum <README.md | cut -d ' ' -f 1)
    grep -qx "<!-- README.md: cksum $sum -->" README.zh-CN.md || {
        echo "README.md has changed: translate the change, then write cksum $sum into README.zh-CN.md's last line"
        return 1
    }
}
check "README.zh-CN.md is the translation of this README.md" translated

# anchors PAGE: its headings as a link names them: small letters, without punctuation, spaces as "-".
anchors() {
    awk '/^ *```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print }' "$1" |
        tr -d '`' | sed 's/\[\([^]]*\)\]([^)]*)/\1/g' |
        LC_ALL=C.UTF-8 perl -CSD -ne 'chomp; $_ = lc; s/[^\w\- ]//g; s/ /-/g; print "$_\n"'
}

# Every relative link of every page names a file, and a heading of it where it has a "#".
links() {
    bad=0
    for page in *.md docs/*.md bench/*.md emu/*.md; do
        while read -r target; do
            case $target in http* | '') continue ;; esac
            file=$(dirname "$page")/${target%%#*}
            case $target in '#'*) file=$page ;; esac
            [ -e "$file" ] || { echo "$page: no file $target"; bad=1; }
            case $target in
                *'#'*) anchors "$file" | grep -qxF -- "${target#*#}" || { echo "$page: no heading $target"; bad=1; } ;;
            esac
        done < <(sed 's/`[^`]*`/X/g' "$page" | grep -o '](\([^) ]*\))' | sed 's/^](//; s/)$//')
    done
    return $bad
}
check "every link of a page names a file, and a heading of it" links

# Prose has lines that fit a terminal: of at most 118 columns. Tables, code and links by themselves may be longer.
columns() {
    awk -v most=118 '
        FNR == 1 { code = 0 }
        /^ *```/ { code = !code; next }
        code || /^    / || /^\|/ || /^ *<!--/ || !/ / { next }
        length > most { print FILENAME ":" FNR ": " length " columns"; bad = 1 }
        END { exit bad }' CONTRIBUTING.md docs/*.md bench/*.md emu/*.md
}
check "lines of prose have at most 118 columns" columns

# Every page of docs/ is in its index.
indexed() {
    for page in docs/*.md; do
        name=$(basename "$page")
        [ "$name" = README.md ] || grep -qF "($name)" docs/README.md || { echo "$name"; return 1; }
    done
}
check "docs/README.md lists every page" indexed

# Every exported function is in docs/api.md.
documented() {
    for name in $(grep -ohE '\btrine_[a-z0-9_]+\(' include/*.h | tr -d '(' | sort -u); do
        grep -qF "\`$name\`" docs/api.md || { echo "$name"; return 1; }
    done
}
check "docs/api.md has every public function" documented

# ---- Commands

# The command before the program in docs/design.md prints it, without the explanations beside the instructions.
command=$(sed -n 's/^`\(build\/train_gpt --explain [^`]*\)` prints for the last stage:$/\1/p' docs/design.md)
program() {
    awk '/prints for the last stage:$/ { found = 1 }
         found && /^    stage [0-9]+:/ { on = 1 }
         on && !/^    / { exit }
         on { sub(/^    /, ""); print }' docs/design.md |
        sed 's/^\( *[0-9]*  [A-Z_]*\( [a-z][0-9]*\)*\)  .*/\1/' >"$dir/shown"
    [ -s "$dir/shown" ] || return 1
    # shellcheck disable=SC2086  # words are meant to be split
    "$BUILD"/${command#build/} >"$dir/printed"
    sed -n "/^$(head -1 "$dir/shown" | cut -d: -f1):/,\$p" "$dir/printed" | head -"$(wc -l <"$dir/shown")" |
        diff "$dir/shown" -
}
check "the program in docs/design.md is printed by $command" program

# The commands of "Train on your text", with fewer steps, on a generated text.
mkdir "$dir/home"
ln -s "$(cd "$BUILD" && pwd)" "$dir/home/build"
ln -s "$PWD/tools" "$dir/home/tools"
cat docs/*.md >"$dir/home/corpus.txt"
awk '/^## Train on your text/ { on = 1; next } on && /^    / { print substr($0, 5) } on && /^[A-Z]/ { exit }' README.md |
    sed 's/--train-iters 300/--train-iters 3/; s/--train-iters 600/--train-iters 4/
             s/--trace trace.json/& --trace-steps 2-3/
             s/--eval-interval 50/--eval-interval 2 --eval-iters 2/
             s/--tokens 200/--tokens 20/' >"$dir/commands"
trained() {
    [ "$(grep -c -e trine-token -e train_gpt -e trine-generate "$dir/commands")" -eq 5 ] || return 1
    (cd "$dir/home" && bash -eu "$dir/commands") || return 1
    numbers "$dir/home/run.jsonl" | grep -c '"step"' | grep -qx 8 # four steps, validations at 0, 2, 3 and 4
}
check "the commands of \"Train on your text\" train, resume in another layout and generate" trained

done_testing
