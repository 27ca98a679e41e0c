#!/bin/sh
# trine-eval on a checkpoint of train_gpt: texts, token files and questions, every layout, and one message for each
# error in its input.
. tests/lib.sh

text=$dir/text saved=$dir/saved

# evaluates RANKS ARGUMENTS...: run_ranks of trine-eval; the result of --json is in $dir/json
evaluates() {
    ranks=$1
    shift
    run_ranks "$ranks" "$BUILD/trine-eval" "$saved" --threads 1 "$@"
    cp "$dir/out" "$dir/json"
}

# refused RANKS TEXT NAME ARGUMENTS...: one message with TEXT, and no standard output
refused() {
    ranks=$1 words=$2 name=$3
    shift 3
    evaluates "$ranks" "$@"
    messages 1 && says 1 "$words" && ended && [ ! -s "$dir/out" ]
    result $? "$name"
}

yes "the cat sat." | head -400 | tr '\n' ' ' >"$text"
head -c 700 "$text" >"$dir/part"
"$BUILD/trine-tokens" --val-fraction 0 --out "$dir/all" "$text" >"$dir/out" &&
    "$BUILD/trine-tokens" --val-fraction 0 --out "$dir/some" "$dir/part" >"$dir/out"
result $? "token files"
job 0 --data-path "$dir/all_train.bin" --train-iters 40 --lr 1e-2 --save "$saved"
[ "$status" -eq 0 ]
result $? "a model is trained and saved"

# ---- Texts

# 700 bytes in windows of 16: 43 of 16 tokens and one of 12, of which the first is not scored.
evaluates 0 --text "$dir/part" --json
[ "$status" -eq 0 ] && holds '$j->{tokens} == 700 && $j->{scored_tokens} == 656 && $j->{windows} == 44 &&
    $j->{bytes} == 656 && $j->{nats} > 1 && $j->{perplexity} < 20 && near($j->{nats_per_token}, $j->{nats} / 656) &&
    near($j->{perplexity}, exp($j->{nats_per_token})) && near($j->{bits_per_byte}, $j->{nats} / log(2) / 656)'
result $? "a text: perplexity and bits per byte"
cp "$dir/json" "$dir/alone"

evaluates 0 --text "$dir/part"
[ "$status" -eq 0 ] && prints 1 "700, of which 656 scored in 44 windows of 16, stride 16" && prints 1 "of 656 bytes"
result $? "the same for people"

evaluates 0 --data "$dir/some_train.bin" --json
[ "$status" -eq 0 ] && [ "$(grep -o '"nats":[^,]*' "$dir/json")" = "$(grep -o '"nats":[^,]*' "$dir/alone")" ] &&
    holds '!exists $j->{bytes} && $j->{task} eq "data"'
result $? "a token file of the same text has the same nats"

# Stages and replicas change no bit; over tp sums have another order.
for layout in "2 --pp 2" "2 --dp 2" "4 --dp 2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    evaluates $layout --text "$dir/part" --json
    [ "$status" -eq 0 ] && cmp "$dir/json" "$dir/alone"
    result $? "the same bits with layout $layout"
done
nats=$(grep -o '"nats":[^,]*' "$dir/alone" | cut -d: -f2)
for layout in "2 --tp 2" "4 --tp 2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    evaluates $layout --text "$dir/part" --json
    [ "$status" -eq 0 ] && holds "near(\$j->{nats}, $nats, 1e-6) && \$j->{scored_tokens} == 656"
    result $? "the same result with layout $layout"
done

evaluates 0 --text "$dir/part" --seq-length 8 --stride 3 --json
[ "$status" -eq 0 ] && holds '$j->{scored_tokens} == 699 && $j->{windows} == 232 && $j->{bytes} == 699'
result $? "overlapping windows score every token but the first"

# The first two are one text, cut between two windows.
head -c 320 "$dir/part" >"$dir/begin" && tail -c +321 "$dir/part" >"$dir/rest"
evaluates 0 --text "$dir/begin" "$dir/rest" --text "$dir/part" "$dir/part" --max-tokens 1401 --json
[ "$status" -eq 0 ] && holds "\$j->{tokens} == 1401 && \$j->{windows} == 89 && near(\$j->{nats}, 2 * $nats, 1e-6)"
result $? "several texts, up to --max-tokens"

# ---- Files of windows: each document by itself, as in a validation

"$BUILD/tests/generate/windows_driver" "$dir/windows.bin" 16
result $? "a file of windows"
job 0 --data-path "$dir/windows.bin" --val-data-path "$dir/windows.bin" --eval-iters 200 --train-iters 0 \
    --load "$saved" --load-weights-only --log "$log"
valid=$(grep -o '"val_loss":[^,}]*' "$log" | cut -d: -f2)
evaluates 0 --data "$dir/windows.bin" --json
[ "$status" -eq 0 ] && [ -n "$valid" ] && holds "near(\$j->{nats_per_token}, $valid, 1e-6) &&
    \$j->{tokens} == 3200 && \$j->{windows} == 200 && \$j->{documents} > 200 && \$j->{scored_tokens} < 3000"
result $? "documents have the loss of a validation over all windows"
cp "$dir/json" "$dir/alone"
evaluates 4 --dp 2 --pp 2 --data "$dir/windows.bin" --json
[ "$status" -eq 0 ] && cmp "$dir/json" "$dir/alone"
result $? "the same bits with dp 2 pp 2"
evaluates 0 --data "$dir/windows.bin" --max-tokens 170
[ "$status" -eq 0 ] && prints 1 "tokens         160, of which " && prints 1 " documents of 10 windows of 16"
result $? "the first windows, for people"
refused 0 "windows.bin has windows of its own, of 16 tokens" "a stride" --data "$dir/windows.bin" --stride 4
refused 0 "--seq-length 8: the windows of $dir/windows.bin have 16 tokens" "another length" \
    --data "$dir/windows.bin" --seq-length 8

# ---- Questions. An ending that begins like a shorter one is less likely than it, but more so a character.

cat >"$dir/questions" <<'QUESTIONS'
{"ctx": "the cat sat. the", "endings": ["cat", "dog"], "label": 0}

{"activity_label": "the cat", "ctx_a": "sat.", "ctx_b": "the", "endings": ["cat", "dog"], "label": "1"}
{"ctx": "the", "endings": ["x", "xat sat. the"], "label": 1}
QUESTIONS
for layout in 0 "2 --dp 2" "2 --tp 2" "2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    evaluates $layout --choices "$dir/questions" --seq-length 16 --json
    [ "$status" -eq 0 ] && holds '$j->{questions} == 3 && near($j->{acc}, 1 / 3) && near($j->{acc_norm}, 2 / 3) &&
        near($j->{acc_stderr}, 1 / 3) && near($j->{acc_norm_stderr}, 1 / 3)'
    result $? "questions with layout $layout"
done
evaluates 0 --choices "$dir/questions" --limit 1
[ "$status" -eq 0 ] && prints 1 "acc            1.0000, standard error 0.0000"
result $? "the first question only, for people"

# ---- Minimal pairs

cat >"$dir/pairs" <<'PAIRS'
{"sentence_good": "the cat sat.", "sentence_bad": "the cat xqz.", "UID": "letters", "field": "x"}

{"sentence_good": "cat sat. the", "sentence_bad": "cat sat. qzx", "UID": "order"}
{"sentence_good": "the cat sat.", "sentence_bad": "the cat sat.", "UID": "letters"}
PAIRS
evaluates 0 --pairs "$dir/pairs" --json --scores "$dir/scores"
[ "$status" -eq 0 ] && holds '$j->{task} eq "pairs" && $j->{pairs} == 3 && near($j->{acc}, 2 / 3) && $j->{ties} == 1 &&
    near($j->{acc_stderr}, 1 / 3) && $j->{uids}{letters}{pairs} == 2 && near($j->{uids}{letters}{acc}, 0.5) &&
    $j->{uids}{order}{acc} == 1 && $j->{uids}{order}{ties} == 0'
result $? "pairs: accuracy in all and by UID, ties wrong"
cp "$dir/json" "$dir/alone" && cp "$dir/scores" "$dir/scores-alone"

printf 'the cat sat.' >"$dir/sentence"
evaluates 0 --text "$dir/sentence" --json
sum=$(sed -n '1s/.*"good":-\([^,]*\),.*/\1/p' "$dir/scores")
[ "$status" -eq 0 ] && [ "$(wc -l <"$dir/scores")" -eq 3 ] && [ -n "$sum" ] && holds "near(\$j->{nats}, $sum, 1e-12)"
result $? "a score is the sentence's nats"

for layout in "2 --dp 2" "2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    evaluates $layout --pairs "$dir/pairs" --json --scores "$dir/scores"
    [ "$status" -eq 0 ] && cmp "$dir/json" "$dir/alone" && cmp "$dir/scores" "$dir/scores-alone"
    result $? "the same bits with layout $layout"
done
evaluates 0 --pairs "$dir/pairs" --limit 2
[ "$status" -eq 0 ] && prints 1 "pairs          2, of which 0 ties count as wrong" && prints 1 "1.0000 of     1  order"
result $? "the first two pairs, for people"
refused 0 "--scores requires --pairs" "scores of a text" --text "$text" --scores "$dir/scores"
echo '{"sentence_good": "the cat sat. the cat", "sentence_bad": "the"}' >>"$dir/pairs"
refused 0 "$dir/pairs:5: a sentence of 20 tokens, more than the sequence length 16 + 1" "a sentence beyond the positions" \
    --pairs "$dir/pairs"

# ---- Errors

refused 0 "expected one of --text, --data, --choices and --pairs, got 0" "no task"
refused 2 "expected one of --text, --data, --choices and --pairs, got 2" "two tasks" --text "$text" --data "$dir/all_train.bin"
refused 0 "--limit requires --choices or --pairs" "a limit of questions without any" --text "$text" --limit 1
refused 0 "--stride requires --text or --data" "windows without a text" --choices "$dir/questions" --stride 4 --max-tokens 9
refused 0 "$dir/none: " "a missing text" --text "$dir/none"
: >"$dir/empty"
refused 0 "$dir/empty: no text" "an empty text" --text "$dir/empty"
refused 2 "$dir/none.bin" "a missing token file" --data "$dir/none.bin" --dp 2
refused 0 "--stride 17: must be at most the window's 16 tokens" "a stride beyond the window" --text "$text" --stride 17
refused 2 "--seq-length 17: the model has 16 learned positions" "a window beyond the positions" --text "$text" \
    --seq-length 17
refused 3 "dp 2 x tp 1 x pp 1: must be the number of ranks, which is 3" "too few replicas" --text "$text" --dp 2
echo '{"ctx": "a", "endings": ["b"], "label": 0}' >>"$dir/questions"
refused 2 "$dir/questions:5: 1 endings; at least 2 are needed" "a bad line" --choices "$dir/questions"
printf '{"ctx": "[x]", "endings": ["b", "c"], "label": 0}\n' >"$dir/questions"
refused 0 "$dir/questions:1: ending 0: the context has no tokens" "no context" --choices "$dir/questions"
token_file "$data" 20240520 1 64 64
printf '\054\001' | dd of="$data" bs=1 seek=12 conv=notrunc status=none
refused 0 "$data has a vocabulary of 300 tokens, but the model's has 256" "a file for another model" --data "$data"
job 0 --data-path "$dir/all_train.bin" --vocab-size 300 --train-iters 1 --save "$dir/other"
saved=$dir/other
refused 2 "has no tokenizer, and the vocabulary of 300 tokens is not the 256 bytes" "text without a tokenizer" \
    --text "$text"
run sh -c '"$0" "$@" >/dev/full' "$BUILD/trine-eval" --help
disk_full
result $? "--help to a full disk"

done_testing
