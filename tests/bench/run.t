#!/bin/bash
# Runs the benchmarks on a tiny model: their file is JSON with the documented entries, flops and bounds equal
# those computed by hand here, and no file or process is left. Times are not tested.
# shellcheck disable=SC2016
. tests/lib.sh
needs perl pgrep

mkdir "$dir/tmp"
export TMPDIR=$dir/tmp

# bench PART...: the operands of kernels are larger than a cache of 256 KiB, not than the machine's
tiny="--reps 2 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16
      --vocab-size 256 --micro-batch-size 2"
bench() {
    FLAGS="$tiny --cache-kib 256 ${more:-}" JSON=$dir/json LIMIT=200 run bench/run.sh "$BUILD" "$@"
}

bench
[ $status -eq 0 ] && quiet
result $? "all parts run"

holds '7 == grep { $j->{$_}{bench} eq $_ } qw(matmul kernels step layouts demo checkpoint generate)'
result $? "the file lists all parts"

holds '! grep { my $m = $_->{machine};
    !length $m->{cpu} || $m->{cores} < 1 || $m->{threads} < 1 || $m->{last_level_cache} != 262144 ||
        $m->{compiler} !~ /^(gcc|clang) \d/ || $m->{onednn} !~ /^\d+\.\d+/ || !length $m->{mpi}
    } values %$j'
result $? "each part describes the machine"

# N = 2 x 12 x 32^2 + 256 x 32 = 32768 weights; 6 N + 6 x 2 x 32 x 16 flops a token; 32 tokens.
holds 'my $f = $j->{matmul}{figures}; $f->{matmul_weights} == 32768 &&
    $f->{T16_flops_per_token} == 202752 && $f->{T16_matmul_flops} == 6 * 32768 * 32'
result $? "flops are 6N + 6LCT"

holds 'my $t = $j->{matmul}{tables}{T16}; @$t == 20 &&
    !(grep { $_->{best_ms} <= 0 || $_->{best_ms} > $_->{median_ms} ||
             !near($_->{gflops} * $_->{best_ms}, 1e3 * $_->{gflop}) } @$t) &&
    with($t, "layer", "mlp.c_fc")->{gflop} == 2 * 32 * 128 * 32 / 1e9 &&
    with($t, "layer", "logits")->{times} == 1 && with($t, "layer", "mlp.c_proj")->{times} == 2'
result $? "a row for each matmul, with the rate of its fastest run"

holds 'my $f = $j->{matmul}{figures}; my $s = 0; my %best;
    $best{$_->{product}} += $_->{times} * $_->{best_ms} / 1e3 for @{$j->{matmul}{tables}{T16}};
    $s += $best{$_} for "y = x w^T", "dx = dy w";
    near($f->{T16_add_seconds}, $s + $best{"dw += dy^T x"}) &&
        near($f->{T16_set_seconds}, $s + $best{"dw = dy^T x"})'
result $? "the sum of the matmuls is that of a step"

holds 'my $k = $j->{kernels}{tables}; @{$k->{memory}} == 25 && @{$k->{attention}} == 4 && @{$k->{documents}} == 2 &&
    !(grep { !near($_->{ratio}, $_->{documents_ms} / $_->{whole_ms}) } @{$k->{documents}}) &&
    near(with($k->{memory}, "operator", "adamw")->{mib},
         7 * 4 * (12 * 32 ** 2 + 13 * 32) / 2 ** 20) &&
    with($k->{attention}, "operator", "attention_forward")->{gflop} == 2 * 2 * 16 ** 2 * 32 / 1e9 &&
    !(grep { !near($_->{share}, $_->{gbps} / $_->{triad_gbps}) } @{$k->{memory}})'
result $? "every operator with its bytes and its limit"

# On processors with bf16 a step is measured in both types; elsewhere bf16 is reported as skipped.
types=fp32
if has_bf16; then types="fp32 bf16"; fi
holds 'my $s = $j->{step}{tables}{steps}; "@{[map { $_->{type} } @$s]}" eq "'"$types"'" && !(grep {
    $_->{T} != 16 || !near($_->{gflops}, 202752 * $_->{tokens_per_second} / 1e9) ||
    !near($_->{ratio}, $_->{gflops} / $_->{matmul_gflops}) ||
    !near($_->{seconds_over_matmuls}, $_->{step_seconds} / $_->{matmul_seconds}) } @$s)'
result $? "a step compared with its matmuls"

if [ "$types" = fp32 ]; then
    holds '!(grep { $j->{$_}{skipped}[0] !~ /bf16/ } qw(matmul kernels step))'
    result $? "what is not measured in bf16 is reported"
else
    # A parameter has a copy of 2 bytes; its line is read before it is written.
    holds 'my $f = $j->{step}{figures}; my $s = $j->{step}{tables}{steps}; my $k = $j->{kernels}{tables};
        near($f->{T16_bf16_over_fp32}, $s->[0]{step_seconds} / $s->[1]{step_seconds}) &&
            near($f->{T16_matmuls_bf16_over_fp32}, $s->[0]{matmul_seconds} / $s->[1]{matmul_seconds}) &&
            near(with($k->{memory_bf16}, "operator", "adamw")->{mib},
                 (7 * 4 + 2 * 2) * (12 * 32 ** 2 + 13 * 32) / 2 ** 20) &&
            near(with($k->{memory_bf16}, "operator", "gelu_backward")->{mib} * 2,
                 with($k->{memory}, "operator", "gelu_backward")->{mib}) &&
            @{$j->{matmul}{tables}{T16_bf16}} == 20 && $j->{matmul}{figures}{T16_bf16_over_fp32} > 0'
    result $? "bf16 compared with fp32, in each part"
fi

if [ "$(nproc)" -ge 2 ]; then
    # 4 micro-batches in 2 stages: a fifth of the time is bubble. Stages: embedding and a block, a block and head.
    holds 'my $l = $j->{layouts}; my $t = $l->{tables}{layouts}; my $f = $l->{figures}; my $p = $t->[2];
        my @s = ($f->{embedding_seconds} + $f->{block_seconds}, $f->{head_seconds} + $f->{block_seconds});
        my $most = $s[0] > $s[1] ? $s[0] : $s[1];
        "@{[map { $_->{layout} } @$t]}" eq "dp 2 zero 1 tp 2 pp 2" &&
            !(grep { !near($_->{ratio}, $_->{one_rank_step_seconds} / $_->{step_seconds}) } @$t) &&
            near($p->{bubble}, 0.2) && near($p->{balance}, ($s[0] + $s[1]) / 2 / $most) &&
            near($p->{bound}, 0.8 * $p->{balance}) && near($p->{share}, $p->{ratio} / $p->{bound}) &&
            !defined $t->[0]{bound}'
    result $? "layouts compared with one rank, the pipeline with its bound"
fi

holds 'my $d = $j->{demo}{tables}{demo}; @$d == 2 && $d->[0]{ranks} == 1 && $d->[1]{ranks} == 8 &&
    near($d->[1]{ratio}, $d->[0]{step_seconds} / $d->[1]{step_seconds})'
result $? "the demo's eight ranks compared with one"

# Another test's benchmark may have such a folder for a moment.
no_folder() {
    ! ls -d "$BUILD"/bench-*
}

# 34176 parameters, three numbers of four bytes each, and two headers.
holds 'my $t = $j->{checkpoint}{tables}{checkpoint}; my $f = $j->{checkpoint}{figures};
    my $headers = $f->{bytes} - 12 * 34176;
    @$t == 3 && $headers > 0 && $headers < 32768 && $headers % 256 == 0 &&
    3 == grep { near($_->{ratio}, $_->{dd_seconds} / $_->{seconds}) &&
                near($_->{gb_per_second}, 1e-9 * $f->{bytes} / $_->{seconds}) } @$t' &&
    eventually 120 no_folder
result $? "a checkpoint's bytes, compared with dd; its files are removed"

# What a token reads: two blocks of 12 C^2 + 13 C weights, the last norm, the tied matrix, and the keys and values of 9
# positions (3 of the prompt, half of 13 generated ones).
holds 'my $t = $j->{generate}{tables}{generate};
    @$t >= 1 && @$t == grep { near($_->{ratio}, $_->{tokens_per_second} / $_->{plain_tokens_per_second}) &&
        near($_->{gigabytes_per_second}, 1e-9 * $_->{tokens_per_second} * ($_->{type} eq "fp32" ? 4 : 2) *
            (2 * (12 * 32 * 32 + 13 * 32) + 2 * 32 + 256 * 32 + 2 * 2 * 32 * 9)) &&
        near($_->{over_limit}, $_->{token_ms} / $_->{read_ms}) } @$t'
result $? "text generation, with and without a cache"

grep -q "NOT THE REAL SIZE" "$dir/out" && holds '$j->{step}{figures}{real_size} == 0'
result $? "a model of another size is labelled as such"

# A program without mpirun leaves Open MPI 5's own empty folders behind.
nothing_left() {
    [ -z "$(find "$dir/tmp" -mindepth 1 ! -type d -o -mindepth 1 -maxdepth 1 ! -name 'ompi.*')" ]
}

# tools/mpirun.sh leaves a process that checks once a second whether its launcher still runs, and then exits.
patience=10
while pgrep -f "$dir/tmp" >/dev/null && [ $((patience -= 1)) -gt 0 ]; do sleep 1; done
nothing_left && ! pgrep -f "$dir/tmp" >/dev/null
result $? "no files and no processes are left"

bench nonsense
[ $status -eq 1 ] && grep -q 'unknown part "nonsense"' "$dir/err"
result $? "an unknown part is an error"

more="--type bf16" bench step
if [ "$types" = fp32 ]; then
    [ $status -ne 0 ] && grep -q "bf16" "$dir/err"
else
    [ $status -eq 0 ] && holds 'my $s = $j->{step}{tables}{steps}; @$s == 1 && $s->[0]{type} eq "bf16"'
fi
result $? "only the type that is given"
more="--type fp64" bench step
[ $status -ne 0 ] && grep -q "fp64" "$dir/err"
result $? "an unavailable type is an error"

more="" bench planned
[ $status -eq 1 ] && grep -q -e "--hardware is missing" "$dir/err"
result $? "forecasts need a hardware file"
more="--hardware h100 --only tiny" bench planned
[ $status -eq 0 ] && holds 'my $r = $j->{planned}{tables}{planned}[0]; $j->{planned}{figures}{rows} == 1 &&
    $r->{planned_bytes} == $r->{taken_bytes} && $r->{planned_bytes} > 1e6 && $r->{planned_seconds} > 0 &&
    near($r->{error_percent}, 100 * ($r->{planned_seconds} / $r->{step_seconds} - 1), 1e-6)'
result $? "a step is planned and measured; ranks take the bytes that are planned"

more="--only dp" MPIRUN=/bin/false bench layouts demo
if [ "$(nproc)" -ge 2 ]; then
    [ $status -eq 1 ] && grep -q "did not start" "$dir/err" && grep -q "bench: layouts" "$dir/err" &&
        grep -q "bench: demo" "$dir/err" && nothing_left && holds '!%$j'
    result $? "a failure to start ranks is an error, and no files are left"
fi

if command -v taskset >/dev/null; then
    FLAGS=$tiny JSON=$dir/json timeout -k 5 200 taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')" \
        bench/run.sh "$BUILD" layouts >"$dir/out" 2>"$dir/err" &&
        holds '$j->{layouts}{skipped}[0] =~ /need two cores/ && !%{$j->{layouts}{tables}}'
    result $? "parts that the machine is too small for are skipped, with the reason"
    cache=$(cat /sys/devices/system/cpu/cpu0/cache/index*/size 2>/dev/null | sed 's/K$/ 1/; s/M$/ 1024/' |
        awk '$1 * $2 > most { most = $1 * $2 } END { print 1024 * most }')
    holds '$j->{layouts}{machine}{last_level_cache} == '"$cache"' || !'"$cache"
    result $? "its last-level cache is that of the machine"
fi

done_testing
