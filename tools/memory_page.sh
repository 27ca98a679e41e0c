#!/bin/sh
# Makes the tables of docs/memory.md with --dry-run and trine-plan; needs neither GPU nor MPI.
#
#     tools/memory_page.sh            print the tables
#     tools/memory_page.sh --write    write them into the page
#     tools/memory_page.sh --check    compare the page with them; exit status 1 and a diff if they differ
#
# BUILD is the folder of train_gpt and trine-plan (build).
set -eu
cd "$(dirname "$(realpath "$0")")/.."

page=docs/memory.md
train=${BUILD:-build}/train_gpt
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# plan LAYERS HIDDEN HEADS TP PP ARGUMENTS...: a dry run on two nodes of eight GPUs
plan() {
    layers=$1 hidden=$2 heads=$3 tp=$4 pp=$5
    shift 5
    if [ "$tp" -gt 1 ]; then set -- "$@" --sequence-parallel; fi
    "$train" --dry-run --device cuda --transport nccl --bf16 --ranks 16 --num-layers "$layers" \
        --hidden-size "$hidden" --num-attention-heads "$heads" --seq-length 2048 --vocab-size 50304 \
        --tp "$tp" --pp "$pp" --global-batch-size 512 "$@"
}

# What docs/measured.md asks of text with figures.
held="<!-- held: tests/train/memory_page.t -->"

# row LAYERS HIDDEN HEADS TP PP ZERO RECOMPUTE MICRO SECONDS: one line of a table. Traffic of the first rank of stage 0
# crosses the network where its group spans nodes: dp with one stage, the messages of pp otherwise.
row() {
    plan "$1" "$2" "$3" "$4" "$5" --zero "$6" --recompute-granularity "$7" --micro-batch-size "$8" |
        awk -v tp="$4" -v pp="$5" -v zero="$6" -v recompute="$7" -v micro="$8" -v seconds="$9" '
        function gib(mib) { return mib / 1024 }
        /^heaviest/ { for (i = 1; i <= NF; i++) if ($i == "MiB") most = gib($(i - 1)) }
        /^batch/ { bubble = $NF + 0 }
        /^ +dp gather/ { dp += gib($3) }
        /^ +dp reduce/ { dp += gib($3) }
        /^ +tp / && !seen++ { inside += gib($2) }
        /^ +activations out/ { messages = gib($3) }
        END {
            if (pp == 1) between = dp; else { inside += dp; between = messages }
            printf "| %d x %d x %d | %d | %s | %d | %.1f | %.1f%% | %.1f | %.1f | %.2f |\n",
                16 / tp / pp, tp, pp, zero, recompute, micro, most, bubble, inside, between, seconds
        }'
}

# predict LAYERS HIDDEN HEADS: standard input has lines of TP PP ZERO RECOMPUTE MICRO; a step's seconds on a100-selene
# are added to each
predict() {
    {
        echo layers,hidden,heads,seq,vocab,batch,dp,tp,pp,zero,recompute,mbs
        while read -r tp pp zero recompute micro; do
            echo "$1,$2,$3,2048,50304,512,$((16 / tp / pp)),$tp,$pp,$zero,$recompute,$micro"
        done
    } >"$dir/rows"
    "$(dirname "$train")/trine-plan" --hardware a100-selene --sequence-parallel --csv "$dir/rows" |
        awk -F, 'NR > 1 { print $8, $9, $10, $11, $12, $13 }'
}

# model NAME LAYERS HIDDEN HEADS: a table; standard input has lines of TP PP ZERO RECOMPUTE MICRO
model() {
    parameters=$(plan "$2" "$3" "$4" 8 1 | sed -n 's/^model.*: \(.*\) parameters$/\1/p')
    echo "**$1**: $2 layers, hidden $3, $4 heads, $parameters parameters. $held"
    echo
    echo "| dp x tp x pp | ZeRO | recompute | micro-batch | GiB, heaviest rank | bubble | GiB sent inside the node | between nodes | seconds a step, predicted |"
    echo "|---|---|---|---|---|---|---|---|---|"
    predict "$2" "$3" "$4" >"$dir/seconds"
    while read -r tp pp zero recompute micro seconds; do
        row "$2" "$3" "$4" "$tp" "$pp" "$zero" "$recompute" "$micro" "$seconds"
    done <"$dir/seconds"
    echo "$held"
    echo
}

layouts() {
    model 1.3B 24 2048 16 <<-ROWS
		1 1 0 none 1
		1 1 1 none 1
		1 1 1 none 4
		1 2 1 none 1
		2 1 1 none 1
		1 1 3 none 4
	ROWS
    model 7B 32 4096 32 <<-ROWS
		1 1 1 none 1
		1 1 1 none 2
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

# The state of 7.5 billion parameters on 64 ranks, for each ZeRO stage: GB published, and GB of the plan of 36 layers of
# hidden size 4096, in 16 bits with gradients in 16 bits, for 7.5 billion.
zero_figure() {
    echo "| ZeRO | GB here | GB published |"
    echo "|---|---|---|"
    for published in 0:120 1:31.4 2:16.6 3:1.9; do
        "$train" --dry-run --device cuda --transport nccl --bf16 --grad-dtype bf16 --num-layers 36 --hidden-size 4096 \
            --num-attention-heads 32 --seq-length 1024 --vocab-size 50304 --untied --ranks 64 \
            --global-batch-size 64 --zero "${published%:*}" |
            awk -v zero="${published%:*}" -v published="${published#*:}" '
            /^model/ { for (i = 1; i <= NF; i++) if ($i == "B") parameters = $(i - 1) }
            /^ +(parameters|gradients|optimizer) / { mib += $2 }
            /^ +master weights / { mib += $3 }
            END { printf "| %d | %.1f | %s |\n", zero, mib * 1048576 / 1e9 * 7.5 / parameters, published }'
    done
}

# figure MODEL LAYERS HIDDEN HEADS PP V BATCH MICRO RECOMPUTE PUBLISHED: one line; the formula of a layer is multiplied
# by the layers whose activations the first stage holds, of all micro-batches together
figure() {
    schedule=1f1b sequence=
    if [ "$6" -gt 1 ]; then schedule=interleaved; fi
    if [ "$9" = selective ]; then sequence=--sequence-parallel; fi
    # shellcheck disable=SC2086  # an option or none
    "$train" --dry-run --device cuda --transport nccl --bf16 --ranks $((8 * $5)) --num-layers "$2" \
        --hidden-size "$3" --num-attention-heads "$4" --seq-length 2048 --vocab-size 51200 --tp 8 --pp "$5" --schedule $schedule \
        --num-virtual-stages-per-pipeline-rank "$6" --global-batch-size "$7" --micro-batch-size "$8" \
        --recompute-granularity "$9" $sequence |
        awk -v name="$1" -v layers="$2" -v pp="$5" -v v="$6" -v recompute="$9" -v published="${10}" '
        /^ +activations +[0-9]/ && !seen++ { here = $2 / 1024 }
        /^layer/ { formula = $(NF - 2) * layers * (v > 1 ? 1 + (pp - 1) / (pp * v) : 1) / 1024 }
        END { printf "| %s | %s | %.1f | %.1f | %.1f |\n", name, recompute, here, formula, published }'
}

figures() {
    echo "| model | recompute | GiB here | GiB by the formula | GiB published |"
    echo "|---|---|---|---|---|"
    figure 22B 48 6144 64 1 1 4 4 none 59.25
    figure 22B 48 6144 64 1 1 4 4 selective 9.5625
    figure 175B 96 12288 96 8 3 64 1 none 66.84375
    figure 175B 96 12288 96 8 3 64 1 selective 12.3515625
    figure 530B 105 20480 128 35 3 280 1 none 114.0234375
    figure 530B 105 20480 128 35 3 280 1 selective 23.076171875
    figure 1T 128 25600 160 64 1 512 1 none 131.25
    figure 1T 128 25600 160 64 1 512 1 selective 26.5625
}

heaviest() {
    "$train" --dry-run --device cuda --transport nccl --bf16 --num-layers 96 --hidden-size 12288 \
        --num-attention-heads 96 --seq-length 2048 --vocab-size 51200 --dp 8 --tp 8 --pp 16 --zero 1 \
        --sequence-parallel --recompute-granularity selective --micro-batch-size 1 \
        --global-batch-size 1536 | sed -n 's/^\(heaviest.*\)$/    \1/p;s/^\(layer .*\)$/    \1/p'
}

# Prints the page with the text between each "<!-- NAME -->" and "<!-- end -->" replaced by the current table.
update_page() {
    layouts >"$dir/layouts"
    layers >"$dir/layers"
    zero_figure >"$dir/zero"
    figures >"$dir/figures"
    heaviest >"$dir/heaviest"
    awk -v dir="$dir" '
        /^<!-- end -->$/ { inside = 0 }
        !inside { print }
        /^<!-- (layouts|layers|zero|figures|heaviest) -->$/ {
            inside = 1
            while ((getline line < (dir "/" $2)) > 0) print line
        }' "$page"
}

case ${1:-} in
    '') layouts && layers && zero_figure && figures && heaviest ;;
    --write) new=$(update_page) && printf '%s\n' "$new" >"$page" ;;
    --check) update_page | diff "$page" - ;;
    *) echo "tools/memory_page.sh: unknown argument \"$1\"; valid: --write, --check" >&2 && exit 1 ;;
esac
