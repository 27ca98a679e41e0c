#!/bin/sh
# Makes the tables of docs/memory.md with --dry-run; needs neither GPU nor MPI.
#
#     tools/memory_page.sh            print the tables
#     tools/memory_page.sh --write    write them into the page
#     tools/memory_page.sh --check    compare the page with them; exit status 1 and a diff if they differ
#
# BUILD is the folder of train_gpt (build).
set -eu

page=docs/memory.md
train=${BUILD:-build}/train_gpt

# plan LAYERS HIDDEN HEADS TP PP ARGUMENTS...: a dry run on two nodes of eight GPUs
plan() {
    layers=$1 hidden=$2 heads=$3 tp=$4 pp=$5
    shift 5
    if [ "$tp" -gt 1 ]; then set -- "$@" --sequence-parallel; fi
    "$train" --dry-run --device cuda --transport nccl --bf16 --ranks 16 --num-layers "$layers" \
        --hidden-size "$hidden" --num-attention-heads "$heads" --seq-length 2048 --vocab-size 50304 \
        --tp "$tp" --pp "$pp" --global-batch-size 512 "$@"
}

# row NAME LAYERS HIDDEN HEADS TP PP ZERO RECOMPUTE MICRO: one line of a table. Traffic of the first rank of stage 0
# crosses the network where its group spans nodes: dp with one stage, the messages of pp otherwise. The estimate
# assumes matmuls at half of the A100's 312 TFLOP/s, 230 GB/s a GPU inside a node and 25 GB/s between nodes, no
# overlap, and one third more work for full recomputation.
row() {
    plan "$2" "$3" "$4" "$5" "$6" --zero "$7" --recompute-granularity "$8" --micro-batch-size "$9" |
        awk -v layers="$2" -v hidden="$3" -v tp="$5" -v pp="$6" -v zero="$7" -v recompute="$8" \
            -v micro="$9" '
        function gib(mib) { return mib / 1024 }
        /^heaviest/ { for (i = 1; i <= NF; i++) if ($i == "MiB") most = gib($(i - 1)) }
        /^batch/ { bubble = $NF + 0 }
        /^ +dp gather/ { dp += gib($3) }
        /^ +dp reduce/ { dp += gib($3) }
        /^ +tp / && !seen++ { inside += gib($2) }
        /^ +activations out/ { messages = gib($3) }
        END {
            if (pp == 1) between = dp; else { inside += dp; between = messages }
            flops = 3 * (layers * (24 * hidden ^ 2 + 4096 * hidden) + 2 * 50304 * hidden) * 512 * 2048
            compute = flops / 16 / 156e12
            work = recompute == "full" ? compute * 4 / 3 : compute
            both = pp == 1 ? 1 : 2 # forward and backward
            step = work / (1 - bubble / 100) + inside * 1.0737 / 230 + both * between * 1.0737 / 25
            printf "| %d x %d x %d | %d | %s | %d | %.1f | %.1f%% | %.1f | %.1f | %.1f%% |\n",
                16 / tp / pp, tp, pp, zero, recompute, micro, most, bubble, inside, between,
                100 * (step / compute - 1)
        }'
}

# model NAME LAYERS HIDDEN HEADS: a table; standard input has lines of TP PP ZERO RECOMPUTE MICRO
model() {
    parameters=$(plan "$2" "$3" "$4" 8 1 | sed -n 's/^model.*: \(.*\) parameters$/\1/p')
    echo "**$1**: $2 layers, hidden $3, $4 heads, $parameters parameters."
    echo
    echo "| dp x tp x pp | ZeRO | recompute | micro-batch | GiB, heaviest rank | bubble | GiB sent inside the node | between nodes | estimate over matmuls alone |"
    echo "|---|---|---|---|---|---|---|---|---|"
    while read -r tp pp zero recompute micro; do
        row "$1" "$2" "$3" "$4" "$tp" "$pp" "$zero" "$recompute" "$micro"
    done
    echo
}

layouts() {
    model 1.3B 24 2048 16 <<-ROWS
		1 1 0 none 1
		1 1 1 none 1
		1 2 1 none 1
		2 1 1 none 1
		1 1 3 none 4
	ROWS
    model 7B 32 4096 32 <<-ROWS
		1 1 1 none 1
		1 2 0 none 1
		1 2 1 none 1
		2 1 1 none 1
		8 2 0 none 2
		1 1 3 none 4
	ROWS
    model 13B 40 5120 40 <<-ROWS
		1 1 1 none 1
		1 2 1 none 1
		1 4 1 none 1
		2 2 1 none 1
		8 1 1 none 2
		1 1 3 none 2
	ROWS
    model 30B 48 7168 56 <<-ROWS
		1 2 1 full 1
		2 2 1 none 1
		2 2 1 selective 1
		2 4 1 none 1
		4 2 1 none 1
		8 2 0 none 2
		1 1 3 full 2
	ROWS
}

# A layer of GPT-3 175B, one sample of 2048.
layer() {
    for recompute in none selective full; do
        for split in "--tp 1" "--tp 8" "--tp 8 --sequence-parallel"; do
            # shellcheck disable=SC2086  # split into arguments
            "$train" --dry-run --device cuda --transport nccl --bf16 --num-layers 8 \
                --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --vocab-size 51200 \
                $split --recompute-granularity $recompute |
                awk -v split_="$split" -v recompute=$recompute '/^layer/ {
                    gsub(/--/, "", split_)
                    printf "| %s | %s | %.1f | %.1f |\n", recompute, split_, $2, $(NF - 2) }'
        done
    done
}

layers() {
    echo "| recompute | ranks of a layer | MiB here | MiB published |"
    echo "|---|---|---|---|"
    layer
}

heaviest() {
    "$train" --dry-run --device cuda --transport nccl --bf16 --num-layers 96 --hidden-size 12288 \
        --num-attention-heads 96 --seq-length 2048 --vocab-size 51200 --dp 8 --tp 8 --pp 16 --zero 1 \
        --sequence-parallel --recompute-granularity selective --micro-batch-size 1 \
        --global-batch-size 1536 | sed -n 's/^\(heaviest.*\)$/    \1/p;s/^\(layer .*\)$/    \1/p'
}

# Prints the page with the text between each "<!-- NAME -->" and "<!-- end -->" replaced by the current table.
update_page() {
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    layouts >"$dir/layouts"
    layers >"$dir/layers"
    heaviest >"$dir/heaviest"
    awk -v dir="$dir" '
        /^<!-- end -->$/ { inside = 0 }
        !inside { print }
        /^<!-- (layouts|layers|heaviest) -->$/ {
            inside = 1
            while ((getline line < (dir "/" $2)) > 0) print line
        }' "$page"
}

case ${1:-} in
    '') layouts && layers && heaviest ;;
    --write) new=$(update_page) && printf '%s\n' "$new" >"$page" ;;
    --check) update_page | diff "$page" - ;;
    *) echo "tools/memory_page.sh: unknown argument \"$1\"; valid: --write, --check" >&2 && exit 1 ;;
esac
