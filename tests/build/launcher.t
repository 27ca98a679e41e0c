#!/bin/bash
# TEST
#
# tools/mpirun.sh with a launcher that starts its ranks and never learns of their ends, as Open MPI 4.1 sometimes does: it
# is killed, and the status is that of the ranks.
. tests/lib.sh
needs perl unshare pgrep

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

# ---- Numbers of processes that others have by now: in a PID namespace, where the next number can be chosen. The script is
# told to end, or killed; as soon as mpirun has ended, another process gets its number. What the script has left behind
# signals mpirun for half a minute, and must not signal that one.

cat >"$dir/quick" <<'END'
#!/usr/bin/perl
if ("@ARGV" =~ /--version/) { print "mpirun (Open MPI) 4.1.4\n"; exit }
$SIG{USR1} = sub { exit 75 };
open my $file, '>', "$ENV{AT}/mpirun.new" or die;
print $file $$;
close $file;
rename "$ENV{AT}/mpirun.new", "$ENV{AT}/mpirun";
sleep 1 while 1;
END
# reused FOLDER MPIRUN WAY: in the namespace
cat >"$dir/reused" <<'END'
. tests/lib.sh
AT=$1 MPIRUN=$2 && export AT MPIRUN
tools/mpirun.sh -np 1 "$AT/program" >"$AT/said" 2>&1 &
script=$!
eventually 60 test -s "$AT/mpirun" || exit 1
pid=$(cat "$AT/mpirun")
if [ "$3" = killed ]; then kill -KILL "$script" "$pid"; else kill -TERM "$script"; fi
wait "$script"
gone() { ! kill -0 "$pid"; }
eventually 60 gone || exit 1
echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid || exit 1
sleep 1000 &
other=$!
[ "$other" = "$pid" ] || exit 1
: >"$AT/reused"
left() { ! pgrep -f 'tools/mpirun.s[h]'; }
eventually 60 left
kill -0 "$other" && : >"$AT/untouched"
END
chmod +x "$dir/quick"
private="unshare --user --map-root-user --pid --fork --mount-proc --kill-child"
for way in told killed; do
    at=$dir/$way && mkdir "$at"
    name="another process with mpirun's number is not signalled, after the script was $way"
    if ! $private sh -c 'echo 100 >/proc/sys/kernel/ns_last_pid' 2>"$dir/err"; then
        skip "$name" "no namespace whose numbers can be chosen: $(head -c 200 "$dir/err")"
        continue
    fi
    $private bash "$dir/reused" "$at" "$dir/quick" "$way" >"$dir/said" 2>&1
    [ -e "$at/reused" ] && [ -e "$at/untouched" ]
    result $? "$name"
done

[ -z "$(ls -A "$dir/tmp")" ]
result $? "nothing is left in the folder for temporary files"
done_testing
