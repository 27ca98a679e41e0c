# shellcheck shell=bash
# "Nodes" of one machine, for tests; sourced from the root of the repository. A node is a network namespace named
# NODE_PREFIX and its number; two of them, with the addresses $NODE_NET.1 and .2, are joined by a veth pair.
# agent.sh runs a command there, under a host name of its own. Needs root and iproute2.
export NODE_PREFIX=trine$$-
NODE_NET=10.77.0

# nodes_make: creates the nodes; on failure returns 1, with ip's message on standard error
nodes_make() {
    local n
    for n in 1 2; do
        ip netns add "$NODE_PREFIX$n" && ip -n "$NODE_PREFIX$n" link set lo up || return 1
    done
    ip link add veth netns "${NODE_PREFIX}1" type veth peer name veth netns "${NODE_PREFIX}2" || return 1
    for n in 1 2; do
        ip -n "$NODE_PREFIX$n" address add "$NODE_NET.$n/24" dev veth &&
            ip -n "$NODE_PREFIX$n" link set veth up || return 1
    done
}

# nodes_remove: kills all processes on the nodes (no others can be there) and removes the nodes
nodes_remove() {
    local n pids
    for n in 1 2; do
        if pids=$(ip netns pids "$NODE_PREFIX$n" 2>/dev/null) && [ -n "$pids" ]; then
            # shellcheck disable=SC2086
            kill -9 $pids 2>/dev/null || true
        fi
        ip netns del "$NODE_PREFIX$n" 2>/dev/null || true
    done
}
