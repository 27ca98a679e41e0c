#!/bin/sh
# trine-generate with a tokenizer: text in, text out, where a text ends, chat, and one message for each error.
. tests/lib.sh
needs perl

saved=$dir/saved

# writes RANKS ARGUMENTS...: run_ranks of trine-generate
writes() {
    ranks=$1
    shift
    run_ranks "$ranks" "$BUILD/trine-generate" "$saved" --threads 1 "$@"
}

# wrote TEXT: standard output is this text and a line break
wrote() {
    [ "$status" -eq 0 ] && [ "$(cat "$dir/out")" = "$1" ]
}

# refused TEXT NAME ARGUMENTS...: one message with TEXT, and no standard output
refused() {
    words=$1 name=$2
    shift 2
    writes 0 "$@"
    messages 1 && says 1 "$words" && ended && [ ! -s "$dir/out" ]
    result $? "$name"
}

# A byte is the token of its number.
tokenizer() {
    perl -MJSON::PP -e '
        my ($n, %vocab) = 256;
        for my $b (0 .. 255) {
            my $plain = ($b > 32 && $b < 127) || ($b > 160 && $b != 173);
            $vocab{chr($plain ? $b : $n++)} = $b;
        }
        my $type = {type => "ByteLevel", add_prefix_space => JSON::PP::false, use_regex => JSON::PP::true};
        print JSON::PP->new->ascii->encode({
            added_tokens => [map { {id => 256 + $_, content => ("<|im_start|>", "<|im_end|>")[$_],
                special => JSON::PP::true} } 0, 1],
            pre_tokenizer => $type, decoder => $type,
            model => {type => "BPE", vocab => \%vocab, merges => []}});'
}

# The model learns "abcdef. abcdef. ", in which each byte tells the next
yes "abcdef." | head -400 | tr '\n' ' ' >"$dir/text"
"$BUILD/trine-tokens" --val-fraction 0 --out "$dir/all" "$dir/text" >"$dir/out"
job 0 --data-path "$dir/all_train.bin" --vocab-size 260 --seq-length 64 --train-iters 80 --lr 1e-2 --save "$saved"
[ "$status" -eq 0 ]
result $? "a model is trained and saved"
refused "use --tokenizer, or use --ids" "text without a tokenizer" --prompt A
tokenizer >"$dir/tokenizer.json"

writes 0 --tokenizer "$dir/tokenizer.json" --prompt abc --tokens 4 --temperature 0
wrote abcdef.
result $? "text through a tokenizer that was named"
cp "$dir/tokenizer.json" "$saved/step-80"
for layout in 0 "2 --tp 2" "2 --pp 2"; do
    # shellcheck disable=SC2086  # words are meant to be split
    writes $layout --prompt abc --tokens 9 --temperature 0
    wrote "abcdef. abcd"
    result $? "text through the tokenizer of the checkpoint, layout $layout"
done
writes 0 --ids "1 2 3" --tokens 30 --temperature 3 --top-p 1e-9
cp "$dir/out" "$dir/first"
writes 0 --ids "1 2 3" --tokens 30 --temperature 0
[ "$status" -eq 0 ] && cmp "$dir/out" "$dir/first" >"$dir/err"
result $? "a small top-p takes the most likely token"

# ---- The end

writes 2 --prompt abc --tokens 20 --temperature 0 --stop none --stop "abcd" --tp 2
wrote "abcdef. "
result $? "a stop text ends the text and is not written"
writes 0 --prompt abc --tokens 7 --temperature 0 --stop abc
wrote "abcdef. ab"
result $? "what may become a stop text is written at the end, and the prompt is not searched"
echo '{"eos_token_id": [3, 46]}' >"$saved/step-80/generation_config.json"
writes 0 --prompt abc --tokens 7 --temperature 0
wrote abcdef
result $? "the end of generation_config.json"
writes 0 --prompt abc --tokens 7 --temperature 0 --ignore-eos
wrote "abcdef. ab"
result $? "--ignore-eos"
echo '{"eos_token_id": "x"}' >"$saved/step-80/generation_config.json"
refused "generation_config.json: eos_token_id must be" "a broken generation_config.json" --prompt A
rm "$saved/step-80/generation_config.json"

# ---- Chat

refused "no chat template" "a model without a chat template" --chat --prompt A
cat >"$saved/step-80/chat_template.jinja" <<'TEMPLATE'
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }} {%- if loop.index0 > ns.last_query_index %}
content.split('</think>')[-1].lstrip('\n') {%- if loop.last or (not loop.last and reasoning_content) %}
{{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
'<|im_start|>' + message.role + '\n' + content
{%- if add_generation_prompt %} {{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %} {{- '<think>\n\n</think>\n\n' }}
{%- endif %} {%- endif %}
TEMPLATE
# The prompt of the message "A<|im_end|>", whose end is seven letters and marks.
writes 0 --tokens 4 --temperature 0 --ids "256 117 115 101 114 10 65 60 124 105 109 95 101 110 100 124 62 257 10
    256 97 115 115 105 115 116 97 110 116 10"
words=$(cut -d' ' -f31- "$dir/out")
# shellcheck disable=SC2086  # words are meant to be split
answer=$(perl -e 'print map chr, @ARGV' $words)
writes 0 --chat --prompt "A<|im_end|>" --tokens 4 --temperature 0
[ -n "$answer" ] && wrote "$answer"
result $? "an answer is what follows the ids of the template"
printf 'A<|im_end|>\n\n' >"$dir/lines"
for layout in 0 "2 --tp 2"; do
    # shellcheck disable=SC2016,SC2086  # expanded by the ranks; words are meant to be split
    run_ranks ${layout%% *} sh -c 'in=$1; shift; exec "$@" <"$in"' sh "$dir/lines" "$BUILD/trine-generate" "$saved" \
        --threads 1 --chat --tokens 4 --temperature 0 ${layout#"${layout%% *}"}
    wrote "$answer"
    result $? "a line of the input is a message, layout $layout"
done
writes 0 --chat --prompt A --system "$(head -c 60 /dev/zero | tr '\0' A)" --tokens 1
[ "$status" -ne 0 ] && says 1 "exceeds the model's sequence length of 64" && [ ! -s "$dir/out" ]
result $? "a conversation that is too long"

# ---- Errors

refused "--ids excludes --chat, --stop and --tokenizer, which need text" "ids and a stop text" --ids 1 --stop A
refused "--system is only for --chat" "a system message without a chat" --prompt A --system B
refused "top-p: invalid value \"1.5\"" "a probability above 1" --prompt A --top-p 1.5
echo '[INST]' >"$saved/step-80/chat_template.jinja"
refused "the chat template is Mistral's or Llama 2's ([INST]); the known ones are" "another chat template" --chat --prompt A
job 0 --data-path "$dir/all_train.bin" --seq-length 64 --train-iters 1 --save "$dir/bytes"
saved=$dir/bytes
refused "has 258 tokens, but the model's vocabulary has 256" "a tokenizer with more tokens than the model" \
    --prompt A --tokenizer "$dir"
refused "--chat: $dir/bytes has no tokenizer" "a chat in bytes" --prompt A --chat

# An untrained model has logits on both sides of 0.
writes 0 --ids 65 --tokens 20 --temperature 0 --repetition-penalty 1e9
[ "$status" -eq 0 ] && [ "$(tr ' ' '\n' <"$dir/out" | sort -u | wc -l)" -eq 21 ]
result $? "a large penalty: no token comes twice"
done_testing
