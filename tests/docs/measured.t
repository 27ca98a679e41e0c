#!/bin/sh
# docs/measured.md: every figure of the pages that it lists is one of its rows, stands in a file that is named, or is held
# by a test; and a wrong one would be found, in each of these pages.
. tests/lib.sh
needs perl

pages=$(sed -n 's/^- \[\(.*\.md\)\](.*/\1/p' docs/measured.md)
sound() { perl tests/docs/measured.pl docs/measured.md "$@"; }
listed() { [ "$(echo "$pages" | wc -l)" -ge 15 ] && for page in $pages; do [ -f "$page" ] || return 1; done; }
check "the pages are there" listed
# shellcheck disable=SC2086  # a list
check "every figure has its row, its file or its test" sound $pages

# found PAGE: another figure in a block that is marked, and one in a block that is not
found() {
    perl -0777 -pe 's/^(?=[^\n]*<!-- (?:measured|stated))/It takes 98765.43 s. /m or s/\z/\nIt takes 98765.43 s.\n/' "$1" >"$dir/page.md"
    ! perl tests/docs/measured.pl docs/measured.md "$dir/page.md" >"$dir/said" && grep -q "98765.43" "$dir/said"
}
for page in $pages; do check "a planted figure in $page" found "$page"; done
# A figure that changed in its page alone: the row that it has is not there any more.
changed() {
    sed 's/433\.7 GFLOP/443.7 GFLOP/' docs/performance.md >"$dir/performance.md"
    # shellcheck disable=SC2046  # a list
    ! sound $(echo "$pages" | sed "s|^docs/performance.md\$|$dir/performance.md|") >"$dir/said" && grep -q "no page has 433.7" "$dir/said" &&
        grep -q "443.7 is not what its marker says" "$dir/said"
}
check "a figure that is another one than its row's" changed

# A command's test is one of make check: not gone, and not of a part of make check-full alone.
named_tests() {
    grep -ohE 'make test T=("[^"]*"|[a-z0-9_/]+)' ./*.md */*.md | sed 's/.*T=//; s/"//g' | tr ' ' '\n' | sort -u >"$dir/names"
    [ "$(wc -l <"$dir/names")" -ge 10 ] || return 1
    while read -r name; do
        grep -L " TEST .*full=" tests/"$name".[ct] tests/"$name"/*.[ct] 2>/dev/null | grep -q . || echo "make test T=$name runs nothing"
    done <"$dir/names" >"$dir/none"
    cat "$dir/none"
    [ ! -s "$dir/none" ]
}
check "every make test T=NAME in the pages runs a test" named_tests
done_testing
