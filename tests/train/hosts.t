#!/bin/sh
# TEST longer=lost
# examples/train_gpt_hosts.sh: a run under mpirun that loses hosts and gets them back. A host is a name: $dir/launch
# starts all ranks here and notes which processes a host would have; where $dir/dead-NAME exists it does not answer.
# TRINE_FULL=1: 2 x 2 x 2 ranks on eight hosts, of which two are lost, then three more, then all are back.
. tests/lib.sh
needs awk

token_file "$data" 20240520 1 4096 4096
save=$dir/run
# 12 micro-batches, so that dp may be 2 and 3. At this rate one other bit would soon be seen in all.
RUN="--data-path $data --global-batch-size 12 --hidden-dropout 0.1 --lr 3e-3 --lr-decay-iters 100000 --clip-grad 1 --exact"

# launch -np RANKS --hostfile FILE COMMAND...: as mpirun, also with a status above 128 where a host is dead
cat >"$dir/launch" <<END
#!/bin/sh
ranks=\$2 hosts=\$4
shift 4
for host in \$(sed 's/ .*//' "\$hosts"); do
    [ ! -e "$dir/dead-\$host" ] || exit 205
done
exec tools/mpirun.sh -np "\$ranks" "$dir/rank" "\$hosts" "\$@"
END
# rank HOSTS COMMAND...: a slot after the other
cat >"$dir/rank" <<END
#!/bin/sh
host=\$(sed -n "\$((\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-}} + 1))s/ .*//p" "\$1")
shift
echo \$\$ >>"$dir/pids-\$host"
exec "\$@"
END
# answers HOST
printf '#!/bin/sh\n! [ -e "%s/dead-$1" ]\n' "$dir" >"$dir/answers"
# train ARGUMENTS...: without end; started where $dir/last exists, for 60 steps more than the newest checkpoint
cat >"$dir/train" <<END
#!/bin/sh
steps=1000000000
if [ -e "$dir/last" ]; then
    newest=\$(cat "$save/latest")
    steps=\$((\${newest#step-} + 60))
fi
exec $(echo "$TRAIN" $SMALL) --log-interval 0 "\$@" --train-iters "\$steps"
END
# killed ...: as mpirun, of ranks that are killed at each start; the tenth ends the test
printf '#!/bin/sh\necho start >>%s/starts\n[ "$(wc -l <%s/starts)" -ge 10 ] || exit 137\n' "$dir" "$dir" >"$dir/killed"
# saves ...: the same, but the second makes a checkpoint, and the fourth ends the run
printf '#!/bin/sh\necho start >>%s/starts\ncase $(wc -l <%s/starts) in\n2) mkdir -p %s/step-20 && echo step-20 >%s/latest ;;\n[4-9]) exit 0 ;;\nesac\nexit 137\n' \
    "$dir" "$dir" "$save" "$save" >"$dir/saves"
chmod +x "$dir/launch" "$dir/rank" "$dir/answers" "$dir/train" "$dir/killed" "$dir/saves"

# hosts COUNT ARGUMENTS...: the script, in the background
hosts() {
    for host in $(seq "$1"); do echo "h$host slots=1"; done >"$dir/hosts"
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    background env HOSTS="$dir/hosts" LAUNCH="${launch:-$dir/launch}" PROBE="$dir/answers" WATCH_SECONDS=1 \
        TRAIN="$dir/train" examples/train_gpt_hosts.sh $RUN --save "$save" --save-interval 20 --log "$log" "$@"
}

# lose HOST...: its processes are killed, and it does not answer
lose() {
    for host in "$@"; do : >"$dir/dead-$host"; done
    for host in "$@"; do
        # Those of earlier starts have ended.
        tail -n 1 "$dir/pids-$host" | xargs kill -KILL
    done
}

# trains: waits for some more steps, and a checkpoint among them
trains() {
    eventually 300 lines $(($(steps_in "$log") + 45))
}

# on RANKS LAYOUT: the script has started the last time on so many
on() {
    [ "$(sed -n 's/^train_gpt_hosts.sh: starts on //p' "$dir/out" | tail -n 1)" = "$1 ranks: $2" ]
}

# goes_on RANKS LAYOUT: the script starts on so many, and trains
goes_on() {
    eventually 300 on "$1" "$2" && trains
}

# as_undisturbed RANKS LAYOUT...: the log has the numbers of a run that lost nothing, bit for bit
as_undisturbed() {
    ranks=$1
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run tools/mpirun.sh -np "$ranks" "$TRAIN" $SMALL $RUN "$@" --log "$dir/undisturbed" --log-interval 0 \
        --train-iters "$(steps_in "$log")"
    all_numbers "$log" >"$dir/a"
    all_numbers "$dir/undisturbed" >"$dir/b"
    [ "$(wc -l <"$dir/a")" -gt 600 ] && cmp "$dir/a" "$dir/b"
}

# ends: after some more steps; no option of the script's own stands beside another value of ours
ends() {
    finish
    [ "$status" -eq 0 ] && [ "$(cat "$save/latest")" = "step-$(steps_in "$log")" ] && gone &&
        ! grep -q "^warning: --save-interval" "$dir/out" "$dir/err"
}

exact="--exact-dp 12 --exact-tp"
: >"$log"
if [ -z "${TRINE_FULL:-}" ]; then
    hosts 4 --dp 2 --pp 2
    check "all hosts answer: as asked for" goes_on 4 "--dp 2 --tp 1 --pp 2 $exact 1"
    lose h3
    check "a host is lost: on three ranks" goes_on 3 "--dp 3 --tp 1 --pp 1 $exact 1"
    : >"$dir/last"
    rm "$dir/dead-h3"
    check "it is back: on four ranks after a checkpoint" eventually 300 on 4 "--dp 2 --tp 1 --pp 2 $exact 1"
    check "it ends with the last step" ends
    check "the steps of a run that lost nothing" as_undisturbed 4 --dp 2 --pp 2
else
    hosts 8 --dp 2 --tp 2 --pp 2
    check "all hosts answer: as asked for" goes_on 8 "--dp 2 --tp 2 --pp 2 $exact 2"
    lose h3 h8
    check "two of eight hosts are lost: on six ranks" goes_on 6 "--dp 3 --tp 2 --pp 1 $exact 2"
    lose h1 h2 h4
    check "three more: on three ranks" goes_on 3 "--dp 3 --tp 1 --pp 1 $exact 2"
    : >"$dir/last"
    rm "$dir"/dead-*
    check "all are back: on eight ranks after a checkpoint" eventually 300 on 8 "--dp 2 --tp 2 --pp 2 $exact 2"
    check "it ends with the last step" ends
    check "the steps of a run that lost nothing" as_undisturbed 8 --dp 2 --tp 2 --pp 2
fi

# told STATUS COUNT TEXT: the script has ended with the status, and COUNT lines say TEXT
told() {
    finish
    [ "$status" -eq "$1" ] && prints "$2" "$3" && gone
}

rm -rf "$save" "$log" "$dir/last"
launch=$dir/killed
hosts 2 --dp 2
told 137 1 "the run has ended with status 137, and two starts in a row made no new checkpoint: it is not started again" &&
    [ "$(wc -l <"$dir/starts")" -eq 2 ]
result $? "ranks that are killed at each start: two starts"
rm "$dir/starts"
launch=$dir/saves
hosts 2 --dp 2
told 0 4 "starts on 2 ranks" && [ "$(wc -l <"$dir/starts")" -eq 4 ]
result $? "two starts without a new checkpoint, and one with it between them: it goes on"
rm -rf "$save"
launch=

hosts 2 --dp 2 --data-path "$dir/none"
told 1 1 "the run has failed with status 1, and all its hosts answer: it is not started again" && prints 1 "starts on 2 ranks"
result $? "a run that fails by itself is started once"

: >"$dir/dead-h1"
: >"$dir/dead-h2"
hosts 2 --dp 2
told 1 1 "no host answers, and two starts" && prints 2 "no answer from h1 h2"
result $? "no host answers"
rm "$dir"/dead-*

hosts 2 --dp 2
eventually 300 lines 3
kill -s TERM $launcher
told 75 1 "stopped at step " && prints 1 "starts on 2 ranks"
result $? "SIGTERM is for the run: saved, status 75"

# ---- examples/train_gpt.sbatch, with two of the four ranks that were asked for; Slurm is four scripts

mkdir "$dir/bin"
printf '#!/bin/sh\n[ "$1" != requeue ] || echo "$@" >>%s/requeued\nfor a in "$@"; do\n%s\ndone\n' "$dir" \
    "case \$a in Comment=*) echo \"\${a#Comment=}\" >$dir/comment ;; esac" >"$dir/bin/scontrol"
printf '#!/bin/sh\ncat %s/comment\n' "$dir" >"$dir/bin/squeue"
# As sinfo --format=%T: nodes of no use, and one that is idle before the first checkpoint, and where $dir/idle exists.
printf '#!/bin/sh\necho >>%s/asked\nprintf "%%s\\n" mixed drained "idle*" planned\n%s || echo idle\n' "$dir" \
    "[ -e $save/latest ] && [ ! -e $dir/idle ]" >"$dir/bin/sinfo"
printf '#!/bin/sh\n' >"$dir/bin/srun"
chmod +x "$dir"/bin/*
slurm() {
    # shellcheck disable=SC2086  # words are meant to be split
    background env PATH="$dir/bin:$PATH" SLURM_JOB_ID=17 SLURM_JOB_PARTITION=all SLURM_JOB_NUM_NODES=1 \
        SLURM_TASKS_PER_NODE=2 SLURM_CPUS_PER_TASK=1 WATCH_SECONDS=1 TRAIN="$dir/train" \
        LAUNCH="env -u SLURM_JOB_ID -u SLURM_TASKS_PER_NODE tools/mpirun.sh" examples/train_gpt.sbatch $RUN --dp 2 --pp 2 \
        --save "$save" --save-interval 20 --log "$log"
}
# asked_again: the script has not taken the first answer for an idle node
asked_again() {
    [ "$(wc -l <"$dir/asked")" -ge 2 ]
}
rm -rf "$save" "$log" "$dir/last"
: >"$log"
: >"$dir/comment"
slurm
eventually 300 asked_again && trains && [ ! -e "$dir/requeued" ] && : >"$dir/idle"
finish
[ -e "$dir/idle" ] && [ "$status" -eq 75 ] && prints 1 "and a node is idle: " && [ "$(cat "$dir/requeued")" = "requeue 17" ] &&
    [ "$(cat "$dir/comment")" = "orderly restarts: 1, for more than 2 ranks" ] && says 1 "dp 1 x tp 1 x pp 2 on 2, by rule: "
result $? "under Slurm, a node is idle: saved after the next checkpoint, and queued again"

: >"$dir/last"
slurm
finish
[ "$status" -eq 0 ] && prints 1 "the job was requeued for more than 2 ranks, and has no more" && prints 0 "and a node is idle" &&
    [ "$(cat "$dir/requeued")" = "requeue 17" ]
result $? "queued again for more ranks in vain: it goes on with those that it has"

done_testing
