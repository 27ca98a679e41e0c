#!/bin/sh
# Makes the demo's corpus: the King James text from the Debian package bible-kjv (public domain, 4.4 MB
# with its labels), one verse a line. The label at the start of each line ("Ge1:1 ") is dropped: a model
# would spend its capacity on counting verses. Bytes become tokens; the last tenth is the validation set.
# Files that exist already are kept.
set -eu
cd "$(dirname "$(realpath "$0")")/.."

build=${BUILD:-build}
dir=$build/corpus
text=$dir/kjv.txt

mkdir -p "$dir"
if [ ! -s "$text" ]; then
    # The data of a bible that tools/deps.sh --user unpacked is not where the program looks.
    data=${TRINE_DEPS:+$TRINE_DEPS/usr/lib/}
    if [ ! -e "${data}bible.data" ]; then data=; fi
    bible ${data:+-p "$data"} -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' >"$text.part"
    lines=$(wc -l <"$text.part")
    [ "$lines" = 31102 ] || {
        echo "tools/corpus.sh: bible printed $lines verses instead of 31102" >&2
        exit 1
    }
    rm -f "$dir"/kjv_train.bin "$dir"/kjv_val.bin
    mv "$text.part" "$text"
fi
if [ ! -s "$dir/kjv_train.bin" ] || [ ! -s "$dir/kjv_val.bin" ]; then
    "$build/trine-tokens" --val-fraction 0.1 --out "$dir/kjv" "$text"
fi
echo "corpus: $text, $(wc -l <"$text") verses, $(wc -c <"$text") bytes; verse labels dropped"
