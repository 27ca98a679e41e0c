#!/bin/bash
# TEST full=report timeout=1500
# Pages of trine-report in headless Chromium, at three widths, light and dark: no script error, no request to anywhere,
# no text over other text or cut off, no table that scrolls without a word. The check is first seen to find each of these.
# Leaves a picture in $BUILD/report/report.png, which the README shows.
# shellcheck disable=SC2016  # Perl expands the texts in quotation marks
. tests/lib.sh
LIMIT=600
packages build report || skip_all "Chromium: cannot be installed"
needs chromium perl awk
[ -s /usr/share/javascript/dygraphs/dygraph.min.js ] || skip_all "dygraphs: libjs-dygraphs is not installed"

# chrome ARGUMENTS...: with a profile of its own; it needs no network, and has none that it could reach by name
chrome() {
    timeout -k 5 180 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" --hide-scrollbars \
        --host-resolver-rules='MAP * ~NOTFOUND' --disable-background-networking --no-first-run --force-device-scale-factor=1 \
        "$@" 2>"$dir/chrome"
}

# framed PAGE WIDTH HEIGHT: a page that holds it in a frame of this size (a window has at least 500 pixels) and shows what
# its check says, in an element for reading
framed() {
    perl -0777 -pe 'BEGIN { local $/; open my $f, "<", "tests/report/check.js"; $check = <$f> } s/<title>/<script>$check<\/script><title>/' \
        "$1" >"$dir/checked.html"
    cat <<END >"$dir/frame.html"
<!DOCTYPE html><meta name="color-scheme" content="light dark"><body style="margin:0"><pre id="said">nothing</pre>
<script>window.addEventListener("message", function (e) { document.getElementById("said").textContent = JSON.stringify(e.data); });</script>
<iframe src="checked.html" style="border:0;width:$2px;height:$3px"></iframe>
END
}

# looked_at PAGE WIDTH THEME: $dir/json is what the check has found
looked_at() {
    framed "$1" "$2" 900
    chrome --blink-settings=preferredColorScheme="$([ "$3" = dark ] && echo 0 || echo 1)" --window-size="$(($2 > 500 ? $2 : 500))",1000 \
        --virtual-time-budget=8000 --dump-dom "file://$dir/frame.html" >"$dir/dom"
    sed -n 's/.*<pre id="said">\(.*\)<\/pre>.*/\1/p' "$dir/dom" | sed 's/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' >"$dir/json"
    echo "# $1, $2 pixels, $3: $(perl -MJSON::PP -0777 -ne '$j = decode_json($_); print "$j->{texts} texts, loaded in $j->{seconds} s: @{$j->{faults}}"' "$dir/json")"
}
sound() { looked_at "$@" && holds '!@{$j->{faults}} && $j->{texts} > 40'; }
finds() { # finds FAULT PAGE
    looked_at "$2" 800 light && holds 'grep { /^'"$1"'/ } @{$j->{faults}}'
}

page() { # page NAME ARGUMENTS...
    name=$1
    shift
    "$BUILD/trine-report" "$@" --out "$dir/$name.html" >"$dir/said"
}

# ---- Runs, small ones

"$BUILD/trine-tokens" --out "$dir/text" docs >"$dir/said" 2>&1
options="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 256 --threads 1 --micro-batch-size 2
         --global-batch-size 16 --lr 1e-3 --adam-beta2 0.95 --log-interval 0 --eval-interval 20 --eval-iters 2"
train() { # train RANKS LOG ARGUMENTS...
    ranks=$1 to=$2
    shift 2
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks "$ranks" "$TRAIN" $options --data-path "$dir/text_train.bin" --val-data-path "$dir/text_val.bin" --log "$dir/$to" "$@"
}
train 4 resumed --pp 2 --dp 2 --train-iters 50 --lr-decay-iters 100 --save "$dir/run" --save-interval 25
train 2 resumed --tp 2 --train-iters 100 --lr-decay-iters 100 --save "$dir/run" --load auto
check "two trainings, the second goes on with the first on another layout" test "$status" -eq 0
train 2 other --dp 2 --train-iters 100 --lr 5e-4 --trace "$dir/other.json" --trace-steps 50-51
train 4 zb --pp 4 --schedule zb --train-iters 5
traced=
if "$TRAIN" --help | grep -q -e '--trace FILE'; then traced="--trace $dir/pictured.json --trace-steps 50-52"; fi
# shellcheck disable=SC2086  # words are meant to be split
train 2 pictured --pp 2 --schedule zb --train-iters 60 --lr-warmup-iters 15 --num-layers 6 --hidden-size 256 --global-batch-size 32 $traced

# A trace of 64 ranks, pp 4 x dp 16, of which rank 21 is slow in every pass; as --trace writes it.
awk -v ranks=64 -v micros=24 'BEGIN {
    printf "{\"otherData\":{\"kind\":\"trace\",\"clock_error_ns\":2000},\n\"traceEvents\":["
    for (r = 0; r < ranks; r++) {
        stage = int(r / 16)
        printf "%s\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d [pp%d dp%d tp0]\"}}", r ? "," : "", r, r, stage, r % 16
        for (step = 10; step < 12; step++) {
            from = (step - 10) * 20000
            t = from + stage * 130
            for (m = 0; m < 2 * micros; m++) for (u = 0; u < 4; u++) {
                kind = m % 2 ? "BACKWARD" : "FORWARD"
                long = (m % 2 ? 60 : 30) * (r == 21 ? 1.4 : 1)
                printf ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"cat\":\"instruction\",\"name\":\"%s u%d m%d\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%d,\"unit\":%d,\"micro_batch\":%d}}", r, kind, 4 * stage + u, int(m / 2), t, long, step, 4 * stage + u, int(m / 2)
                t += long
            }
            for (k = 0; k < 2; k++)
                printf ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"step\":%d,\"group\":\"dp\",\"number\":%d,\"bytes\":4096}}", r, 3 * k, k ? "collective" : "instruction", k ? "all_reduce" : "NORM", t, from + 19000 - t, step, step
            printf ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"cat\":\"step\",\"name\":\"step %d\",\"ts\":%d,\"dur\":19500,\"args\":{\"step\":%d}}", r, step, from, step
        }
    }
    print "\n]}"
}' >"$dir/64.json"
# Five runs of 10,000 steps.
for n in 1 2 3 4 5; do
    awk -v n=$n 'BEGIN { srand(n); for (s = 1; s <= 10000; s++)
        printf "{\"step\":%d,\"loss\":%.6f,\"grad_norm\":%.4f,\"lr\":%g,\"tokens\":%d,\"seconds\":%.4f,\"tokens_per_second\":%.1f,\"skips\":%d}\n", s,
            2 + 6 / (1 + s / (50 * n)) + rand() / 5, 1 + rand(), 1e-3 * (1 - s / 10001), s * 8192, 0.5 + rand() / 10, 8192 / (0.5 + rand() / 10), int(s / 3000) }' >"$dir/long$n"
done

page resumed "$dir/resumed"
{ printf '<b>&amp; a text\033[31m of one line: ' && seq -s, 600 && printf 'then\n\tlines\n'; } >"$dir/written.txt"
seq 4000 >"$dir/cut.txt"
page both "$dir/resumed" "$dir/other" --hardware h100 --sample "$dir/written.txt" --sample "$dir/cut.txt"
page zb "$dir/zb"
if [ -e "$dir/pictured.json" ]; then page pictured "$dir/pictured" "$dir/pictured.json"; else page pictured "$dir/pictured"; fi
page large "$dir"/long[1-5] "$dir/64.json"

# ---- The check finds what it is for

spoilt() { # spoilt NAME HTML: the page with this behind its scripts
    perl -pe 's/<\/body>/$ENV{MORE}<\/body>/' "$dir/resumed.html" >"$dir/$1.html"
}
MORE='<script>undefined_function();</script>' spoilt broken
check "the check finds a script error" finds error "$dir/broken.html"
MORE='<img src="https://example.org/x.png">' spoilt asking
check "it finds a request, and the page permits none" finds request "$dir/asking.html"
MORE='<p style="position:absolute;top:4px;left:14px">over the title</p>' spoilt covered
check "it finds text over text" finds overlap "$dir/covered.html"
MORE='<p style="white-space:nowrap">a line that is much too long for any window: 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789</p>' spoilt wide
check "it finds text that is cut off" finds "cut off" "$dir/wide.html"

MORE='<div class="scroll" style="width:100px"><table><tr><td>a cell that is wider than a hundred pixels are</td></tr></table></div><p>after it</p>' spoilt silent
check "it finds a table that scrolls without a word" finds "scrolls without a word" "$dir/silent.html"

# ---- The pages are sound

for page in resumed both zb pictured large; do
    for width in 360 800 1400; do
        for theme in light dark; do
            check "$page, $width pixels, $theme" sound "$dir/$page.html" "$width" "$theme"
        done
    done
done
looked_at "$dir/both.html" 360 light
check "in a narrow window tables scroll, and say so" holds '$j->{scrolls} >= 2'
looked_at "$dir/large.html" 1400 light
check "the page of 64 ranks has curves and all parts" holds '$j->{charts} >= 8 && $j->{headings} eq "Curves; Pipeline; Where a step'"'"'s time went, by stage; Ranks by lateness"'
late() { grep -q 'Rank 21 (pp1 dp5 tp0) is late' "$dir/rendered"; }
chrome --virtual-time-budget=8000 --window-size=1400,1000 --dump-dom "file://$dir/large.html" >"$dir/rendered"
check "and names the slow rank at its top" late

# Each plan by itself: of a run its starts with other plans, then those of other runs.
chrome --virtual-time-budget=8000 --window-size=1400,1000 --dump-dom "file://$dir/both.html" >"$dir/rendered"
by_itself() {
    perl -0777 -ne '@h = /<h([23])>(.*?)<\/h/g; while (@h) { $level = shift @h; $text = shift @h; $level == 2 ? ($under = $text =~ s/,? .*//sr) : print "$under: $text\n" }' \
        "$dir/rendered" >"$dir/said"
    for part in Where Memory; do
        for run in "resumed, from the start: pp 2 x dp 2 x tp 1" "resumed, after step 50: pp 1 x dp 1 x tp 2" other; do
            [ "$(grep -c "^$part: .*$run" "$dir/said")" -eq 1 ] || return 1
        done
    done
}
check "plans, times and memory of each start and run stand by themselves" by_itself

texts() { # each under its name; a tag is text, and what is cut ends so
    perl -0777 -ne 'exit !(/<h2>Samples<\/h2><h3>written.txt<\/h3><pre[^>]*>&lt;b&gt;&amp;amp; a text\x{ef}\x{bf}\x{bd}\[31m of one line: 1,2,[\d,]*,600\nthen\n\tlines\n<\/pre><h3>cut.txt<\/h3><pre[^>]*>1\n2\n[\d\n]* \x{e2}\x{80}\x{a6}<\/pre>/)' "$dir/rendered"
}
check "texts stand at its end" texts

page traced "$dir/resumed" "$dir/other" "$dir/other.json"
chrome --virtual-time-budget=8000 --window-size=1400,1000 --dump-dom "file://$dir/traced.html" >"$dir/rendered"
of_its_layout() { grep -o '<h3>As planned[^<]*' "$dir/rendered" >"$dir/said"; [ "$(cat "$dir/said")" = "<h3>As planned: a row a stage (other)" ]; }
check "a trace stands beside the plan of its own layout, not of the first run with as many stages" of_its_layout
says_whose() { grep -qF "$1" "$dir/rendered"; }
check "the page says whose it is: its run's options name it" says_whose "other.json was written by other, as its options say."
# Two runs of one layout: the one that has written it, the second; without its name none is known.
sed 's/"layout":"pp [^"]*"/"layout":"pp 1 x dp 2 x tp 1"/; s/other\.json/first.json/g' "$dir/other" >"$dir/first"
page traced "$dir/first" "$dir/other" "$dir/other.json"
chrome --virtual-time-budget=8000 --window-size=1400,1000 --dump-dom "file://$dir/traced.html" >"$dir/rendered"
second() { of_its_layout && says_whose "other.json was written by other, as its options say."; }
check "of two runs of its layout the one that has written it" second
cp "$dir/other.json" "$dir/renamed.json"
page traced "$dir/first" "$dir/other" "$dir/renamed.json"
chrome --virtual-time-budget=8000 --window-size=1400,1000 --dump-dom "file://$dir/traced.html" >"$dir/rendered"
check "under another name none is known, and the page says so" says_whose \
    "The logs do not say of which run renamed.json is: first, other have its layout. The plan is that of first."

mkdir -p "$BUILD/report"
chrome --blink-settings=preferredColorScheme=1 --window-size=1200,1480 --virtual-time-budget=8000 --screenshot="$PWD/$BUILD/report/report.png" "file://$dir/pictured.html"
check "a picture" test -s "$BUILD/report/report.png"
done_testing
