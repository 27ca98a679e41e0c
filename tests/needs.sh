# shellcheck shell=sh
# For the shell tests; sourced from the top of the tree. Speaks TAP.

# needs COMMAND...: a test that lacks one of them fails here and now, and says which, instead of waiting for what
# the command would have done.
needs() {
    for command in "$@"; do
        command -v "$command" >/dev/null && continue
        echo "1..1"
        echo "not ok 1 - $0 needs $command, which is not in its PATH"
        echo "# tools/deps.sh names the packages whose commands tests may use (tests/path.sh)"
        exit 1
    done
}
