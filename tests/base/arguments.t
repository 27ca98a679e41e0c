#!/bin/bash
# Every program of tools/ and examples/ reads the arguments that it is given, or refuses them by name: none is ignored.
# And the files of a program are its own: trine-verify's tokens have no name in TMPDIR, whose name may have blanks.
. tests/lib.sh

# What a program does with arguments that are no options: nothing here, it refuses them. The words with which it reads
# one that is named "stray".
reads() {
    case $1 in
        trine-eval) echo "stray --text $dir/text" ;;
        trine-generate | trine-tokens) echo "stray" ;;
        trine-export) echo "stray $dir/exported" ;;
        trine-report) echo "stray --out $dir/page.html" ;;
        trine-tokenizer) echo "stray --vocab-size 300 --out $dir/tokenizer" ;;
    esac
}

# programs: all that the Makefile builds
programs() {
    for source in tools/*.c examples/*.c; do
        name=$(basename "$source" .c)
        case $source in tools/*) name=$(echo "$name" | tr _ -) ;; esac
        echo "$name"
    done
}

cp README.md "$dir/text"
refused=0 read=0 wrong=0 built=0
for name in $(programs); do
    [ -x "$BUILD/$name" ] || { wrong=1 && echo "# $BUILD/$name is not built"; }
    built=$((built + 1))
    words=$(reads "$name")
    # shellcheck disable=SC2086  # words are meant to be split
    run "$BUILD/$name" ${words:-stray}
    want='unexpected argument "stray"'
    if [ -n "$words" ]; then want=stray && read=$((read + 1)); else refused=$((refused + 1)); fi
    grep -qF "$want" "$dir/err" && [ "$status" -ne 0 ] || { wrong=1 && echo "# $name ${words:-stray}: status $status, $(head -n 1 "$dir/err")"; }
done
[ $wrong -eq 0 ] && [ $built -eq "$(programs | wc -l)" ] && [ $read -eq 6 ] && [ $refused -gt 10 ]
result $? "each of $built programs reads an argument ($read) or refuses it by name ($refused)"

# Where there are two parts, in both.
wrong=0
small="--vocab-size 256 --num-layers 1"
for words in "trine-prove stray $small" "trine-prove $small stray" "trine-prove $small -- $small stray" "trine-verify stray -- $small" \
    "trine-verify -- $small stray" "trine-verify --only 1 stray" "trine-plan --hardware h100 stray" "trine-plan $small --dp 2 stray" \
    "train_gpt $small stray"; do
    # shellcheck disable=SC2086
    run "$BUILD"/$words
    grep -qF 'unexpected argument "stray"' "$dir/err" && [ "$status" -eq 1 ] || { wrong=1 && echo "# $words: status $status, $(head -n 1 "$dir/err")"; }
done
result $wrong "also before and behind --"

# Options with which nothing is run are not for programs that run or prove something.
wrong=0
for words in "--dry-run" "--explain" "--layouts" "--plan auto --hardware h100 --global-batch-size 4"; do
    option=${words%% *}
    for program in "trine-verify --" "trine-prove"; do
        # shellcheck disable=SC2086
        run "$BUILD"/$program $small --data-path "$dir/none" $words
        grep -q -- "$option" "$dir/err" && [ "$status" -eq 1 ] && ! grep -q "^equal\|^proved" "$dir/out" ||
            { wrong=1 && echo "# $program $words: status $status, $(head -n 1 "$dir/err")"; }
    done
done
result $wrong "--dry-run, --explain, --layouts and --plan are refused where they would be ignored"

mkdir "$dir/with blanks"
TMPDIR="$dir/with blanks" run "$BUILD/trine-verify" --only 1 --steps 1
[ "$status" -eq 0 ] && TMPDIR="$dir/there is none" run "$BUILD/trine-verify" --only 1 --steps 1
[ "$status" -eq 0 ]
result $? "trine-verify runs whatever TMPDIR is"

TMPDIR="$dir/with blanks" background "$BUILD/trine-verify" --only 1 --steps 1000
eventually 300 grep -q "^--dp N: " "$dir/out"
left=$(ls -A "$dir/with blanks" | grep trine-verify)
kill -TERM "$launcher"
finish
[ "$status" -eq 143 ] && [ -z "$left$(ls -A "$dir/with blanks" | grep trine-verify)" ]
result $? "and has no file there, before and after SIGTERM"
done_testing
