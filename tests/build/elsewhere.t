#!/bin/sh
# Scripts of tools/ and examples/ find what they call wherever they are called from, also by a link.
# shellcheck disable=SC2016  # grep finds the text
. tests/lib.sh
needs awk

# ---- All of them: one that names a file of the tree by its path from the checkout goes there first, or takes the path of
# itself. What a message, a comment or a text to print names does not count.

named() { # named SCRIPT: its lines that name a file of the tree
    awk '
        /<<-?\\?["'\'']?[A-Z]+/ { text = 1 }
        /^END["'\'']?$/ { text = 0 }
        text || /^[[:space:]]*#/ { next }
        {
            gsub(/"tools\/[a-z_]*\.sh: [^"]*"/, "")
            gsub(/ # .*/, "")
            if (match($0, /(^|[[:space:]"=(])(tools|tests|examples|docs|hardware|src|bench|build)\/[a-z]/)) print
        }' "$1"
}
goes() { grep -q 'dirname "$(realpath "$0")"' "$1" || { grep -q '^self=$(realpath "$0")$' "$1" && grep -q '^cd "$(dirname "$self")/..' "$1"; }; }
tried=0 wrong=0 users=0
for script in tools/*.sh examples/*.sh; do
    tried=$((tried + 1))
    [ -n "$(named "$script")" ] || continue
    users=$((users + 1))
    goes "$script" && continue
    wrong=$((wrong + 1))
    echo "# $script: $(named "$script" | head -n 3)"
done
echo "# $tried scripts, $users name files of the tree, $wrong do not find them from another folder"
[ "$users" -ge 10 ] && [ "$wrong" -eq 0 ]
result $? "scripts that name files of the tree"

# ---- Some: from another folder, by a link, with the output that they have here

mkdir "$dir/elsewhere" "$dir/bin" "$dir/sources"
printf '#!/bin/sh\npwd\n' >"$dir/bin/make"
chmod +x "$dir/bin/make"
here=$PWD
same() { # same SCRIPT ARGUMENTS...
    script=$1
    shift
    { "$here/$script" "$@" && echo "status 0"; } >"$dir/here" 2>&1
    ln -sf "$here/$script" "$dir/elsewhere/link.sh"
    for way in "$here/$script" "$(realpath --relative-to="$dir/elsewhere" "$script")" ./link.sh; do
        (cd "$dir/elsewhere" && "$way" "$@" && echo "status 0") >"$dir/there" 2>&1
        [ -s "$dir/there" ] && cmp "$dir/here" "$dir/there" || return 1
    done
}
check "deps.sh --list" same tools/deps.sh --list
check "matrix.sh check" same tools/matrix.sh check
check "gpu_check.sh --list" same tools/gpu_check.sh --list
check "gpu_check.sh: its usage" same tools/gpu_check.sh --nothing
mkdir -p "$dir/tree/src/base" "$dir/tree/include" && printf 'int x;\n' >"$dir/tree/src/base/x.c"
check "layers.sh of a tree" same tools/layers.sh "$dir/tree"
# Below the build, whose path counts from the checkout.
below=$(mktemp -d "$BUILD/elsewhere-XXXXXX")
mkdir "$below/corpus" && echo verse | tee "$below/corpus/kjv.txt" "$below/corpus/kjv_train.bin" >"$below/corpus/kjv_val.bin"
corpus() { BUILD=$below same tools/corpus.sh; }
check "corpus.sh" corpus
rm -r "$below"
mkdir -p "$dir/root/usr/lib/aarch64-linux-gnu"
cross() {
    ln -s "$dir/root" "$dir/elsewhere/root" && (cd "$dir/elsewhere" && BUILD=$dir/cross ROOT=root PATH=$dir/bin:$PATH "$here/tools/cross.sh") >"$dir/there" &&
        [ "$(cat "$dir/there")" = "$(pwd -P)" ] && [ "$(realpath "$dir/cross/aarch64/root")" = "$(realpath "$dir/root")" ]
}
check "cross.sh: make runs in the checkout, ROOT counts from where it was called" cross
done_testing
