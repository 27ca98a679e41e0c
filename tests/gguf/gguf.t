#!/bin/bash
# trine-export --format gguf: every family in every type against the checkpoint's weights and tokenizer (gguf_driver), the
# same bytes from any layout, and what GGUF or llama.cpp cannot say.
set -eu
. tests/lib.sh

build=$(realpath "$BUILD")
root=$PWD
tiny=$root/tests/tokenizer/tiny.json
mkdir "$dir/files"
cd "$dir/files"
"$build/trine-tokens" --tokenizer "$tiny" --val-fraction 0 --out ids "$root/include/trine.h" >/dev/null

# train ARGUMENTS...: two steps of a small model with a tokenizer and a chat template
mkdir tok && cp "$tiny" tok/tokenizer.json
echo '{"eos_token": "<|endoftext|>", "chat_template": "{% for m in messages %}\u2581{{ m[\"content\"] }}\n{% endfor %}"}' >tok/tokenizer_config.json
train() {
    "$build/train_gpt" --data-path ids_train.bin --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 16 \
        --vocab-size 480 --threads 1 --train-iters 2 --lr-decay-style constant --tokenizer tok "$@" >out
}

# gguf FROM OUT TYPE
gguf() {
    rm -f "$2" && "$build/trine-export" --format gguf --type "$3" "$1" "$2" >out
}

# holds FROM TYPES... [-- LINES...]: the export of each type has what the folder export has, and its entries these lines
holds() {
    local from=$1 types="" type line
    shift
    rm -rf whole && "$build/trine-export" "$from" whole >out || return 1
    while [ $# -gt 0 ] && [ "$1" != -- ]; do types+=" $1" && shift; done
    [ $# -eq 0 ] || shift
    for type in $types; do
        gguf "$from" new.gguf "$type" && "$build/tests/gguf/gguf_driver" new.gguf whole "$type" >entries || return 1
        for line in "$@"; do grep -qFx -- "$line" entries || { echo "no $line" && cat entries && return 1; }; done
    done
}

family() { # family NAME ARGUMENTS... -- LINES...
    local name=$1 options=""
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=" $1" && shift; done
    # shellcheck disable=SC2086  # words
    train --family "$name" --save "$name" $options && holds "$name" f32 f16 bf16 q8_0 "$@"
}
check "GPT-2" family gpt2 -- "tokenizer.ggml.pre = gpt-2" "tokenizer.ggml.bos_token_id = 466" "tokenizer.ggml.add_bos_token = 0" \
    "general.name = new" "tensor position_embd.weight 0"
check "Llama, with fewer heads of keys and values, of another width" family llama --num-query-groups 2 \
    --kv-channels 24 --ffn-hidden-size 96 --untied -- "llama.attention.head_count_kv = 2" "llama.feed_forward_length = 96"
check "Mistral" family mistral --max-position-embeddings 40 --rotary-base 50000 -- "llama.context_length = 40"
check "Qwen2" family qwen2 --num-query-groups 2 -- "tensor blk.1.attn_k.bias 0"
check "Qwen3" family qwen3 --kv-channels 32 -- "tensor blk.1.attn_q_norm.weight 0"
untied() {
    holds llama f32 -- "tensor output.weight 0" && holds qwen2 f32 && ! grep -q "^tensor output.weight" entries &&
        train --untied --save untied && holds untied q8_0 -- "tensor output.weight 8"
}
check "a head of its own is output.weight, a tied one is not written" untied

# Rows of 48 are no blocks of 32.
odd() {
    train --hidden-size 48 --save odd && holds odd q8_0 -- "tensor token_embd.weight 1" "tensor blk.0.ffn_down.weight 8" &&
        grep -q "^7 matrices are f16, because their rows are not a multiple of 32 numbers, which q8_0 requires" out
}
check "a matrix whose rows are no multiple of 32 is f16, and that is said" odd

# Whatever layout has written the checkpoint, and whether its weights or masters are read.
layouts() {
    train --exact --exact-tp 2 --save one && mkdir one.d two.d && gguf one one.d/m.gguf q8_0 &&
        (cd "$root" && tools/mpirun.sh -np 4 "$build/train_gpt" --data-path "$dir/files/ids_train.bin" --num-layers 2 --hidden-size 64 \
            --num-attention-heads 4 --seq-length 16 --vocab-size 480 --threads 1 --train-iters 2 --lr-decay-style constant \
            --tokenizer "$dir/files/tok" --exact --exact-tp 2 --tp 2 --pp 2 --save "$dir/files/two") >out && gguf two two.d/m.gguf q8_0 &&
        cmp one.d/m.gguf two.d/m.gguf && "$build/trine-export" two as-folder >out && mkdir three.d && gguf as-folder three.d/m.gguf q8_0 &&
        cmp one.d/m.gguf three.d/m.gguf
}
check "1 rank, tp 2 x pp 2, and a Hugging Face folder of it: the same bytes" layouts
by_default() {
    mkdir e && gguf llama e/d.gguf f32 && "$build/trine-export" --format gguf llama d.gguf >out && cmp d.gguf e/d.gguf &&
        grep -q "^d.gguf: llama/step-2, f32, for llama.cpp" out
}
check "the type is f32 if none is named" by_default

# ---- Positions

# scaled FAMILY ROPE: a folder of the family whose config.json has this rope_scaling
scaled() {
    rm -rf scaled && "$build/trine-export" "$1" scaled >out && sed "s/\"rope_scaling\":[^,]*/\"rope_scaling\": $2/" scaled/config.json >c.json &&
        mv c.json scaled/config.json
}
llama3='{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}'
factors() {
    scaled llama "$llama3" && holds scaled f32 q8_0 -- "tensor rope_freqs.weight 0" && ! grep -q rope.scaling entries
}
check "rope scaling llama3 is a tensor" factors
linear() {
    scaled qwen3 '{"rope_type": "linear", "factor": 4}' &&
        holds scaled f32 -- "qwen3.rope.scaling.type = linear" "qwen3.rope.scaling.factor = 4"
}
check "rope scaling linear is two entries" linear

# ---- Tokenizers

# tokenizer SED...: the folder gpt with another tokenizer
rm -rf gpt && "$build/trine-export" gpt2 gpt >out
tokenizer() {
    rm -rf other && cp -r gpt other && sed "$@" "$tiny" >other/tokenizer.json && ! cmp -s "$tiny" other/tokenizer.json
}
start=$(printf '%s' "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\\\\\r\\\\\\\\n\\\\\\\\p{L}\\\\\\\\p{N}]?\\\\\\\\p{L}+|")
rest=$(printf '%s' "| ?[^\\\\\\\\s\\\\\\\\p{L}\\\\\\\\p{N}]+[\\\\\\\\r\\\\\\\\n]*|\\\\\\\\s*[\\\\\\\\r\\\\\\\\n]+|\\\\\\\\s+(?!\\\\\\\\S)|\\\\\\\\s+")
level='{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}'
words() { # words STAGE...: the line of the pre-tokenizer
    printf '"pre_tokenizer":{"type":"Sequence","pretokenizers":[%s]},' "$1"
}
cut() { # cut DIGITS: Llama 3's stage
    words "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"$start$1$rest\"},\"behavior\":\"Isolated\",\"invert\":false},$level"
}
named() { # named NAME SED...: llama.cpp's name for the words
    local name=$1
    shift
    tokenizer "$@" && holds other f32 -- "tokenizer.ggml.pre = $name"
}
check "the words of Qwen2" named qwen2 "s~^\"pre_tokenizer\".*~$(cut '\\\\p{N}')~"
check "of Llama 3" named llama-bpe -e "s~^\"pre_tokenizer\".*~$(cut '\\\\p{N}{1,3}')~" -e 's/"ignore_merges":false/"ignore_merges":true/'
check "of SmolLM" named smollm \
    "s~^\"pre_tokenizer\".*~$(words '{"type":"Digits","individual_digits":true},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}')~"
reached() {
    "$build/trine-tokenizer" --vocab-size 400 --out trained "$root/include/trine.h" >out && rm -rf other && cp -r gpt other &&
        sed 's/"ignore_merges":\([[:space:]]*\)false/"ignore_merges":\1true/' trained/tokenizer.json >other/tokenizer.json && ! cmp -s {trained,other}/tokenizer.json &&
        cp trained/tokenizer_config.json other && holds other f32 -- "tokenizer.ggml.pre = gpt-2"
}
check "merges that make every token: ignore_merges changes nothing" reached

template='"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"e","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"e":{"id":"e","ids":[466],"tokens":["e"]}}},'
begins() {
    tokenizer "s~^\"post_processor\".*~$template~" && holds other f32 -- "tokenizer.ggml.add_bos_token = 1" "tokenizer.ggml.bos_token_id = 466"
}
check "a token before each text" begins
nfc() {
    tokenizer 's/"normalizer":null/"normalizer":{"type":"NFC"}/' && holds other f32 &&
        grep -q "^other/tokenizer.json: texts are normalized (NFC); llama.cpp does not do that" out
}
check "a normal form is left out, and that is said" nfc
none() {
    rm -rf other && cp -r gpt other && rm other/tokeni* && holds other f32 -- "tokenizer.ggml.model = none" &&
        grep -q "^other has no tokenizer: the file has no vocabulary, and programs must give ids" out
}
check "no tokenizer is no vocabulary, and that is said" none

# pieces MERGES NORMALIZER: the folder gpt with a tokenizer of SentencePiece's kind; U+2581 and abc are characters
pieces() {
    rm -rf other && cp -r gpt other && rm other/tokenizer_config.json && perl -e '
        my ($merges, $normalizer) = @ARGV;
        my @words = ("<unk>", "<s>", "</s>", map(sprintf("<0x%02X>", $_), 0 .. 255), "\342\226\201", "a", "b", "c", "ab", "\342\226\201a", "abc", "\342\226\201ab");
        my $vocab = join(",", map("\"$words[$_]\":$_", 0 .. $#words));
        my $added = join(",", map("{\"id\":$_,\"content\":\"$words[$_]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}", 0 .. 2));
        $merges =~ s/_/\342\226\201/g;
        $merges = join(",", map({ "[\"" . join("\",\"", split(/-/)) . "\"]" } split(/ /, $merges)));
        print "{\"added_tokens\":[$added],$normalizer,\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],",
            "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,",
            "\"vocab\":{$vocab},\"merges\":[$merges]}}"' "$1" "$2" >other/tokenizer.json &&
        sed -e 's/"eos_token_id":[^,]*/"eos_token_id": 2/' gpt/config.json >other/config.json
}
merges="a-b _-a ab-c _a-b _-ab"
legacy='"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"Replace","pattern":{"String":" "},"content":"\u2581"}]},"pre_tokenizer":null'
first='"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false}'
sentences() {
    pieces "$merges" "$legacy" && holds other f32 -- "tokenizer.ggml.pre = default" "tokenizer.ggml.add_space_prefix = 1" \
        "tokenizer.ggml.add_bos_token = 1" "tokenizer.ggml.bos_token_id = 1" "tokenizer.ggml.eos_token_id = 2" && ! grep "gets no space" out
}
check "SentencePiece's kind has scores in the order of its merges" sentences
spaces() {
    pieces "$merges" "$first" && holds other f32 -- "tokenizer.ggml.add_space_prefix = 1" &&
        grep -q "^other/tokenizer.json: a text that begins with a space, or follows a special token, gets no space before it; llama.cpp does not" out
}
check "a space that llama.cpp writes more is said" spaces

# ---- Refused

. "$root/tests/gguf/refuses.sh"
refuses_model() { # refuses_model TEXT [TYPE]
    refuses "$1" --format gguf --type "${2:-f32}" other no.gguf
}
refuses_tokenizer() { # refuses_tokenizer TEXT SED...
    local text=$1
    shift
    tokenizer "$@" && refuses_model "$text"
}
check "other words" refuses_tokenizer "llama.cpp has no name for its pre-tokenizers; the known ones are GPT-2's, Llama 3's" \
    "s~^\"pre_tokenizer\".*~$(cut '\\\\p{N}{1,2}')~"
check "words that take the place of spaces" refuses_tokenizer "llama.cpp has no name for its pre-tokenizers" \
    "s~^\"pre_tokenizer\".*~\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true},~"
check "another normal form" refuses_tokenizer "normalizer NFKC, which GGUF cannot express" 's/"normalizer":null/"normalizer":{"type":"NFKC"}/'
check "a token that takes spaces" refuses_tokenizer "added token 466 has lstrip, which GGUF cannot express" 's/"lstrip":false/"lstrip":true/'
check "a token that is a whole word" refuses_tokenizer "added token 466 has single_word" 's/"single_word":false/"single_word":true/'
check "two tokens before a text" refuses_tokenizer "the template writes 2 tokens before a text, the first is 466; GGUF can express only one" \
    "s~^\"post_processor\".*~${template/\[466\]/[466, 5]}~"
check "a token that merges do not make, and words that are not merged" refuses_tokenizer \
    "ignore_merges is true, llama.cpp's \"gpt-2\" merges a word that is a token, and the merges do not make token 460" \
    's/"ignore_merges":false/"ignore_merges":true/'
check "a tokenizer of another kind" refuses_tokenizer "pre-tokenizer BertPreTokenizer is not supported" \
    's~^"pre_tokenizer".*~"pre_tokenizer":{"type":"BertPreTokenizer"},~'
refuses_pieces() { # refuses_pieces TEXT MERGES [NORMALIZER]
    pieces "$2" "${3:-$legacy}" && refuses_model "$1"
}
check "a token of SentencePiece's kind that two others would make" refuses_pieces \
    "no merge makes token 266 of \"▁\" and \"ab\"; llama.cpp's \"llama\" would" "a-b _-a ab-c _a-b"
check "merges of a token with another's between them" refuses_pieces \
    "between two merges that make token 266 is one of token 265" "a-b _-a _a-b ab-c _-ab"
check "words that SentencePiece does not cut" refuses_pieces "neither those of a ByteLevel tokenizer nor Llama 2's" "$merges" \
    '"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true}'
endless() {
    rm -rf other && cp -r gpt other && sed 's/<|endoftext|>/<|sep|>/' "$tiny" >other/tokenizer.json && echo '{}' >other/tokenizer_config.json &&
        sed 's/"eos_token_id":[^,]*/"eos_token_id": null/' gpt/config.json >other/config.json &&
        refuses_model "no token is known to end a text, and a GGUF file needs one"
}
check "no token that ends a text" endless
wide() {
    train --family qwen2 --kv-channels 24 --save wide && refuses "4 heads of width 24 are 96 wide, and llama.cpp's qwen2 has them as wide as its hidden size 64" \
        --format gguf wide no.gguf
}
check "Qwen2 with heads of another width" wide
turned() {
    scaled qwen3 "$llama3" && refuses "rope scaling llama3: llama.cpp supports it only in Llama models, and this is a qwen3" --format gguf scaled no.gguf
}
check "Qwen3 with Llama 3's positions" turned
# The first numbers are those of the token matrix: 1e6.
beyond() {
    rm -rf other && cp -r gpt other && printf '\0\044\164\111' |
        dd of=other/model.safetensors bs=1 seek=$((8 + $(od -An -tu8 -N8 other/model.safetensors))) conv=notrunc status=none &&
        refuses_model "has 1e+06, above 65504, the largest f16" f16 && holds other bf16 q8_0
}
check "a number that f16 does not have" beyond
check "a file that exists" refuses "d.gguf already exists; name a new file" --format gguf llama d.gguf
check "a folder that exists" refuses "gpt already exists; name a new file" --format gguf llama gpt
check "a type without GGUF" refuses "--type q8_0: a Hugging Face folder has the checkpoint's type" --type q8_0 llama new
check "an unknown type" refuses "q4_0" --format gguf --type q4_0 llama no.gguf
left() {
    echo dear >l.gguf.0123456789abcdef.writing && gguf llama l.gguf f32 && grep -q "l.gguf.0123456789abcdef.writing is left over from an" out &&
        [ "$(cat l.gguf.0123456789abcdef.writing)" = dear ]
}
check "what an interrupted export has left is reported" left
done_testing
