#!/bin/sh
# The changes on docs/extending.md. Each section has one block of ```diff, one of ```sh and one of ```text, and is named
# by the last word of its heading; a block before the first section is "common".
#
#   tests/docs/extending.sh extract DIR    writes DIR/NAME.diff, NAME.sh, NAME.text; prints the names, in order
#   tests/docs/extending.sh refresh        after changes of the sources: applies each diff to the last commit, with fuzz
#                                          if needed, and writes the updated diff back
#   tests/docs/extending.sh outputs DIR    writes each block of text back from DIR/NAME.said, which tests/docs/extending.t
#                                          leaves in the folder KEEP=FOLDER
set -eu

page=docs/extending.md

fail() {
    echo "tests/docs/extending.sh: $*" >&2
    exit 1
}

extract() {
    awk -v to="$1" '
        function bad(why) {
            print FILENAME ":" FNR ": " why >"/dev/stderr"
            failed = 1
            exit 1
        }
        BEGIN { name = "common" }
        /^## / { name = tolower($NF); next }
        /^```(diff|sh|text)$/ {
            kind = substr($0, 4)
            if ((name, kind) in seen) bad("a second block of " kind " for " name)
            seen[name, kind]
            if (kind == "diff") print name
            file = to "/" name "." kind
            printf "" >file
            next
        }
        /^```$/ { file = ""; next }
        file != "" { print >file }
        END { if (!failed && file != "") bad("a block without an end") }' "$page"
}

# replace KIND DIR SUFFIX: replaces the blocks of KIND with DIR/NAME.SUFFIX, where that file exists
replace() {
    awk -v kind="$1" -v dir="$2" -v suffix="$3" '
        /^## / { name = tolower($NF) }
        /^```$/ { skipped = 0 }
        !skipped { print }
        $0 == "```" kind {
            file = dir "/" name "." suffix
            while ((getline line <file) > 0) { print line; skipped = 1 }
            close(file)
        }' "$page" >"$2/page"
    cp "$2/page" "$page"
}

# applied TREE DIFF: applies the diff in one of three ways, from the strictest to the loosest
applied() {
    git -C "$1" apply "$2" 2>/dev/null && return
    git -C "$1" apply -3 "$2" >/dev/null 2>&1 && return
    git -C "$1" reset -q --hard && git -C "$1" clean -qfd
    echo "$2: applied without its context; check where its lines went" >&2
    patch -d "$1" -p1 -s --fuzz=3 --no-backup-if-mismatch <"$2"
}

refresh() {
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    git clone -q -s . "$dir/tree"
    mkdir "$dir/new"
    for name in $(extract "$dir"); do
        git -C "$dir/tree" reset -q --hard
        git -C "$dir/tree" clean -qfd
        applied "$dir/tree" "$dir/$name.diff" || fail "the diff of \"$name\" has to be made again by hand"
        git -C "$dir/tree" add -A
        git -C "$dir/tree" diff --cached --abbrev=7 -U1 --no-color >"$dir/new/$name.diff"
        cmp -s "$dir/$name.diff" "$dir/new/$name.diff" || echo "$name: updated"
    done
    replace diff "$dir/new" diff
}

[ -e "$page" ] || fail "run this from the root of the repository"
case ${1:-} in
    extract) extract "${2:?DIR}" ;;
    refresh) refresh ;;
    outputs) replace text "${2:?DIR}" said ;;
    *) sed -n 's/^# \{0,1\}//; 2,11p' "$0" >&2; exit 2 ;;
esac
