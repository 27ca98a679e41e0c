#!/bin/sh
# bench/comm on two ranks with tiny sizes: the file has the numbers of the table for every primitive, and
# an invalid command line is an error. The times themselves are not tested.
# shellcheck disable=SC2016  # Perl expands the texts in quotation marks
. tests/lib.sh
needs perl

job() { # job ARGUMENTS...
    run tools/mpirun.sh -np 2 "$BUILD/bench/comm" --batches 1 --seconds 0 --max-bytes 1K --factor 16 "$@"
    [ "$status" -eq 0 ]
}

names='my @names = qw(all-reduce reduce reduce-scatter all-gather broadcast scatter gather all-to-all send-recv);'

job --plain --json "$dir/json"
result $? "every primitive runs, with correct results"

holds '$j->{bench} eq "comm" && $j->{figures}{ranks} == 2 && (rows "job") == 1 &&
       (rows "job")[0]{transport} =~ /^\w+$/'
result $? "the file describes the job"

holds '3 == grep { my $b = $_->{bytes}; $b == 4 || $b == 64 || $b == 1024 } rows "copy" and
       !grep { !($_->{copy_seconds} > 0 && $_->{triad_gbs} > 0) } rows "copy"'
result $? "the limit for every size"

holds "$names"'!grep { my $n = $_; 3 != (() = rows $n) } @names and (rows "barrier") == 1'
result $? "a row for every primitive and size, one for the barrier"

holds "$names"'!grep { !($_->{trine_seconds} > 0 && $_->{mpi_seconds} > 0 && $_->{plain_seconds} > 0) }
       map { rows $_ } @names, "barrier"'
result $? "three times in every row"

holds "$names"'my %bus = ("all-reduce" => 1, "reduce-scatter" => 0.5, "all-gather" => 0.5, "scatter" => 0.5,
                  "gather" => 0.5, "all-to-all" => 0.5);
       my $good = 1;
       for my $n (@names) { for (rows $n) {
           $good &&= $_->{bytes} == 4 * $_->{count} &&
               near($_->{mpi_algbw}, 1e-9 * $_->{bytes} / $_->{mpi_seconds}) &&
               near($_->{trine_busbw}, $_->{trine_algbw} * ($bus{$n} || 1)) &&
               near($_->{ratio}, $_->{mpi_seconds} / $_->{trine_seconds}); } }
       $good'
result $? "rates are those of nccl-tests for two ranks, the ratio is MPI's time / Trine's"

holds 'my @small = grep { $_->{sizes} eq "up to 4 KiB" } rows "summary";
       my ($s) = grep { $_->{primitive} eq "all-gather" } @small;
       my @ratios = sort { $a <=> $b } map { $_->{ratio} } rows "all-gather";
       @small == 11 && $s->{smallest} == $ratios[0] && $s->{asked} == 1'
result $? "the summary names the smallest ratio"

! job --only all-gathre && grep -q "did you mean all-gather" "$dir/err"
result $? "an unknown primitive is an error"

! job --max-bytes 2 && grep -q -- "--max-bytes 2: out of range; use 4 to 1G" "$dir/err"
result $? "a size below one element is an error"

done_testing
