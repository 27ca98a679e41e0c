#!/bin/sh
# The first process of a node of tests/slurm/cluster.sh. Runs slurmd. The node's processes, /dev/shm and mounts
# disappear with it, as on a real machine. A node has no ssh.
set -eu

mount -t tmpfs tmpfs /dev/shm
for shell in ssh rsh; do
    if path=$(command -v $shell); then mount --bind /dev/null "$path"; fi
done
slurmd -D
exit $? # keeps the shell as process 1, which reaps orphans
