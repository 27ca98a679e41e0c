#!/bin/sh
# examples/train_gpt_hosts.sh: what it reads as a host file, refuses, and where it may be called. mpirun and the trainer are
# scripts; tests/train/hosts.t trains.
. tests/lib.sh
needs awk

# A checkout in a folder with a space. mpirun says what it was given, of which nothing is lost.
tree="$dir/a tree"
mkdir -p "$tree/examples" "$tree/tools" "$tree/build" "$dir/elsewhere" "$dir/bin"
cp examples/train_gpt_hosts.sh "$tree/examples/"
cat >"$tree/tools/mpirun.sh" <<'END'
#!/bin/sh
case $* in *" --host "*) exit 0 ;; esac
echo "mpirun: $2 ranks: $(tr '\n' '|' <"$4")"
END
# shellcheck disable=SC2016
printf '#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" != --ranks ] || echo "--dp $2 --tp 1 --pp 1"; shift; done\n' >"$tree/build/train_gpt"
chmod +x "$tree/tools/mpirun.sh" "$tree/build/train_gpt"
script="$tree/examples/train_gpt_hosts.sh"
tried=0 wrong=0

# hosts COMMAND...: the script, with the host file $dir/hosts
hosts() { HOSTS=${file:-$dir/hosts} run "$@" --save "$dir/run"; }
# judge NAME COMMAND...: counts, and says what was wrong
judge() {
    name=$1
    shift
    tried=$((tried + 1))
    "$@" && return
    wrong=$((wrong + 1))
    echo "# $name: status $status: $(cat "$dir/out" "$dir/err")"
}
all_right() {
    echo "# $tried tried, $wrong wrong"
    [ "$wrong" -eq 0 ]
    result $? "$1"
    tried=0 wrong=0
}
starts() { [ "$status" -eq 0 ] && grep -qx "mpirun: $1" "$dir/out"; }

# ---- Host files: the bytes, for printf, and what mpirun must get

while IFS=';' read -r bytes ranks lines; do
    # shellcheck disable=SC2059  # the bytes
    printf "$bytes" >"$dir/hosts"
    hosts "$script"
    judge "$bytes" starts "$ranks ranks: $lines"
done <<'END'
h1 slots=2\nh2 slots=2\n;4;h1 slots=2|h2 slots=2|
h1 slots=2\nh2 slots=2;4;h1 slots=2|h2 slots=2|
h1 slots=2;2;h1 slots=2|
h1;1;h1|
h1\nh2;2;h1|h2|
h1 slots=2\r\nh2 slots=2\r\n;4;h1 slots=2|h2 slots=2|
h1 slots=2\r\nh2 slots=2;4;h1 slots=2|h2 slots=2|
h1\r\nh2\r\n;2;h1|h2|
\r\nh1 slots=2\r\n\r\n# no host\r\nh2 slots=2\r\n;4;h1 slots=2|h2 slots=2|
\n\nh1 slots=2\n   \n\t\nh2 slots=2\n\n;4;h1 slots=2|h2 slots=2|
# h0 slots=9\nh1 slots=2\n  # h3\n\t#h4\nh2 slots=2\n#;4;h1 slots=2|h2 slots=2|
h1 slots=2 # rack 7, slots=9\nh2 slots=2# slots=9\n;4;h1 slots=2|h2 slots=2|
h1\tslots=2\n\th2 \t slots=2\t\n;4;h1 slots=2|h2 slots=2|
  h1  slots=2  \n h2 slots=2 ;4;h1 slots=2|h2 slots=2|
h1 slots = 2\nh2 slots= 2\n;4;h1 slots=2|h2 slots=2|
\357\273\277h1 slots=2\nh2 slots=2\n;4;h1 slots=2|h2 slots=2|
h1 slots=2 max_slots=8\nh2 max_slots=4 slots=2\n;4;h1 slots=2 max_slots=8|h2 max_slots=4 slots=2|
h1 slots=2\nh2 slots=08\n;10;h1 slots=2|h2 slots=8|
END
all_right "host files: last line without an end, CRLF, blank lines, comments, tabs, spaces"

# ---- What is refused: status 2 and one line that begins with the variable

refused() { [ "$status" -eq 2 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -qF "train_gpt_hosts.sh: $1" "$dir/err" && ! grep -q mpirun: "$dir/out"; }
while IFS=';' read -r bytes said; do
    # shellcheck disable=SC2059  # the bytes
    printf "$bytes" >"$dir/hosts"
    hosts "$script"
    judge "$bytes" refused "HOSTS=$dir/hosts$said"
done <<'END'
h1 slots=two\n;, line 1: slots=two: must be slots=N after a host, N from 1 to 99999
h1 slots=2\n\nh2 slots=0\n;, line 3: slots=0: must be
h1 slots=\n;, line 1: slots=: must be
h1 slots=-1;, line 1: slots=-1: must be
h1 slots=2x\r\n;, line 1: slots=2x: must be
h1 slots=1000000000000000000000\n;, line 1: slots=1000000000000000000000: must be
slots=2\n;, line 1: slots=2: must be slots=N after a host
# none\n\n;: no line names a host
;: no line names a host
END
file=$dir/none hosts "$script"
judge "no host file" refused "HOSTS=$dir/none: cannot be read"
printf 'h1\nh2\n' >"$dir/hosts"
for name in LAUNCH PROBE TRAIN; do
    hosts env "$name=$dir/no-program -x" "$script"
    judge "$name" refused "$name: $dir/no-program is not a program here; set $name to one"
done
rm "$tree/tools/mpirun.sh" && hosts "$script"
judge "no launcher" refused "LAUNCH: $tree/tools/mpirun.sh is not a program here"
all_right "what is no host, no launcher, no trainer: refused by name, and nothing is started"

# ---- From anywhere

cat >"$tree/tools/mpirun.sh" <<'END'
#!/bin/sh
case $* in *" --host "*) exit 0 ;; esac
echo "mpirun: $2 ranks: $(tr '\n' '|' <"$4")"
END
chmod +x "$tree/tools/mpirun.sh"
ln -s "../a tree/examples/train_gpt_hosts.sh" "$dir/bin/run-hosts"
from() { # from FOLDER COMMAND...
    folder=$1
    shift
    # shellcheck disable=SC2016  # of the inner shell
    hosts sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@"
    judge "from $folder: $*" starts "2 ranks: h1|h2|"
}
from / "$script"
from "$tree" examples/train_gpt_hosts.sh
from "$tree/examples" ./train_gpt_hosts.sh
from "$tree/examples" sh train_gpt_hosts.sh
from "$dir/elsewhere" "../a tree/examples/train_gpt_hosts.sh"
from "$dir/elsewhere" ../bin/run-hosts
from "$dir/elsewhere" env PATH="$dir/bin:$PATH" run-hosts
all_right "called from other folders, by a link, by PATH"
done_testing
