#!/bin/sh
# TEST timeout=120
# bench/comm on two ranks with tiny sizes: the file holds what the table shows, for every primitive, and
# a command line that cannot run is refused. Nothing is said about the times themselves.
# shellcheck disable=SC2016  # Perl expands what stands in quotation marks
. tests/needs.sh
needs perl
BUILD=${BUILD:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0
failed=0

result() { # result STATUS NAME: one TAP line, and what was said when it is a failure
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        sed 's/^/# /' "$dir/out" "$dir/err"
        failed=1
    fi
}

job() { # job ARGUMENTS...
    tools/mpirun.sh -np 2 "$BUILD/bench/comm" --batches 1 --seconds 0 --max-bytes 1K --factor 16 "$@" \
        >"$dir/out" 2>"$dir/err"
}

# holds EXPRESSION: Perl, with the file as $f, is true
holds() {
    perl -MJSON::PP -e '
        local $/;
        open my $in, "<", shift or die;
        my $f = decode_json(<$in>);
        sub rows { @{$f->{tables}{$_[0]}} }
        my @names = qw(all-reduce reduce reduce-scatter all-gather broadcast scatter gather
                       all-to-all send-recv);
        my $good = eval shift;
        die $@ if $@;
        exit !$good;' "$dir/json" "$1" 2>>"$dir/err"
}

echo "1..9"

job --plain --json "$dir/json"
result $? "every primitive runs, and every result is right"

holds '$f->{bench} eq "comm" && $f->{figures}{ranks} == 2 && (rows "job") == 1 &&
       (rows "job")[0]{transport} =~ /^\w+$/'
result $? "the file says which job it was"

holds '3 == grep { my $b = $_->{bytes}; $b == 4 || $b == 64 || $b == 1024 } rows "copy" and
       !grep { !($_->{copy_seconds} > 0 && $_->{triad_gbs} > 0) } rows "copy"'
result $? "the limit, for every size"

holds '!grep { my $n = $_; 3 != (() = rows $n) } @names and (rows "barrier") == 1'
result $? "a row for every primitive and size, one for the barrier"

holds '!grep { !($_->{trine_seconds} > 0 && $_->{mpi_seconds} > 0 && $_->{plain_seconds} > 0) }
       map { rows $_ } @names, "barrier"'
result $? "three times in every row"

holds 'my %bus = ("all-reduce" => 1, "reduce-scatter" => 0.5, "all-gather" => 0.5, "scatter" => 0.5,
                  "gather" => 0.5, "all-to-all" => 0.5);
       my $near = sub { abs($_[0] / $_[1] - 1) < 1e-12 };
       my $good = 1;
       for my $n (@names) { for (rows $n) {
           $good &&= $_->{bytes} == 4 * $_->{count} &&
               $near->($_->{mpi_algbw}, 1e-9 * $_->{bytes} / $_->{mpi_seconds}) &&
               $near->($_->{trine_busbw}, $_->{trine_algbw} * ($bus{$n} || 1)) &&
               $near->($_->{ratio}, $_->{mpi_seconds} / $_->{trine_seconds}); } }
       $good'
result $? "rates are those of nccl-tests for two ranks, the ratio is MPI's time by Trine's"

holds 'my @small = grep { $_->{sizes} eq "up to 4 KiB" } rows "summary";
       my ($s) = grep { $_->{primitive} eq "all-gather" } @small;
       my @ratios = sort { $a <=> $b } map { $_->{ratio} } rows "all-gather";
       @small == 11 && $s->{smallest} == $ratios[0] && $s->{asked} == 1'
result $? "the summary names the smallest ratio"

! job --only all-gathre && grep -q "did you mean all-gather" "$dir/err"
result $? "an unknown primitive is refused"

! job --max-bytes 2 && grep -q -- "--max-bytes 2: sizes are from 4 to 1G" "$dir/err"
result $? "so is a size below one element"

exit $failed
