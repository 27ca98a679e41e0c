#!/bin/bash
# TEST full=report timeout=1500
# Mutated logs and traces (mutate.pl): trine-report refuses each with a message, or makes a page of it that runs in
# headless Chromium, and is used there, without a script error. make fuzz T=page MINUTES=10 runs it for longer.
#
#     TRINE_SEED=7 TRINE_MINUTES=10 tests/report/fuzz.t      inputs of another seed, for ten minutes (default: 1, 1)
#     TRINE_SEED=7 TRINE_INPUT=123 tests/report/fuzz.t       one of them
#
# What failed is kept in $BUILD/report/found; once it is mended, the files go into tests/fuzz/corpus/page as found*.
. tests/lib.sh
packages build report || skip_all "Chromium: cannot be installed"
needs chromium perl
[ -s /usr/share/javascript/dygraphs/dygraph.min.js ] || skip_all "dygraphs: libjs-dygraphs is not installed"

seed=${TRINE_SEED:-1} minutes=${TRINE_MINUTES:-1} only=${TRINE_INPUT:-}
corpus=tests/fuzz/corpus/page
found=$BUILD/report/found
batch=120
tried=0 refused=0 looked=0 faults=0
mkdir -p "$dir/in" "$dir/pages" "$BUILD/report"
rm -rf "$found"

# fault INPUT TEXT: is printed, and the input kept
fault() {
    faults=$((faults + 1))
    [ "$faults" -gt 40 ] || printf '# input %s: %s\n' "$1" "$2"
    mkdir -p "$found"
    for file in "$dir/in/$1" "$dir/in/$1".*; do if [ -e "$file" ]; then cp "$file" "$found"; fi; done
}

# made INPUT ARGUMENTS...: its page, in $dir/pages, or a refusal
made() {
    input=$1 status=0
    shift
    tried=$((tried + 1))
    (ulimit -v 2000000 && exec timeout -k 5 120 "$BUILD/trine-report" "$@" --out "$dir/pages/$input.html") >"$dir/said" 2>"$dir/err" || status=$?
    if [ "$status" -eq 0 ]; then return; fi
    refused=$((refused + 1))
    # A refusal is one line, behind those that say what of a log is ignored.
    if [ "$status" -ne 1 ] || [ "$(grep -vc 'unknown to this version.* is ignored$' "$dir/err")" -ne 1 ] ||
        ! tail -n 1 "$dir/err" | grep -q '^trine: '; then
        fault "$input" "status $status: $(head -c 300 "$dir/err")"
    elif grep -q 'no memory' "$dir/err"; then
        fault "$input" "$(head -c 300 "$dir/err")"
    fi
}

# The page that shows the others, one after the other, each in a frame, and tells what they said.
driver() {
    cat <<END
<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><pre id="said">
</pre><script>
var pages = [$(printf '"%s",' "$@")], n = -1, frame = null, timer = null;
function say(text) { document.getElementById("said").append(text + "\n"); }
function told(d) {
  d.faults.forEach(function (f) { if (/^(error|console|request)/.test(f)) say(pages[n] + "\tfault\t" + f.replace(/\s+/g, " ")); });
  say(pages[n] + "\tlooked\tat");
  next();
}
function next() {
  clearTimeout(timer);
  if (frame) frame.remove();
  frame = null;
  if (++n === pages.length) return;
  frame = document.createElement("iframe");
  frame.style.cssText = "border:0;width:800px;height:900px";
  frame.src = "pages/" + pages[n] + ".html";
  timer = setTimeout(function () { told({ faults: ["error: nothing was said"] }); }, 20000);
  document.body.appendChild(frame);
}
window.addEventListener("message", function (e) { if (frame && e.source === frame.contentWindow) told(e.data); });
next();
</script>
END
}

# seen INPUT...: $dir/seen is what their pages have said, a line each: input, fault or looked, text
seen() {
    driver "$@" >"$dir/driver.html"
    timeout -k 5 "$((60 + 5 * $#))" chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --hide-scrollbars \
        --host-resolver-rules='MAP * ~NOTFOUND' --disable-background-networking --no-first-run --window-size=800,1000 \
        --virtual-time-budget=3600000 --dump-dom "file://$dir/driver.html" >"$dir/dom" 2>"$dir/chrome"
    sed -n '/<pre id="said">/,/<\/pre>/p' "$dir/dom" | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' | grep '	' >"$dir/seen"
}

# told INPUT...: whether all were looked at; their faults
told() {
    while IFS='	' read -r input what text; do
        if [ "$what" = fault ]; then fault "$input" "$text"; else looked=$((looked + 1)); fi
    done <"$dir/seen"
}
ended() { [ "$(grep -c '	looked	' "$dir/seen")" -eq $# ]; }

# look INPUT...: at those that have a page. One that never ends takes the others with it: then each by itself.
look() {
    pages=
    for input in "$@"; do if [ -e "$dir/pages/$input.html" ]; then pages="$pages $input"; fi; done
    # shellcheck disable=SC2086  # words are meant to be split
    set -- $pages
    [ $# -gt 0 ] || return
    # shellcheck disable=SC2016  # Perl's
    perl -0777 -pi -e 'BEGIN { local $/; open my $f, "<", "tests/report/check.js"; $check = <$f> } s/<title>/<script>$check<\/script><title>/' \
        "$dir"/pages/*.html
    seen "$@"
    if ended "$@"; then
        told
    else
        for one in "$@"; do
            seen "$one"
            ended "$one" || fault "$one" "its page does not come to an end"
            told
        done
    fi
    rm -f "$dir"/pages/*
}

# inputs FROM COUNT
inputs() {
    perl tests/report/mutate.pl "$seed" "$1" "$2" "$dir/in" "$corpus" || fault "$1" "mutate.pl ended with $?"
    for n in $(seq "$1" $(($1 + $2 - 1))); do
        # shellcheck disable=SC2046  # words are meant to be split
        made "$n" $(cat "$dir/in/$n")
    done
    # shellcheck disable=SC2046  # words are meant to be split
    look $(seq "$1" $(($1 + $2 - 1)))
    [ -n "$only" ] || rm -f "$dir"/in/*
}
none() { [ "$faults" -eq 0 ]; }

# ---- What is sound, and what was found before

for file in "$corpus"/*; do
    cp "$file" "$dir/in"
    case $file in *.json) made "$(basename "$file")" --trace "$file" ;; *) made "$(basename "$file")" "$file" --hardware h100 ;; esac
done
# shellcheck disable=SC2046  # words are meant to be split
look $(ls "$corpus")
check "the files of $corpus: no script error" none
rm -f "$dir"/in/*

# It finds what it is for.
printf '<!DOCTYPE html><html><head><title>x</title></head><body><script>undefined_function();</script></body></html>' >"$dir/pages/planted.html"
before=$faults
look planted >"$dir/planted"
planted() { [ "$faults" -gt "$before" ] && grep -q 'undefined_function is not defined' "$dir/planted"; }
check "a script error is found" planted
faults=$before
rm -rf "$found"

# ---- Mutated ones

tried=0 refused=0 looked=0
if [ -n "$only" ]; then
    inputs "$only" 1
else
    until=$(($(date +%s) + 60 * minutes))
    for ((from = 0; $(date +%s) < until; from += batch)); do inputs "$from" "$batch"; done
fi
echo "# seed $seed: $tried inputs, $refused refused, $looked pages, $faults faults"
check "mutated logs and traces of seed $seed: no script error, no crash" none
pages() { [ "$looked" -gt 0 ] && [ $((looked + refused)) -eq "$tried" ]; }
[ -n "$only" ] || check "each was refused, or its page was looked at" pages
done_testing
