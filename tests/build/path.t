#!/bin/bash
# Tests the PATH of the tests: what is in it and what is not, that a test with a missing tool fails immediately, and
# that the caller's compiler and MPI are found.
set -eu
. tests/lib.sh
needs timeout

root=$PWD
tree=$dir/tree
mkdir -p "$tree/mine" "$tree/tools" "$tree/tests/suite"
cp tests/*.sh tests/Slots.pm "$tree/tests/"
cp tools/deps.sh "$tree/tools/"
cd "$tree"

# command_of NAME: makes a command of the caller, in a folder in front of the others
command_of() {
    printf '#!/bin/sh\necho "%s of mine"\n' "$1" >"mine/$1"
    chmod +x "mine/$1"
}

# fails NAME TEXT: the test in the standard input fails, with TEXT
fails() {
    local said status=0
    cat >"tests/suite/$1.t"
    chmod +x "tests/suite/$1.t"
    said=$(PATH=$tree/mine:$PATH tests/run.sh build all "suite/$1" 2>&1) || status=$?
    echo "$said"
    [ $status -ne 0 ] && [[ $said == *"$2"* ]]
}

as_it_is() {
    mkdir nothing
    for name in sh cat dirname; do ln -s "$(command -v $name)" nothing/; done
    [ "$(PATH=$tree/nothing tests/path.sh build)" = "$tree/nothing" ]
}
check "without dpkg the PATH is unchanged" as_it_is
if ! command -v dpkg-query >/dev/null; then
    skip "a PATH of links" "needs dpkg"
    done_testing
fi

path=$(tests/path.sh build build test)
has() {
    local name
    for name in "$@"; do [ -x "$path/$name" ] || { echo "no $name" && return 1; }; done
}
check "essential commands and those of the packages" has sh awk grep mount cc c++ mpirun prove pgrep nm git
check "no other commands" [ ! -e "$path/apt-get" ]
again() {
    touch "$path/mark"
    [ "$(tests/path.sh build build test)" = "$path" ] && [ -e "$path/mark" ] && rm "$path/mark"
}
check "it is cached" again
all_groups() {
    case $(tests/path.sh build) in "$path") return 1 ;; "$tree"/build/path/*) ;; *) return 1 ;; esac
}
no_links_to_links() { # a test that installs packages makes its PATH again
    local path
    path=$(PATH=$(tests/path.sh build) tests/path.sh build) && [ -x "$path/mpicc" ] &&
        [ -z "$(find "$path/" -lname '*/path/[0-9]*')" ]
}
check "made again with that PATH, it links to the same commands" no_links_to_links
check "other groups have another folder" all_groups

command_of surplus
check "a test that calls a command of no package fails" fails calls "surplus: not found" <<'END'
#!/bin/sh
echo 1..1
surplus && echo ok 1
END
command_of cmake
with_tools() {
    local path
    path=$(PATH=$tree/mine:$PATH tests/path.sh build build test) && [ "$("$path/cmake")" = "cmake of mine" ] &&
        [ "$(PATH=$path tests/path.sh build build test)" = "$path" ]
}
check "a tool that some cases use is there if it is installed" with_tools
without_tools() {
    local path
    path=$(TRINE_OPTIONAL='' PATH=$tree/mine:$PATH tests/path.sh build build test) && [ ! -e "$path/cmake" ]
}
check "without TRINE_OPTIONAL it is not" without_tools

check "a test that declares what it needs fails before it waits" \
    fails waits "not ok 1 - tests/suite/waits.t needs surplus, which is not in its PATH" <<'END'
#!/bin/sh
. tests/lib.sh
needs sh surplus
echo 1..1
sleep 100
echo ok 1
END
without_pgrep() {
    local said
    mkdir without
    find "$path/" ! -type d ! -name pgrep -exec ln -s -t without {} +
    said=$(cd "$root" && ! PATH=$tree/without timeout 100 tests/train/who.t) && echo "$said" &&
        [[ $said == *"not ok 1 - tests/train/who.t needs pgrep, "* ]]
}
check "training tests that look for their processes do so, too" without_pgrep

command_of my-cc
command_of mpirun
command_of mpiexec.old
# mine CC NAME: with my commands in front and this CC, NAME is mine
mine() {
    local path
    path=$(unset MPICC MPIRUN && PATH=$tree/mine:$PATH CC=$1 tests/path.sh build build test)
    [ "$("$path/$2")" = "$2 of mine" ] && [ ! -e "$path/surplus" ]
}
check "a compiler that CC names by its name" mine "my-cc -m64" my-cc
check "a compiler that CC names by its path" mine "$tree/mine/my-cc" my-cc
# Debian's /usr/lib/ccache in front of PATH: its links call what follows
behind_ccache() {
    local path
    mkdir links real
    printf '#!/bin/sh\n' >real/ccache && chmod +x real/ccache && ln -s ../real/ccache links/my-cc
    path=$(PATH=$tree/links:$tree/mine:$PATH CC=my-cc tests/path.sh build build test) && [ "$("$path/my-cc")" = "my-cc of mine" ]
}
check "the compiler behind a link to ccache" behind_ccache
check "the caller's launcher" mine cc mpirun
check "the other commands of that MPI" mine cc mpiexec.old
done_testing
