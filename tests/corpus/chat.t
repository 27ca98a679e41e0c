#!/bin/bash
# trine-tokens --chat: rows of every kind, which tokens are supervised, long and bad rows, packing, and what goes wrong.
# Masks and ids are derived here by hand; tests/outside/chat.py compares real templates with transformers.
set -eu
. tests/lib.sh
needs perl gzip

tokens=$(realpath "$BUILD")/trine-tokens
mkdir -p "$dir/files/chatml" "$dir/files/qwen3" "$dir/files/llama"
cd "$dir/files"

# ---- Tokenizers: a byte is the token of its number, two line breaks are 256, then the templates' own tokens

# tokenizer TOKEN...
tokenizer() {
    perl -MJSON::PP -e '
        my ($n, %vocab) = 256;
        for my $b (0 .. 255) {
            my $plain = ($b > 32 && $b < 127) || ($b > 160 && $b != 173);
            $vocab{chr($plain ? $b : $n++)} = $b;
        }
        $vocab{"\x{10a}\x{10a}"} = 256;
        my $type = {type => "ByteLevel", add_prefix_space => JSON::PP::false, use_regex => JSON::PP::false};
        my $id = 257;
        print JSON::PP->new->ascii->encode({
            added_tokens => [map { {id => $id++, content => $_, special => $_ ne "<think>" ? JSON::PP::true : JSON::PP::false} } @ARGV],
            pre_tokenizer => $type, decoder => $type,
            model => {type => "BPE", vocab => \%vocab, merges => ["\x{10a} \x{10a}"]}});' "$@"
}
tokenizer "<|im_start|>" "<|im_end|>" "<|endoftext|>" >chatml/tokenizer.json
tokenizer "<|im_start|>" "<|im_end|>" "<|endoftext|>" "<think>" >qwen3/tokenizer.json
tokenizer "<|begin_of_text|>" "<|end_of_text|>" "<|eot_id|>" "<|start_header_id|>" "<|end_header_id|>" >llama/tokenizer.json
# What recognition looks for in the templates.
cat >chatml/chat_template.jinja <<'TEMPLATE'
{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }} {{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %} '<|im_start|>assistant\n'
TEMPLATE
cat >qwen3/chat_template.jinja <<'TEMPLATE'
{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }} {%- if loop.index0 > ns.last_query_index %}
content.split('</think>')[-1].lstrip('\n') {%- if loop.last or (not loop.last and reasoning_content) %}
{{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
'<|im_start|>' + message.role + '\n' + content {%- if add_generation_prompt %} {{- '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %} {{- '<think>\n\n</think>\n\n' }} {%- endif %} {%- endif %}
TEMPLATE
cat >llama/chat_template.jinja <<'TEMPLATE'
{{- bos_token }} "26 Jul 2024" "<|start_header_id|>system<|end_header_id|>\n\n" "Cutting Knowledge Date: December 2023\n"
"Today Date: " + date_string + "\n\n" {{- system_message }}{{- "<|eot_id|>" }} strftime_now("%d %b %Y") '<|start_header_id|>' +
message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' '<|start_header_id|>assistant<|end_header_id|>\n\n'
TEMPLATE

# show FILE: each window as a line of its tokens and one of those that are supervised, "." for the others. A document
# begins behind "|", a token that fills up is "_". Line breaks are "/", two of them as one token "2", special tokens
# letters in brackets by their number.
show() {
    perl -e '
        local $/;
        open my $in, "<", $ARGV[0] or die;
        my $all = <$in>;
        my ($magic, $version, $windows, $vocab, $low, $high, $T) = unpack "l7", $all;
        die "magic $magic" unless $magic == 20260116 && $version == 1;
        my $record = int((8 + 2 * $T + 2 * int(($T + 7) / 8) + 7) / 8) * 8;
        for my $w (0 .. $windows - 1) {
            my ($count, $hash, @rest) = unpack "LLS$T", substr $all, 1024 + $w * $record;
            my $masks = substr $all, 1024 + $w * $record + 8 + 2 * $T;
            my @supervised = split //, unpack "b$T", $masks;
            my @begins = split //, unpack "b$T", substr $masks, int(($T + 7) / 8);
            my ($text, $mask) = ("", "");
            for my $t (0 .. $T - 1) {
                my $id = $rest[$t];
                my $c = $id < 256 ? chr $id : $id == 256 ? "2" : "[" . chr($id - 257 + 65) . "]";
                $c = "/" if $c eq "\n";
                $c = "_" if $begins[$t] && ($t + 1 == $T || $begins[$t + 1]);
                my $bar = $begins[$t] && $c ne "_" ? "|" : "";
                $text .= $bar . $c;
                $mask .= ("." x length $bar) . ($supervised[$t] ? $c : "." x length $c);
            }
            die "count" if $count != grep { $_ } @supervised;
            print "$text\n$mask\n";
        }' "$1"
}

# encode FOLDER T ARGUMENTS...: all rows in x_train.bin
encode() {
    local folder=$1 T=$2
    shift 2
    run "$tokens" --tokenizer "$folder" --chat --seq-length "$T" --val-fraction 0 --out x "$@"
    [ $status = 0 ]
}

# shows FOLDER T ARGUMENTS... <LINES: the windows of rows.jsonl are these, but for tokens that fill up
shows() {
    cat >want
    encode "$@" rows.jsonl && show x_train.bin | sed 's/_*$//; s/\.*$//' >got && diff want got
}

files() {
    find . -type f -exec md5sum {} + | sort
}

# refuses TEXT ARGUMENTS...: one message with TEXT, no output, no file changed
refuses() {
    local text=$1 before
    shift
    before=$(files)
    run "$tokens" --out e "$@" </dev/null
    [ $status = 1 ] && [ ! -s "$dir/out" ] && messages 1 && grep -qF -- "$text" "$dir/err" && [ "$(files)" = "$before" ]
}

# row JSON...: rows.jsonl
row() {
    printf '%s\n' "$@" >rows.jsonl
}

# ---- Which tokens are supervised

user='{"role":"user","content":"Hi"}'
answer='{"role":"assistant","content":"Yo"}'
system='{"role":"system","content":"S"}'
row "{\"messages\":[$system,$user,$answer,$user,{\"content\":\"No\",\"role\":\"assistant\"}]}"
check "the assistant's turns, each with its end" shows chatml 80 <<'END'
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/[A]user/Hi[B]/[A]assistant/No[B]/
...........................................Yo[B]............................No[B]
END
check "--train-on last" shows chatml 80 --train-on last <<'END'
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/[A]user/Hi[B]/[A]assistant/No[B]/
............................................................................No[B]
END
check "--train-on all" shows chatml 80 --train-on all <<'END'
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/[A]user/Hi[B]/[A]assistant/No[B]/
...........S[B].........Hi[B]..............Yo[B].........Hi[B]..............No[B]
END
# A default system message is the template's. Empty content: the end alone. Two line breaks that are one token begin in
# what the template writes.
row "{\"messages\":[$user,{\"role\":\"assistant\",\"content\":\"\"},$user,{\"role\":\"assistant\",\"content\":\"\\nA\"}]}"
template() {
    encode chatml 160 rows.jsonl && show x_train.bin | sed 's/_*$//; s/\.*$//' >got &&
        grep -qF '|[A]system/You are a helpful AI assistant named SmolLM, trained by Hugging Face[B]/[A]user/Hi[B]/[A]assistant/[B]/[A]user/Hi[B]/[A]assistant2A[B]/' got &&
        sed -n 2p got | tr -d . | grep -qx '\[B\]A\[B\]'
}
check "the template's text, empty contents, and a token that begins in the template" template
# Thoughts before the last question are dropped, those behind it are the answer's; the empty ones are the template's.
row '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"<think>\nt\n</think>\n\nb"},{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}' \
    '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"<think>\nt\n</think>\n\nb"}]}'
check "thoughts" shows qwen3 90 --pack none <<'END'
|[A]user/a[B]/[A]assistant/b[B]/[A]user/c[B]/[A]assistant/[D]2</think>2d[B]/
...........................b[B]........................................d[B]
|[A]user/a[B]/[A]assistant/[D]/t/</think>2b[B]/
...........................[D]/t/</think>2b[B]
END
dated() {
    row '{"messages":[{"role":"user","content":" Hi\n"},{"role":"assistant","content":"\u3000Yo\u00a0\u2003"}]}'
    encode llama 160 rows.jsonl && show x_train.bin >got &&
        grep -qF '|[A][D]system[E]2Cutting Knowledge Date: December 2023/Today Date: 26 Jul 20242[C][D]user[E]2Hi[C][D]assistant[E]2Yo[C]_' got &&
        sed -n 2p got | tr -d . | grep -qx 'Yo\[C\]'
}
check "the date that the template names, and contents without white space of any script around them" dated

# ---- Rows as people read them

row "{\"messages\":[$system,$user,{\"role\":\"assistant\",\"content\":\"caf\u00e9\"},$user,$answer]}" '{"text":"Hi"}' "{\"messages\":[$user,$answer]}"
cat >want <<'END'
row 1: 64 tokens, 9 supervised
<|im_start|>system
S<|im_end|>
<|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
[[café<|im_end|>]]
<|im_start|>user
Hi<|im_end|>
<|im_start|>assistant
[[Yo<|im_end|>]]

row 2: 3 tokens, 2 supervised
H[[i<|endoftext|>]]

END
shown() {
    local before
    before=$(files)
    run "$tokens" --tokenizer chatml --chat --seq-length 120 --show 2 rows.jsonl
    [ $status = 0 ] && sed '$d' "$dir/out" | diff want - && prints 1 "3 rows, 7 turns, " && [ "$(files)" = "$before" ]
}
check "--show: supervised text marked, characters of several tokens whole, no file" shown
shown_bad() {
    echo '{"text":""}' >>rows.jsonl
    run "$tokens" --tokenizer chatml --chat --seq-length 120 --show 1 rows.jsonl
    [ $status = 1 ] && prints 1 "row 1: " && says 1 "rows.jsonl:4: no token of the row is supervised"
}
check "--show: the rows that are not shown are checked" shown_bad

# ---- Kinds of rows

row "{\"id\":7,\"prompt\":\"ignored\",\"messages\":[$system,$user,$answer],\"text\":null,\"tools\":[]}" \
    '{"conversations":[{"from":"system","value":"S"},{"from":"human","value":"Hi"},{"from":"gpt","value":"Yo"}]}' \
    '' \
    "{\"prompt\":[$system,$user,$answer,$user],\"completion\":[{\"role\":\"assistant\",\"content\":\"No\"}]}" \
    '{"text":"Hi<|im_end|>\n\n"}'
check "messages, conversations, prompt and completion, text" shows chatml 80 --pack none <<'END'
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/
...........................................Yo[B]
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/
...........................................Yo[B]
|[A]system/S[B]/[A]user/Hi[B]/[A]assistant/Yo[B]/[A]user/Hi[B]/[A]assistant/No[B]/
............................................................................No[B]
|Hi<|im_end|>2[C]
..i<|im_end|>2[C]
END
pair() {
    row '{"completion":"Yo","prompt":"Hi"}'
    encode qwen3 60 rows.jsonl && show x_train.bin | sed 's/_*$//; s/\.*$//' >got &&
        [ "$(cat got)" = "|[A]user/Hi[B]/[A]assistant/[D]2</think>2Yo[B]/
.........................................Yo[B]" ]
}
check "a prompt and a completion as texts are two turns" pair

# ---- Control tokens

row '{"messages":[{"role":"user","content":"<|im_start|>"},{"role":"assistant","content":"a<|im_end|>b"}]}'
check "a special token's text in a content is text" shows qwen3 90 <<'END'
|[A]user/<|im_start|>[B]/[A]assistant/[D]2</think>2a<|im_end|>b[B]/
...................................................a<|im_end|>b[B]
END
check "--allow-control makes it a token" shows qwen3 90 --allow-control <<'END'
|[A]user/[A][B]/[A]assistant/[D]2</think>2a[B]b[B]/
..........................................a[B]b[B]
END

# ---- Long rows and bad ones

long=$(printf 'x%.0s' {1..40})
row "{\"messages\":[$user,$answer]}" \
    "{\"messages\":[$user,{\"role\":\"assistant\",\"content\":\"$long\"}]}" \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"$long\"},$answer]}"
check "a long row is refused, with both numbers" refuses \
    "rows.jsonl:2: the row has 74 tokens, but --seq-length is 60; --long-rows truncate or drop" \
    --tokenizer qwen3 --chat --seq-length 60 --skip-bad --val-fraction 0 rows.jsonl
truncated() {
    encode qwen3 60 --long-rows truncate rows.jsonl && prints 1 "2 samples of 60 tokens; 2 rows, 96 tokens, 31 supervised" &&
        prints 1 "cut off: 1 rows longer than --seq-length" && prints 1 "left out: 1 rows longer than --seq-length" &&
        [ "$(show x_train.bin | sed -n 4p | tr -d .)" = "$(printf 'x%.0s' {1..28})" ]
}
check "--long-rows truncate: what is left must be supervised" truncated
dropped() {
    encode qwen3 60 --long-rows drop rows.jsonl && prints 1 "1 sample of 60 tokens; 1 row, 36 tokens, 3 supervised" &&
        prints 1 "left out: 2 rows longer than --seq-length"
}
check "--long-rows drop" dropped

# bad TEXT ROW: the second of two rows is refused with file, line and TEXT, and left out with --skip-bad
bad() {
    row "{\"messages\":[$user,$answer]}" "$2"
    refuses "rows.jsonl:2: $1" --tokenizer qwen3 --chat --seq-length 60 --val-fraction 0 rows.jsonl || return 1
    encode qwen3 60 --skip-bad rows.jsonl && prints 1 "left out: 1 bad rows" && prints 1 "1 row, 36 tokens"
}
check "no turn of the assistant" bad "no token of the row is supervised" "{\"messages\":[$user]}"
check "an unknown role" bad 'message 2: unknown role "tool"; known are system, user (human) and assistant (gpt)' \
    "{\"messages\":[$user,{\"role\":\"tool\",\"content\":\"x\"},$answer]}"
check "bytes that are no UTF-8" bad "column 51: not UTF-8" \
    "$(printf '{"messages":[{"role":"assistant","content":"caf\303\251 \377"}]}')"
check "half of a surrogate pair" bad "column 44: half of a surrogate pair" '{"messages":[{"role":"assistant","content":"\ud83d"}]}'
check "a character of 0" bad "column 44: a character of 0" '{"messages":[{"role":"assistant","content":"a\u0000b"}]}'
check "no JSON" bad "column 15: expected a JSON value" '{"messages": [}'
check "no known key" bad 'the row has no "messages", "conversations", "prompt" with "completion", or "text"' '{"prompt":"a"}'
check "no messages" bad "the row has no messages" '{"messages":[]}'
check "messages that are no list" bad '"messages" is not a list of messages' '{"messages":"a"}'
check "a message that is no object" bad "message 2 is not an object" "{\"messages\":[$answer,\"a\"]}"
check "a message without content" bad 'message 1 has no "content"' '{"messages":[{"role":"assistant"}]}'
check "a content that is no text" bad 'message 1: its "content" is not a string' '{"messages":[{"role":"assistant","content":null}]}'
check "a role twice" bad 'message 1 has "from" twice, or under another name' '{"messages":[{"role":"user","from":"gpt","content":"a"}]}'
check "a key twice" bad 'the row has "text" twice' '{"text":"ab","text":"cd"}'
check "a call of a tool" bad 'message 1 has "tool_calls", which is not supported' \
    '{"messages":[{"role":"assistant","content":"","tool_calls":[{"id":1}]}]}'
check "tools" bad '"tools" beside "messages" is not supported' "{\"messages\":[$answer],\"tools\":[1]}"
check "a text of one token" bad "no token of the row is supervised" '{"text":""}'

# ---- Packing

# 3,000 rows, most of them short, the longest of 512 tokens
perl -e '
    my $s = 1;
    sub draw { $s = ($s * 1103515245 + 12345) % 2147483648; return $s % $_[0] }
    for my $i (1 .. 3000) {
        my $n = 1 + int(440 * (draw(1000) / 1000) ** 3);
        printf "{\"messages\":[{\"role\":\"user\",\"content\":\"%d\"},{\"role\":\"assistant\",\"content\":\"%s\"}]}\n",
            $i, join "", map { chr 97 + draw(26) } 1 .. $n;
    }' >many.jsonl
efficiency() {
    local reached
    encode qwen3 512 many.jsonl && prints 1 "3000 rows, 6000 turns" || return 1
    reached=$(sed -n 's/.*efficiency //p' "$dir/out")
    echo "efficiency $reached"
    perl -e 'exit !($ARGV[0] >= 0.95)' "$reached" && cp x_train.bin packed.bin
}
check "an efficiency of 0.95" efficiency
# Each row once, as one document, whose number is in it; windows in the order of their first rows.
whole() {
    show packed.bin | sed -n 'p;n' | tr '|' '\n' | sed -n 's/^\[A\]user\/\([0-9]*\)\[B\].*\[B\]\/_*$/\1/p' >numbers
    [ "$(sort -n numbers | uniq | wc -l)" = 3000 ] && [ "$(wc -l <numbers)" = 3000 ] &&
        show packed.bin | sed -n 'p;n' | sed 's/^|\[A\]user\/\([0-9]*\).*/\1/' | sort -nc
}
check "each row once and whole, windows in order" whole
threads() {
    for n in 1 5; do encode qwen3 512 --threads $n many.jsonl && cmp x_train.bin packed.bin || return 1; done
    gzip -c many.jsonl >many.gz && encode qwen3 512 many.gz && cmp x_train.bin packed.bin
}
check "the same for any number of threads, and compressed" threads
none() {
    encode qwen3 512 --pack none many.jsonl && prints 1 "3000 samples of 512 tokens; 3000 rows" &&
        [ "$(show x_train.bin | sed -n 'p;n' | tr -cd '|\n' | sort | uniq -c | tr -d ' ')" = "3000|" ]
}
check "--pack none: a row a sample" none
held() {
    run "$tokens" --tokenizer qwen3 --chat --seq-length 512 --val-fraction 0.1 --out h many.jsonl
    [ $status = 0 ] && prints 1 "3000 rows, 6000 turns" || return 1
    local val
    val=$(sed -n 's/^h_val.bin: .* \([0-9]*\) rows.*/\1/p' "$dir/out")
    [ "$val" -ge 298 ] && [ "$val" -le 302 ] && [ "$(show h_val.bin | tr '|' '\n' | grep -c '^\[A\]user')" = "$val" ]
}
check "whole rows for validation" held
shards() {
    run "$tokens" --tokenizer qwen3 --chat --seq-length 512 --val-fraction 0 --shard-tokens 100000 --out s many.jsonl
    [ $status = 0 ] && [ -e s_train_000002.bin ] && [ "$(od -An -td4 -j8 -N4 s_train_000000.bin | tr -d ' ')" = 195 ] || return 1
    for file in s_train_*.bin; do show "$file"; done | cmp - <(show packed.bin)
}
check "shards of whole samples" shards

# ---- What goes wrong

row "{\"messages\":[$user,$answer]}"
check "no tokenizer" refuses "--chat needs --tokenizer" --chat --seq-length 60 rows.jsonl
check "no length" refuses "--chat needs --seq-length" --tokenizer qwen3 --chat rows.jsonl
check "a length of 1" refuses "--seq-length 1: a sample needs 2 tokens or more" --tokenizer qwen3 --chat --seq-length 1 rows.jsonl
for option in "--seq-length 60" "--train-on all" "--long-rows drop" --allow-control "--pack none" "--show 1"; do
    # shellcheck disable=SC2086  # an option and its value
    check "${option% *} without --chat" refuses "${option% *} needs --chat" --tokenizer qwen3 $option rows.jsonl
done
check "rows to show, and files to write" refuses '--show 1 writes no files, and --out "e" names some' \
    --tokenizer qwen3 --chat --seq-length 60 --show 1 rows.jsonl
check "a key" refuses '--json-key "x" and --chat exclude each other' --tokenizer qwen3 --chat --seq-length 60 --json-key x rows.jsonl
check "blocks" refuses "--val-split blocks and --chat exclude each other" --tokenizer qwen3 --chat --seq-length 60 --val-split blocks rows.jsonl
check "no chat template" refuses "neither chat_template.jinja nor tokenizer_config.json" \
    --tokenizer "$(mkdir bare && cp qwen3/tokenizer.json bare && echo bare)" --chat --seq-length 60 rows.jsonl
check "a tokenizer without the template's tokens" refuses "has no token <|im_start|>, which the chat template of Qwen3 writes" \
    --tokenizer "$(cp -r qwen3 wrong && cp llama/tokenizer.json wrong && echo wrong)" --chat --skip-bad --seq-length 60 rows.jsonl
check "no rows" refuses "the inputs have no rows" --tokenizer qwen3 --chat --seq-length 60 /dev/null
check "too few rows" refuses "--val-fraction 0.1 takes none of 1 rows; use a larger one, or 0" --tokenizer qwen3 --chat --seq-length 60 rows.jsonl
done_testing
