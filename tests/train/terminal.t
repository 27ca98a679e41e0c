#!/bin/bash
# What programs show on a terminal: a bar that is rewritten in place, within the width, erased before anything else is
# printed, and at the end, also by a signal; and nothing of it where the output is no terminal. script(1) is the terminal.
# shellcheck disable=SC2016  # Perl's variables
. tests/lib.sh
needs script perl

token_file "$data" 20240520 1 4096 4096
# shellcheck disable=SC2086,SC2116  # on one line
small="$(echo $SMALL) --hidden-size 64 --data-path $data --train-iters 30 --log-interval 10"

# on_terminal COLUMNS COMMAND: its output on such a terminal is in $dir/out, standard error too
on_terminal() {
    run script -qec "stty cols $1 -onlcr; $2; exit \$?" /dev/null </dev/null
}

# shown EXPRESSION: a Perl expression that is true; @lines are what stood on the terminal's lines, one after the other,
# and @bars those of them that were drawn to be erased; width() is the columns of a text
shown() {
    perl -CS -Mopen=:std,:encoding\(UTF-8\) -e '
        local $/; open my $in, "<:encoding(UTF-8)", $ARGV[0] or die; my $all = <$in>;
        sub width { length $_[0] }
        our (@lines, @bars);
        for my $line (split /\n/, $all) {
            my @drawn = split /\r/, $line;
            for (@drawn) { s/^\e\[K//; push @bars, $_ if s/\e\[K$//; push @lines, $_ if /\S/ }
        }
        exit !eval $ARGV[1];' "$dir/out" "$1"
}

# plain: nothing was rewritten
plain() {
    ! grep -q -e $'\r' -e $'\033' "$dir/out" "$dir/err"
}

export LC_ALL=C COLUMNS=
# shellcheck disable=SC2086  # words are meant to be split
utils() { run "$TRAIN" $small "$@" && sed -n 's/.* | util \([^ ]*\) | .*/\1/p' "$dir/out" | sort -u; }
measured() {
    [ "$(utils --train-iters 49)" = - ] && [ "$(utils --train-iters 50 --device ref)" = - ] &&
        [ "$(utils --train-iters 49 --peak-tflops 1e9)" = 0.0% ] && ! utils --train-iters 50 | grep -qvx '[0-9]*\.[0-9]%'
}
check "util is of the measured rate of products, on device cpu and in runs of 50 steps or more" measured

on_terminal 50 "$TRAIN $small --save $dir/run --hidden-size 192 --train-iters 15 --log-interval 5"
[ "$status" -eq 0 ] && shown 'grep(/^step \d+\/15 \[#*\.*\] +\d+%  .* left/, @bars) >= 2 && !grep { width($_) > 49 } @bars' &&
    shown 'grep(/^step +(1|5|10|15)\/15 \| loss/, @lines) == 4 && grep(/^saving \[/, @bars) && !grep { /^step.*\[/ && /grad norm/ } @lines'
result $? "a bar in a terminal of 50 columns, beside the lines of the log"

on_terminal 200 "LC_ALL=C.UTF-8 $TRAIN $small --load $dir/run --hidden-size 192 --train-iters 20 --log-interval 5"
[ "$status" -eq 0 ] && shown 'grep(/^loading \[/, @bars) + grep(/^checking \[/, @bars) > 0 && grep(/^step.*\[\x{2588}.*\] .* \| loss \d\.\d+ \| \d+ tokens/, @bars)'
result $? "blocks of UTF-8 where the locale has them; a bar for loading"

on_terminal 60 "$TRAIN $small --progress line"
[ "$status" -eq 0 ] && shown '!@bars' && plain
result $? "--progress line"

# shellcheck disable=SC2086  # words are meant to be split
run "$TRAIN" $small
[ "$status" -eq 0 ] && plain && [ "$(grep -c '^step .* | loss' "$dir/out")" -eq 4 ]
result $? "no bar without a terminal"

# job has a shell between mpirun, whose output is a file, and the ranks, which have a terminal
job 2 --data-path "$data" --dp 2
[ "$status" -eq 0 ] && plain
result $? "nor under mpirun"

# shellcheck disable=SC2086
run env COLUMNS=40 "$TRAIN" $small --progress bar
[ "$status" -eq 0 ] && shown 'grep(/^step \d+\/30 \[/, @bars) >= 2 && !grep { width($_) > 39 } @bars'
result $? "--progress bar draws one without a terminal; COLUMNS"

on_terminal 70 "$TRAIN $small --log-interval 0 --log /dev/full"
[ "$status" -eq 1 ] && shown 'grep(/^step .*\[/, @bars) && grep(/^trine: --log \/dev\/full: No space left on device; training continues/, @lines) == 1'
result $? "a message on standard error stands on a line of its own"

# The rank's own pseudo-terminal has another one.
cat >"$dir/wide" <<'END'
#!/bin/sh
[ -t 1 ] && stty cols 200 <&1 && : >"${0%/*}/terminal"
exec "$@"
END
chmod +x "$dir/wide"
on_terminal 70 "tools/mpirun.sh -np 2 $dir/wide $TRAIN $small --dp 2 --global-batch-size 2"
if [ -e "$dir/terminal" ]; then
    [ "$status" -eq 0 ] && shown 'grep(/^step \d+\/30 \[/, @bars) >= 2 && !grep { width($_) > 69 } @bars'
    result $? "under mpirun: the width of its terminal"
else
    skip "under mpirun: the width of its terminal" "this mpirun gives ranks no terminal"
fi

# The process ends by the signal, and what a shell prints next ("Terminated") begins a line.
: >"$dir/out"
for save in "" "--save $dir/stopped"; do
    rm -f "$log"
    script -qec "stty cols 70 -onlcr; $TRAIN $small --train-iters 1000000000 --log-interval 0 --log $log $save; echo status \$?" \
        /dev/null </dev/null >"$dir/out" 2>"$dir/err" &
    eventually 300 lines 3 && kill -TERM "$(pgrep -f "^$TRAIN .*$dir")" && wait $!
    expected=143
    [ -z "$save" ] || expected=75
    shown "grep(/^step .*\[/, @bars) && grep { \$_ eq 'status $expected' } @lines and !grep(/\e/, @lines)"
    result $? "SIGTERM erases the bar${save:+, with --save}"
done

seq 100000 >"$dir/text.txt"
on_terminal 50 "$BUILD/trine-tokens --out $dir/text $dir/text.txt"
[ "$status" -eq 0 ] && shown 'grep(/^\[#+\.*\] +\d+%  .*read/, @bars) && !grep { width($_) > 49 } @bars'
result $? "trine-tokens"
on_terminal 50 "$BUILD/trine-export $dir/run $dir/model"
[ "$status" -eq 0 ] && shown 'grep(/^exporting \[#*\.*\] +\d+%  /, @bars) && !grep { width($_) > 49 } @bars'
result $? "trine-export"
run "$BUILD/trine-export" "$dir/run" "$dir/model2"
[ "$status" -eq 0 ] && plain
result $? "trine-export without a terminal"

done_testing
