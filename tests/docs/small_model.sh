#!/bin/sh
# Makes a Hugging Face folder of a Llama of two layers for docs/finetune.md and tests/docs/conversations.t: the tokenizer
# of tests/tokenizer/tiny.json with the tokens and the chat template of SmolLM2, and weights of some steps on the
# questions of examples/conversations.jsonl. Usage: tests/docs/small_model.sh FOLDER [tokenizer]; "tokenizer": without weights.
set -eu

build=${BUILD:-build} folder=$1
work=$folder.work
rm -rf "$folder" "$work"
mkdir -p "$work"

# token ID TEXT
token() {
    printf ',{"id":%d,"content":"%s","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}' "$@"
}
added=$(token 467 '<|im_start|>' && token 468 '<|im_end|>')
sed "s/^\"added_tokens\":\[{[^}]*}/&$added/" tests/tokenizer/tiny.json >"$work/tokenizer.json"
echo '{"eos_token": "<|im_end|>"}' >"$work/tokenizer_config.json"
cat >"$work/chat_template.jinja" <<'END'
{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}
END
if [ "${2:-}" = tokenizer ]; then
    mv "$work" "$folder"
    exit
fi

# Only what is asked: the page's figures then change with the conversations alone.
grep -o '"role": "user", "content": "[^"]*"' examples/conversations.jsonl | sed 's/.*"content": "//; s/"$//' >"$work/questions.txt"
"$build/trine-tokens" --tokenizer "$work" --val-fraction 0 --out "$work/text" "$work/questions.txt"
"$build/train_gpt" --tokenizer "$work" --family llama --num-layers 2 --hidden-size 64 --num-attention-heads 4 \
    --seq-length 512 --global-batch-size 2 --train-iters 40 --lr 1e-2 --lr-warmup-iters 4 --threads 1 \
    --data-path "$work/text_train.bin" --save "$work/run"
"$build/trine-export" "$work/run" "$folder"
rm -rf "$work"
