#!/bin/bash
# make bench DEVICE=cuda on the emulated GPU, with a tiny model: the parts run, their numbers are consistent,
# flops, bytes and memory equal those computed by hand here, and the reported micro-batch is the largest that fits.
# Times on the emulation mean nothing and are not tested.
# shellcheck disable=SC2016
. tests/lib.sh
needs perl

export CUDA_LIBRARY=$BUILD/emu/libtrine_cuda.so DEVICE=cuda
export TRINE_EMU_CACHE=65536

# bench PART...
tiny="--reps 1 --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 64
      --threads 1"
one="--micro-batch-size 1 --micro-batches 3"
bench() {
    FLAGS="$tiny ${more:-}" JSON=$dir/json LIMIT=200 run bench/run.sh "$BUILD" "$@"
}

[ -e "$CUDA_LIBRARY" ] || skip_all "no $CUDA_LIBRARY"

more=$one bench
[ $status -eq 0 ] && quiet
result $? "matmul, kernels and step run"

holds '"@{[sort keys %$j]}" eq "kernels matmul step" &&
    !grep { $_->{machine}{gpu} ne "Emulated GPU" || $_->{machine}{precision} ne "fp32" ||
            $_->{machine}{gpu_versions} !~ /CUDA 13\.0, cuBLAS \d+\.\d/ ||
            $_->{figures}{gpu_bytes} != 4 * 2 ** 30 || $_->{figures}{gpu_multiprocessors} != 6
          } values %$j'
result $? "each part describes the GPU"

# 16 tokens; N of c_fc is 128, K 32.
holds 'my $t = $j->{matmul}{tables}{T16}; @$t == 20 && with($t, "layer", "mlp.c_proj")->{times} == 2 &&
    near(with($t, "layer", "mlp.c_fc")->{gflop}, 2 * 16 * 128 * 32 / 1e9) &&
    !grep { $_->{best_ms} <= 0 || $_->{own_ms} <= 0 || $_->{by} !~ /^cuBLASLt \d$/ ||
            !near($_->{tflops} * $_->{best_ms}, $_->{gflop}) ||
            !near($_->{own_tflops} * $_->{own_ms}, $_->{gflop}) ||
            !near($_->{ratio}, $_->{best_ms} / $_->{own_ms}) ||
            !near($_->{peak_share}, $_->{tflops} / 67) } @$t'
result $? "the device's products compared with the library's, relative to the fp32 peak"

# A GPU does not read a line before it writes it: gelu moves 2 x 16 x 128 numbers, a fill 12704.
holds 'my $k = $j->{kernels}{tables}; @{$k->{memory}} == 25 && @{$k->{attention}} == 4 && @{$k->{documents}} == 2 &&
    !(grep { !near($_->{ratio}, $_->{documents_ms} / $_->{whole_ms}) } @{$k->{documents}}) &&
    near(with($k->{memory}, "operator", "gelu_forward")->{mib}, 2 * 4 * 16 * 128 / 2 ** 20) &&
    near(with($k->{memory}, "operator", "norm_backward")->{mib}, 4 * (4 * 16 * 32 + 32) / 2 ** 20) &&
    near(with($k->{memory}, "operator", "zero (memset)")->{mib}, 4 * 12704 / 2 ** 20) &&
    near(with($k->{memory}, "operator", "adamw")->{mib}, 7 * 4 * 12704 / 2 ** 20) &&
    with($k->{attention}, "operator", "attention_backward")->{gflop} == 4 * 16 ** 2 * 32 / 1e9 &&
    $j->{kernels}{figures}{least_share} == (sort { $a <=> $b } map { $_->{share} } @{$k->{memory}})[0] &&
    !grep { $_->{copy_gbps} <= 0 || !near($_->{share}, $_->{gbps} / $_->{copy_gbps}) ||
            !near($_->{gbps} * $_->{median_ms} * 1e6, $_->{mib} * 2 ** 20) } @{$k->{memory}}'
result $? "every operator compared with a copy, with the bytes that a GPU moves"

# N = 2 x 12 x 32^2 + 64 x 32 = 26624 weights; 12 L C T = 12 x 2 x 32 x 16.
holds 'my $s = $j->{step}{tables}{steps}; my $r = $s->[0]; @$s == 1 &&
    $r->{micro_batch} == 1 && $r->{micro_batches} == 3 && $r->{layers} == 2 && $r->{hidden} == 32 &&
    $r->{flops_per_token} == 6 * 26624 + 12288 &&
    near($r->{tokens_per_second} * $r->{step_seconds}, 48) &&
    near($r->{tflops}, $r->{tokens_per_second} * $r->{flops_per_token} / 1e12) &&
    near($r->{mfu}, $r->{tflops} / 989) && near($r->{peak_share}, $r->{tflops} / 67) &&
    near($r->{ratio} * $r->{matmul_tflops}, $r->{tokens_per_second} * (6 * 26624 + 6144) / 1e12)'
result $? "utilisation counts 6N + 12LCT, the ratio only the causal half of attention"

# The operators' names and times; the rest of a step is gaps between them and at its end.
holds 'my $i = $j->{step}{tables}{idle}[0]; my @o = @{$j->{step}{tables}{operators_2_32}};
    my ($rest, $step) = splice @o, -2;
    $i->{operators} == sum("calls", @o) && @o >= 20 &&
        near(sum("ms", @o), $i->{operators_ms}) && near($rest->{ms}, $i->{gaps_ms}) &&
        near(sum("gap_ms", @o, $rest), $i->{gaps_ms}) && $step->{ms} == $i->{step_ms} &&
        near($i->{operators_ms} + $i->{gaps_ms}, $i->{step_ms}, 1e-4) &&
        near($i->{idle}, 100 * $i->{gaps_ms} / $i->{step_ms}) && $i->{idle_net} <= $i->{idle} &&
        $i->{starved} < $i->{operators} && $i->{host_ms} > 0'
result $? "operators and gaps add up to the step"

# Rate x time = work; the sum over all matmuls and attention is the step's work.
holds 'my $work = 0; my $t = $j->{step}{tables};
    $work += 1e9 * $_->{rate} * $_->{ms} for grep { $_->{unit} eq "TFLOP/s" } @{$t->{operators_2_32}};
    near($work, 48 * (6 * 26624 + 6144)) && with($t->{operators_2_32}, "operator", "xent_loss")->{calls} == 3'
result $? "all micro-batches are counted"

# The emulated driver allocates memory in pages of 4 KiB.
holds 'my $m = $j->{step}{tables}{memory}[0]; $m->{own} == 48 && $m->{later} == 0 &&
    $m->{plan} > 0.2 && near($m->{taken}, $m->{plan} + $m->{over_plan}) &&
    $m->{over_plan} >= 0 && $m->{over_plan} < 2 ** 12 / 2 ** 20 &&
    !defined $m->{room} && $m->{card} == 4096'
result $? "the bytes allocated equal the plan"

grep -q "NOT THE REAL SIZE" "$dir/out" && holds '$j->{step}{figures}{real_size} == 0'
result $? "a model of another size is labelled as such"

# The devices of the limit, the trainer and the program allocate 48 MiB each; 64 MiB stay free.
more="--micro-batches 2" TRINE_EMU_MEMORY=$((213 << 20)) bench step
holds 'my $m = $j->{step}{tables}{memory}[0]; $m->{plan} <= $m->{room} &&
    $m->{room} < 213 - 3 * 48 - 64 && $j->{step}{tables}{steps}[0]{micro_batch} > 1'
result $? "the largest micro-batch fits"

batch=$(perl -MJSON::PP -0e 'print decode_json(<>)->{step}{tables}{steps}[0]{micro_batch}' "$dir/json")
room=$(perl -MJSON::PP -0e 'print decode_json(<>)->{step}{tables}{memory}[0]{room}' "$dir/json")
more="--micro-batches 2 --micro-batch-size $((batch + 1))" bench step
holds '$j->{step}{tables}{memory}[0]{plan} > '"$room"
result $? "one more sample does not fit"

more="--micro-batches 2" TRINE_EMU_MEMORY=$((208 << 20)) bench step
[ $status -eq 0 ] && holds '$j->{step}{skipped}[0] =~ /one sample needs .*KiB, but the GPU has/ &&
    !@{$j->{step}{tables}{steps}}'
result $? "a model that does not fit at all is skipped, with the reason"

more="$one --tf32" bench matmul
[ $status -eq 0 ] && holds '$j->{matmul}{machine}{precision} eq "TF32" &&
    !grep { !near($_->{peak_share}, $_->{tflops} / 494.5) } @{$j->{matmul}{tables}{T16}}'
result $? "TF32 if requested, relative to its own peak"

TRINE_EMU_GPUS=0 more=$one bench
[ $status -eq 1 ] && grep -q "no GPU can be used: no CUDA-capable device" "$dir/err" &&
    [ "$(grep -c "bench: .* failed (exit status 2)" "$dir/err")" -eq 1 ] && holds '!%$j'
result $? "without a GPU the reason is printed once"

more=$one bench layouts
[ $status -eq 1 ] && grep -q -- "--device cuda: layouts runs on the CPU only" "$dir/err"
result $? "parts for CPUs do not run on a GPU"

DEVICE='' more="$one --tf32" bench matmul
[ $status -eq 1 ] && grep -q -- "--cuda-library and --tf32 require --device cuda" "$dir/err"
result $? "TF32 requires a GPU"

done_testing
