#!/bin/sh
# trine-plan: rows of papers are predicted, in either form; parts add up to the step; what is refused is named.
. tests/lib.sh
needs awk

plan() { "$BUILD/trine-plan" --hardware a100-selene "$@"; }

# errors SOURCE MEAN WORST: the rows of a source are within these parts of what was measured. The limits are what
# docs/planning.md promises; predictions do not depend on the machine that makes them.
errors() {
    awk -F, -v source="$1" -v mean="$2" -v worst="$3" '
        NR == 1 { for (n = 1; n <= NF; n++) at[$n] = n }
        $1 != source { next }
        {
            seconds = $at["value"]
            if ($at["metric"] != "iter_time")
                seconds = 96e-12 * $at["batch"] * $at["seq"] * $at["layers"] * $at["hidden"] ^ 2 / seconds / $at["gpus"] * \
                    (1 + $at["seq"] / (6 * $at["hidden"]) + $at["vocab"] / (16 * $at["layers"] * $at["hidden"]))
            e = $at["predicted_seconds"] / seconds - 1
            if (e < 0) e = -e
            sum += e; rows++
            if (e > most) most = e
        }
        END {
            printf "%d rows of %s, mean error %.4f, worst %.4f\n", rows, source, sum / rows, most
            exit !(rows > 7 && sum / rows <= mean && most <= worst)
        }' "$dir/out"
}

# rows SOURCE: a table of them alone
rows() { awk -F, -v source="$1" 'NR == 1 || $1 == source' tests/plan/published.csv >"$dir/rows.csv"; }
rows SC21-T1
plan --implementation megatron-2021 --csv "$dir/rows.csv" >"$dir/out" 2>&1
check "the rows of Narayanan et al. (2021) are predicted: mean 3%, worst 6%" errors SC21-T1 0.03 0.06
rows Korthikanti-T5
plan --implementation megatron-2022 --csv "$dir/rows.csv" >"$dir/out" 2>&1
check "those of Korthikanti et al. (2022), to which nothing was fitted: mean 3.5%, worst 7%" errors Korthikanti-T5 0.035 0.07

# The same model and layout twice: with a byte order mark, CRLF, quotation marks and columns in another order.
printf 'heads,hidden,layers,seq,vocab,tp,pp,dp,batch,mbs,recompute\n24,3072,30,2048,50257,2,2,4,64,2,full\n' >"$dir/a.csv"
printf '\357\273\277"# GPUs",global batch,micro batch,hidden size,attention heads,# layers,sequence length,"tensor parallelism",data parallelism,pipeline parallelism,"a, b"\r\n16,64,2,3072,24,30,2048,2,4,2,"x ""y"""\r\n' >"$dir/b.csv"
plan --implementation megatron-deepspeed --csv "$dir/a.csv" >"$dir/a" 2>&1
plan --implementation megatron-deepspeed --recompute full --csv "$dir/b.csv" >"$dir/b" 2>&1
seconds() { awk -F, 'NR == 2 { print $NF }' "$1"; }
both_forms() {
    [ "$(seconds "$dir/a")" = "$(seconds "$dir/b")" ] && [ -n "$(seconds "$dir/a")" ] &&
        grep -q '"x ""y""",[0-9.]*$' "$dir/b" && head -1 "$dir/b" | grep -q '"a, b",predicted_seconds$'
}
check "columns of papers, and vTrain's with a byte order mark, CRLF and quotation marks" both_forms

# Key/value heads and the MLP's width change the step: fewer are faster, a wider one is slower. As the trainer has them:
# a row is the step of its options.
{
    echo heads,kv_heads,hidden,ffn,layers,seq,tp,pp,dp,batch,mbs,family
    echo 32,,4096,,8,2048,2,1,1,8,1,
    echo 32,32,4096,16384,8,2048,2,1,1,8,1,
    echo 32,,4096,20000,8,2048,2,1,1,8,1,
    echo 32,8,4096,14336,8,2048,2,1,1,8,1,
    echo 32,4,4096,14336,8,2048,2,1,1,8,1,
    echo 32,32,4096,14336,8,2048,2,1,1,8,1,llama
} >"$dir/k.csv"
plan --csv "$dir/k.csv" >"$dir/out" 2>&1
matter() {
    awk -F, 'NR > 1 { s[NR - 1] = $NF }
        END { exit !(NR == 7 && s[1] > 0 && s[1] == s[2] && s[3] > 1.01 * s[1] && s[5] < s[4] && s[4] < 0.99 * s[6]) }' "$dir/out"
}
check "kv_heads and ffn matter, and empty ones are the usual" matter
"$BUILD/trine-plan" --hardware a100-selene --ranks 2 --family llama --num-layers 8 --hidden-size 4096 --num-attention-heads 32 --num-query-groups 8 \
    --ffn-hidden-size 14336 --untied --seq-length 2048 --vocab-size 50257 --tp 2 --pp 1 --global-batch-size 8 --micro-batch-size 1 --fp16 \
    --recompute-granularity none >"$dir/search" 2>&1
of_llama() {
    awk -v rows="$(awk -F, 'NR == 5 { print $NF }' "$dir/out")" '
        $2 > 0 && $3 == "s" && !/sequence-parallel/ { d = $2 / rows - 1; n = d < 1e-3 && d > -1e-3 } END { exit !n }' "$dir/search"
}
check "a row with fewer key/value heads is a Llama" of_llama

# ---- Empty fields

sizes="--num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 --vocab-size 50257"
columns=heads,hidden,layers,seq,tp,pp,v,dp,gpus,batch,mbs,schedule,recompute,sp,zero
# filled: each row of the answer, given as it is, has the same step, and none of its fields is empty
# shellcheck disable=SC2120,SC2119  # check passes arguments
filled() {
    sed 's/,[^,]*$//' "$dir/out" >"$dir/full.csv"
    plan "$@" --csv "$dir/full.csv" >"$dir/again" 2>&1
    ! grep -q ',,' "$dir/out" && [ "$(wc -l <"$dir/out")" -gt 1 ] && cmp "$dir/out" "$dir/again"
}
{
    echo $columns
    echo 8,1024,8,512,,,,,2,64,,,,,
    echo 8,1024,8,512,,2,,2,8,64,1,,none,0,1
} >"$dir/e.csv"
plan --csv "$dir/e.csv" >"$dir/out" 2>"$dir/err"
cp "$dir/out" "$dir/found"
check "empty fields of a layout are filled in, and the row then has the same step" filled
# as the search has them: the options of its first layout, and its step
# shellcheck disable=SC2086  # words are meant to be split
"$BUILD/trine-plan" --hardware a100-selene --ranks 2 $sizes --fp16 --global-batch-size 64 >"$dir/search" 2>&1
as_searched() {
    awk -F, 'NR == 2 {
        printf "--dp %d --tp %d --pp %d", $8, $5, $6
        if ($6 > 1) printf " --schedule %s", $12
        if ($7 > 1) printf " --num-virtual-stages-per-pipeline-rank %d", $7
        printf " --zero %d --micro-batch-size %d", $15, $11
        if ($13 != "none") printf " --recompute-granularity %s", $13
        if ($14) printf " --sequence-parallel"
        print ""; print $NF }' "$dir/found" >"$dir/row"
    cat "$dir/row" "$dir/search"
    [ "$(head -n 1 "$dir/row")" = "$(awk '$1 == 1 && $3 == "s" { sub(/.*GiB */, ""); print }' "$dir/search")" ] &&
        awk -v step="$(tail -n 1 "$dir/row")" '$1 == 1 && $3 == "s" { d = $2 / step - 1; n++ } END { exit !(n && d < 1e-3 && d > -1e-3) }' "$dir/search"
}
check "they are those of the search" as_searched
kept() { awk -F, 'NR == 3 { n = $5 == 2 && $6 == 2 && $8 == 2 && $11 == 1 && $13 == "none" && $14 == 0 && $15 == 1 } END { exit !n }' "$dir/found"; }
check "what a row says is kept, dp among it" kept
{
    echo heads,hidden,layers,seq,tp,pp,v,dp,gpus,batch,mbs,schedule,recompute,sp,zero
    echo 8,1024,12,512,2,,,,8,64,2,,full,0,0
} >"$dir/e.csv"
plan --implementation megatron-2021 --csv "$dir/e.csv" >"$dir/out" 2>"$dir/err"
check "the chunks of Megatron's implementations have equally many layers there, too" filled --implementation megatron-2021
printf '%s\n' heads,hidden,layers,seq,tp,pp,dp,batch,mbs,recompute,sp,zero 8,1024,8,512,2,1,4,64,2,,, >"$dir/e.csv"
plan --recompute full --zero 2 --sequence-parallel --csv "$dir/e.csv" >"$dir/out" 2>"$dir/err"
check "an option says what empty fields have" grep -q '^8,1024,8,512,2,1,4,64,2,full,1,2,[0-9.e-]*$' "$dir/out"
printf '%s\n' heads,hidden,layers,seq,tp,pp,dp,batch,mbs 48,6144,40,2048,1,1,1,64, >"$dir/e.csv"
plan --csv "$dir/e.csv" >"$dir/out" 2>"$dir/err"
# shellcheck disable=SC2119
unfit() { grep -q 'line 2: none of [0-9]* valid layouts of 1 ranks fits in 74.5 GiB; the fastest without regard' "$dir/err" && filled; }
check "where none fits the row says so, and has the fastest" unfit

# ---- Parts

# The last columns of `--where` are the parts; the sum of seven is the step.
add_up() {
    awk -F, 'NR == 1 { last = $NF; next } { sum = 0; for (n = 0; n < 7; n++) sum += $(NF - n); step = $(NF - 7)
             d = sum / step - 1; if (d < -1e-4 || d > 1e-4) bad = 1 } END { exit bad || NR != 4 || last != "update" }' "$1"
}
{
    echo heads,hidden,layers,seq,vocab,tp,pp,v,dp,batch,mbs,schedule,recompute,sp,zero
    echo 16,2048,8,1024,50257,1,1,1,4,32,2,none,none,0,3
    echo 16,2048,8,1024,50257,2,4,2,3,48,1,interleaved,selective,1,1
    echo 16,2048,8,1024,50257,4,2,1,16,512,1,zb,none,0,0
} >"$dir/w.csv"
for by in trine megatron-2021 megatron-2022 megatron-deepspeed; do
    plan --implementation $by --where --csv "$dir/w.csv" >"$dir/where" 2>&1
    check "$by: compute, memory, tp, dp, messages, waiting and update add up to the step" add_up "$dir/where"
done

plan --range --csv "$dir/w.csv" >"$dir/out" 2>"$dir/err"
ranged() {
    grep -q '^a100-selene: 8 measured steps, ' "$dir/err" && awk -F, 'NR == 1 { last = $NF } NR > 1 { a = $(NF - 2) / $(NF - 1) - 1.0461; b = $(NF - 2) / $NF - (1 - 0.0461)
        if (a < -1e-4 || a > 1e-4 || b < -1e-4 || b > 1e-4) bad = 1 } END { exit bad || NR != 4 || last != "most_seconds" }' "$dir/out"
}
check "--range: between which seconds a step may take, by the file's worst error" ranged

# smaller PART: without a part a step of eight stages, of many micro-batches, is shorter
printf 'heads,hidden,layers,seq,vocab,tp,pp,dp,batch,mbs,recompute\n32,4096,16,2048,51200,2,8,4,256,1,full\n' >"$dir/p.csv"
plan --implementation megatron-2021 --csv "$dir/p.csv" >"$dir/a" 2>&1
smaller() {
    plan --implementation megatron-2021 --csv "$dir/p.csv" --without "$1" >"$dir/b" 2>&1
    awk -v a="$(seconds "$dir/a")" -v b="$(seconds "$dir/b")" 'BEGIN { exit !(b > 0 && b < a) }'
}
for part in memory-bound tp gradient-adds bubble dp tiles messages head update host; do
    check "--without $part is a shorter step" smaller $part
done

# refused NAME TEXT ARGUMENTS...: status 1, and the text on standard error
refused() {
    name=$1 text=$2
    shift 2
    plan "$@" >"$dir/out" 2>"$dir/err"
    [ $? -eq 1 ] && grep -qF -- "$text" "$dir/err"
    result $? "refused: $name" "$dir/err"
}
refused "tokens of a table" "--tokens requires --ranks" --csv "$dir/w.csv" --tokens 1e9
refused "columns of a search" "--where requires --csv" --ranks 2 --where
row() { printf 'heads,hidden,layers,seq,tp,pp,v,dp,batch,mbs,gpus\n%s\n' "$1" >"$dir/r.csv"; }
row 8,512,8,128,1,1,1,2,8,1,3
refused "ranks that are not the product of the layout" "line 2: gpus is 3, but tp 1 x pp 1 x dp 2 is 2" --csv "$dir/r.csv"
row 8,512,8,128,1,1x,1,2,8,1,2
refused "a field that is no number" 'line 2: pp is "1x" (valid: 1 to 256)' --csv "$dir/r.csv"
row 8,,8,128,1,1,1,2,8,1,2
refused "an empty size of the model" 'line 2: "hidden" is empty' --csv "$dir/r.csv"
row 8,512,8,128,,1,1,2,8,1,
refused "an empty tp without the number of ranks" 'line 2: gpus is empty and tp is empty: the number of ranks does not follow' --csv "$dir/r.csv"
row 8,512,8,128,1,1,1,,8,1,
refused "the same of dp" 'line 2: gpus is empty and dp is empty' --csv "$dir/r.csv"
row 8,512,8,128,,2,1,,8,1,3
refused "ranks that the layout does not divide" 'line 2: 3 ranks cannot be divided by tp 1 x pp 2' --csv "$dir/r.csv"
printf 'heads,hidden,layers,seq,tp,pp,dp,batch,mbs,family\n8,512,8,128,1,1,1,8,1,lama\n' >"$dir/r.csv"
refused "a family that there is not" 'line 2: unknown model family "lama" (known: gpt2, ' --csv "$dir/r.csv"
row 8,512,8,128,1,1,1,2,8,1
refused "a row with a field too few" "line 2: 10 fields; the header has 11" --csv "$dir/r.csv"
row 8,512,8,128,3,1,1,2,8,1,6
refused "a layout that the trainer refuses" "--num-attention-heads 8" --csv "$dir/r.csv"
row 8,512,9,128,1,2,2,1,8,1,2
refused "layers that chunks cannot share" "line 2: 9 layers cannot be divided among 4 chunks (pp x v)" --csv "$dir/r.csv" --implementation megatron-2021
refused "a part that there is not" "--without bubbles: no such part" --csv "$dir/r.csv" --without bubbles
# A row that has no time has the reason, and the other rows have their times: a row for each of the reasons, an X before it
# and behind the last.
cat >"$dir/reasons" <<'END'
8,,8,128,,,,1,1,1,1,,8,1,,,,,|"hidden" is empty
8,512,8,x,,,,1,1,1,1,,8,1,,,,,|seq is "x" (valid: 1 to
8,512,8,128,,,,1,257,1,1,,8,1,,,,,|pp is "257" (valid: 1 to 256)
8,512,8,128,,,,1,1,65,1,,8,1,,,,,|v is "65" (valid: 1 to 64)
8,512,8,128,,,,1,1,1,1,,8,1,2,,,,|sp is "2" (valid: 0 to 1)
8,512,8,128,,,,1,1,1,1,,8,1,,4,,,|zero is "4" (valid: 0 to 3)
8,512,8,128,,,,1,1,1,1,,8,1,,,1f2b,,|schedule is "1f2b" (valid: naive, gpipe
8,512,8,128,,,,1,2,1,1,,8,1,,,none,,|schedule is "none" with pp 2
8,512,8,128,,,,1,1,1,1,,8,1,,,,some,|recompute is "some" (valid: none, 
8,512,8,128,,,,1,1,1,1,,8,1,,,,,lama|unknown model family "lama" (known: gpt2, 
8,512,8,128,,,,,1,1,1,,8,1,,,,,|gpus is empty and tp is empty: the number of ranks does not follow
8,512,8,128,,,,1,1,1,2,3,8,1,,,,,|gpus is 3, but tp 1 x pp 1 x dp 2 is 2
8,512,8,128,,,,1024,256,1,1048576,,8,1,,,,,|is 274877906944 (at most 2147483647)
8,512,8,128,,,,1,2,1,,3,8,1,,,,,|3 ranks cannot be divided by tp 1 x pp 2
2,1792,8,128,,,,1,1,1,1,,8,1,,,,,|head dimension must be at most 256, not 896
8,512,8,128,,,,3,1,1,1,,8,1,,,,,|--tp 3: must divide --num-attention-heads 8
8,500,8,128,,,,1,1,1,1,,8,1,,,,,|hidden-size 500
8,512,8,128,,,,1,64,1,1,,64,1,,,,,|--pp 64
8,512,8,128,,,,1,1,1,3,,8,1,,,,,|--global-batch-size 8
8,512,8,128,,3,,1,1,1,1,,8,1,,,,,|--num-query-groups 3
8,512,8,128,,,,1,2,2,1,,8,1,,,1f1b,,|--num-virtual-stages-per-pipeline-rank 2
END
wide=heads,hidden,layers,seq,vocab,kv_heads,ffn,tp,pp,v,dp,gpus,batch,mbs,sp,zero,schedule,recompute,family
X=8,512,8,128,50257,,2048,2,2,1,1,4,8,1,1,1,1f1b,none,gpt2
printf '%s\n%s\n' $wide $X >"$dir/x.csv"
plan --csv "$dir/x.csv" >"$dir/out" 2>"$dir/err"
check "a table without such rows has no such column" [ "$(wc -l <"$dir/out") $(head -1 "$dir/out")" = "2 $wide,predicted_seconds" ]
time=$(seconds "$dir/out")
{
    echo $wide
    while IFS='|' read -r fields _; do printf '%s\n%s\n' $X "$fields"; done <"$dir/reasons"
    echo $X
} >"$dir/r.csv"
# reasons COLUMNS OPTIONS...: behind the predicted columns, of which there are so many; the times of other rows are kept
reasons() {
    columns=$1
    shift
    plan --csv "$dir/r.csv" "$@" >"$dir/out" 2>"$dir/err"
    [ $? -eq 1 ] && awk -v x="$X" -v time="$time" -v list="$dir/reasons" -v columns="$columns" '
        FNR == 1 { bad = $0 !~ /,refused$/; n = split(x, of, ","); next }
        FNR % 2 == 0 { split($0, f, ","); if (index($0, x ",") != 1 || f[n + 1] != time || $0 !~ /,$/) bad = 1; next }
        { getline row <list; cut = index(row, "|"); start = substr(row, 1, cut - 1); for (k = 0; k <= columns; k++) start = start ","
          said = $0; gsub(/""/, "\"", said); if (index(said, start) != 1 || !index(said, substr(row, cut + 1))) { print "# " row " is not in " $0; bad = 1 } }
        END { rows = getline row <list; exit bad || rows > 0 || FNR < 40 }' "$dir/out" && tail -1 "$dir/err" | grep -q "21 of 43 rows refused"
}
check "a row without a time has its reason, one for each of 21, and the others their times" reasons 1
check "the same with --range and --where" reasons 10 --range --where
printf '%s\n' heads,hidden,layers,seq,tp,pp,dp,batch,mbs 2,1792,8,128,1,1,1,8,1 >"$dir/r.csv"
"$BUILD/trine-plan" --hardware zen5-cores --csv "$dir/r.csv" >"$dir/out" 2>"$dir/err"
check "a row on a machine of CPUs has no limits of GPUs" grep -q ',1,[0-9.e-]*$' "$dir/out"
printf '%s\n' heads,hidden,layers,seq,tp,pp,dp,batch,mbs 8,512,78,128,1,12,1,24,1 8,512,72,128,1,12,1,24,1 >"$dir/r.csv"
shares() { plan --implementation megatron-2021 --csv "$dir/r.csv" >"$dir/out" 2>"$dir/err"; [ $? -eq 1 ] &&
    sed -n 2p "$dir/out" | grep -q ',1,,78 layers cannot be divided among 12 chunks (pp x v)$' && sed -n 3p "$dir/out" | grep -q ',1,[0-9.]*,$'; }
check "78 layers on 12 stages" shares

"$BUILD/trine-plan" --hardware a1000 --csv "$dir/r.csv" >"$dir/out" 2>"$dir/err"
grep -q -e '--hardware a1000: unknown machine (known: .*a100-selene' "$dir/err"
result $? "an unknown machine: those that there are" "$dir/err"

# The link that make puts beside the programs; the copy is started elsewhere, and has no folder of the same name.
anywhere() {
    mkdir -p "$dir/any/build" && cp "$BUILD/trine-plan" "$dir/any/build" && rows SC21-T1 &&
        run make -s CUDA=0 BUILD="$dir/any/build" "$dir/any/build/hardware" || return 1
    (cd "$dir/any" && run build/trine-plan --hardware a100-selene --csv ../rows.csv)
}
check "a program in any build folder finds the machines of the source tree" anywhere

done_testing
