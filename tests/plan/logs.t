#!/bin/sh
# The logs of trainings: of each family, whole, with frozen tensors and with adapters, in each precision. trine-plan
# calibrates by them and trine-report plans them, and the options that a log has make the configuration that ran. Logs as
# version 0.2.0 wrote them are read; what a log has that is not known here is refused, or read with a word.
# shellcheck disable=SC2016  # Perl expands the texts in quotation marks
. tests/lib.sh
needs awk perl

token_file "$data" 20240520 1 4096 4096
SMALL="$SMALL --num-attention-heads 2 --train-iters 7 --data-path $data --global-batch-size 2"
# With steps of a time that the machine could have.
paced() { sed -i 's/"seconds":[^,]*/"seconds":0.0015/' "$1"; }
calibrated() { "$BUILD/trine-plan" --hardware zen5-cores --calibrate "$1" >"$dir/said" 2>"$dir/err"; }
reported() {
    "$BUILD/trine-report" "$1" --out "$dir/page.html" >"$dir/said" 2>"$dir/err" &&
        grep -q '"planned":{"ranks":[0-9]*,' "$dir/page.html" && ! grep -q '"missing":' "$dir/page.html"
}

# The options of a log as a command line print the memory plan and the layout that the run's own command prints.
same_config() {
    perl -MJSON::PP -ne '$r = decode_json($_)->{run} or next; print "$_\n" for grep { !/^--(data-path|log|train-iters|threads|cpu-level)=/ } @{$r->{options}}' \
        "$1" >"$dir/options"
    set -- "$dir/options" "$@"
    "$TRAIN" --dry-run --explain layers @"$1" >"$dir/a" 2>&1 || return 1
    shift 2
    # shellcheck disable=SC2086
    "$TRAIN" $SMALL --dry-run --explain layers "$@" 2>&1 | grep -v -e "^data " -e "^warning: --" >"$dir/b"
    grep -v "^data " "$dir/a" | diff - "$dir/b"
}

precisions='--bf16 --device ref
--fp16 --device ref
--bf16 --grad-dtype bf16 --device ref
'
runs=0
walk() {
    for family in gpt2 llama mistral qwen2 qwen3; do
        targets=self_attn.q_proj,mlp.down_proj
        [ $family = gpt2 ] && targets=attn.c_attn,mlp.c_fc
        for part in "" "--freeze *mlp* --freeze *attn* --train *1*" "--lora-rank 2" \
            "--lora-rank 2 --lora-alpha 3 --lora-rslora --lora-dropout 0.1 --lora-targets $targets"; do
            # Each precision with a quarter of them, and with each part of some family.
            runs=$((runs + 1))
            precision=$(printf '\n%s' "$precisions" | sed -n $(((runs + runs / 4) % 4 + 1))p)
            rm -f "$log"
            set -f # patterns are for the trainer
            # shellcheck disable=SC2086
            set -- --family $family $part $precision
            set +f
            job 0 "$@" --log "$log"
            [ "$status" -eq 0 ] && paced "$log" && calibrated "$log" && reported "$log" && same_config "$log" "$@" || {
                echo "# $*"
                cat "$dir/err"
                return 1
            }
        done
    done
}
walk
result $? "every family, frozen and with adapters, in every precision: calibrated, planned, the configuration that ran ($runs runs)"

printf '0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >"$dir/order.csv"
job 2 --pp 2 --schedule "$dir/order.csv" --log "$dir/scheduled"
paced "$dir/scheduled"
scheduled() { grep -qF "\"--schedule=$dir/order.csv\"" "$dir/scheduled" && calibrated "$dir/scheduled" && reported "$dir/scheduled" && same_config "$dir/scheduled" --pp 2 --schedule "$dir/order.csv"; }
check "a schedule from a file" scheduled

# ---- Logs of other versions

job 0 --family llama --log "$dir/llama"
paced "$dir/llama"
sed 's/"--family=llama"/"--family=llama 0717efa801b29eb4"/' "$dir/llama" >"$dir/old"
both() { calibrated "$1" && reported "$1"; }
check "a family as version 0.2.0 logged it" both "$dir/old"
sed 's/"--family=llama"/"--family=llama 0717efa801b29eb5"/' "$dir/llama" >"$dir/other"
differs() { ! calibrated "$dir/other" && grep -q 'line 1: the layers of family "llama" differ from those of the run' "$dir/err"; }
check "a family of other layers is refused" differs
sed 's/"version":"[^"]*"/"version":"99.1.0"/' "$dir/llama" >"$dir/newer"
says() { calibrated "$dir/$1" && grep -qF "$2" "$dir/err" && reported "$dir/$1" && grep -qF "$3" "$dir/err"; }
check "a newer version's log is read with a word" says newer "line 1: written by version 99.1.0, newer than this" "written by version 99.1.0"
sed 's/"run":{/"run":{"moons":2,/' "$dir/llama" >"$dir/member"
check "a member that is not known, too" says member '"run" contains "moons", which is unknown to this version and is ignored' '"run" contains "moons"'
sed 's/"--num-layers=/"--num-moons=3","--num-layers=/' "$dir/newer" >"$dir/option"
refuses() {
    ! calibrated "$dir/option" && grep -qF 'this version does not accept the option "--num-moons=3"; the log is of version 99.1.0' "$dir/err" &&
        ! reported "$dir/option" && grep -q '"missing":"the log: .*num-moons=3.*of version 99.1.0' "$dir/page.html"
}
check "an option that is not known is refused, by name" refuses
done_testing
