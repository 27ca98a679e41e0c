#!/bin/sh
# The first process of a node of tests/slurm/cluster.sh: its processes, its /dev/shm and what is mounted end
# with it, as those of a machine do. Runs slurmd. A node has no ssh.
set -eu

mount -t tmpfs tmpfs /dev/shm
for shell in ssh rsh; do
    if path=$(command -v $shell); then mount --bind /dev/null "$path"; fi
done
slurmd -D
exit $? # a process 1 stays, so as to bury what others leave
