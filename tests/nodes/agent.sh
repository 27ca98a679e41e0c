#!/bin/sh
# Replaces ssh: "agent.sh HOST COMMAND..." runs the command on the node with the address
# HOST. A node is a network namespace named NODE_PREFIX and the last number of the address, with a host
# name of its own, so that MPI detects two machines.
set -eu

node=$NODE_PREFIX${1##*.}
shift
# shellcheck disable=SC2016  # for the inner shell
exec ip netns exec "$node" unshare --uts \
    sh -c 'echo "$1" >/proc/sys/kernel/hostname; shift; exec sh -c "$*"' agent "$node" "$@"
