# Sourced by the tests of exports, behind lib.sh; the folder is their own, and $build is the build.

# refuses TEXT ARGUMENTS...: one message with TEXT, a non-zero status, and no file added or removed
refuses() {
    local text=$1 before
    shift
    before=$(find . -type f | sort)
    run "$build/trine-export" "$@"
    [ $status -ne 0 ] && messages 1 && grep -qF -- "$text" "$dir/err" && [ "$(find . -type f | sort)" = "$before" ]
}
