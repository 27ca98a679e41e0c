#!/bin/bash
# TEST
#
# tools/mpirun.sh with a launcher that starts its ranks and never learns of their ends, as Open MPI 4.1 sometimes does: it
# is killed, and the status is that of the ranks.
. tests/lib.sh
needs perl

cat >"$dir/mpirun" <<'END'
#!/usr/bin/perl
if ("@ARGV" =~ /--version/) { print "mpirun (Open MPI) 4.1.4\n"; exit }
for my $code (split ' ', $ENV{CODES}) {
    next if fork;
    kill KILL => $$ if $code eq 'KILL';
    exit $code;
}
sleep 1000;
END
chmod +x "$dir/mpirun"

mkdir "$dir/tmp"
rows=("0 0 0:0" "0 75 3:75" "KILL 75 KILL:75" "0 KILL 0:137")

# Each waits for ten seconds.
for i in "${!rows[@]}"; do
    (
        dir=$dir/row$i && mkdir "$dir"
        CODES=${rows[i]%:*} MPIRUN=$dir/../mpirun TMPDIR=$dir/../tmp run tools/mpirun.sh -np 3 "$dir/program"
        echo "$status" >"$dir/status"
    ) &
done
wait
for i in "${!rows[@]}"; do
    read -r status <"$dir/row$i/status"
    cp "$dir/row$i/err" "$dir/err"
    grep -q "mpirun hangs in its clean-up; killing it" "$dir/err" && [ "$status" -eq "${rows[i]#*:}" ]
    result $? "ranks end with ${rows[i]%:*}: status $status"
done

[ -z "$(ls -A "$dir/tmp")" ]
result $? "nothing is left in the folder for temporary files"
done_testing
