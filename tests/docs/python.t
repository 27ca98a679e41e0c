#!/bin/sh
# The program of docs/python.md trains as train_gpt does, on one rank and on two, and fails with Trine's message; the
# sizes that it asks for are those of the headers' structs.
. tests/lib.sh

# Names of structs and unions that the headers define, and the rows of the table.
cat include/*.h | tr '\n' ' ' | sed 's|/\*|\n/*|g; s|\*/|*/\n|g' | grep -v '^/\*' | tr '\n' ' ' |
    awk '{
        while (match($0, /(typedef +(struct|union)( +trine_[a-z_0-9]+)?|struct +trine_[a-z_0-9]+) *[{]/)) {
            head = substr($0, RSTART, RLENGTH)
            $0 = substr($0, RSTART + RLENGTH)
            for (depth = 1; depth && match($0, /[{}]/); $0 = substr($0, RSTART + 1))
                depth += substr($0, RSTART, 1) == "{" ? 1 : -1
            if (head ~ /^typedef/ && match($0, /^ *trine_[a-z_0-9]+/)) head = substr($0, RSTART, RLENGTH)
            gsub(/typedef|struct|union|[ {]/, "", head)
            print head
        }
    }' | sort -u >"$dir/headers"
sed -n 's/.*X(\(trine_[a-z_0-9]*\)).*/\1/p' src/config/struct_size.c | sort >"$dir/rows"
[ "$(wc -l <"$dir/headers")" -ge 20 ] && diff "$dir/headers" "$dir/rows" >"$dir/out"
result $? "every struct of the headers has its size by name"

if ! command -v python3 >"$dir/said" || ! python3 -c 'import ctypes'; then
    skip "the program of docs/python.md" "python3 with ctypes: not installed"
    done_testing
fi

sed -n '/^```python$/,/^```$/{/^```/d;p;}' docs/python.md >"$dir/train.py"
TRINE_LIBRARY=$(realpath "$BUILD/libtrine.so.$(sed -n 's/.*TRINE_VERSION *"\(.*\)".*/\1/p' include/trine.h)")
export TRINE_LIBRARY
run "$BUILD/trine-tokens" --out "$dir/text" include/trine.h
options="$SMALL --data-path $dir/text_train.bin --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr 1e-2"

# losses of the program, and of the log of train_gpt, with all digits
for layout in "2:--dp 2" "2:--pp 2"; do
    # shellcheck disable=SC2086  # split into arguments
    run tools/mpirun.sh -np "${layout%%:*}" "$BUILD/train_gpt" $options ${layout#*:} --log "$dir/log.jsonl"
    sed -n 's/.*"loss":\([^,]*\).*/\1/p' "$dir/log.jsonl" >"$dir/c"
    rm "$dir/log.jsonl"
    # shellcheck disable=SC2086
    run tools/mpirun.sh -np "${layout%%:*}" python3 "$dir/train.py" $options ${layout#*:}
    [ "$status" = 0 ] && sed -n 's/^step [0-9]* loss //p' "$dir/out" |
        paste - "$dir/c" | awk '$1 + 0 == $2 + 0 { same++ } END { exit !(same == 4 && NR == 4) }'
    result $? "the program of docs/python.md on ${layout%%:*} ranks, ${layout#*:}: the losses of train_gpt"
done

# shellcheck disable=SC2086
run tools/mpirun.sh -np 2 python3 "$dir/train.py" $options --tp 3
[ "$status" = 1 ] && [ "$(sed "$SWEPT" "$dir/out" "$dir/err" | grep -c "^trine: ")" = 1 ]
result $? "an error is Trine's message, once"
done_testing
