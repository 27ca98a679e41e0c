#!/bin/sh
# trine-report: what it reads, refuses and writes, as a table and in the page's data. tests/report/page.t opens pages in a
# browser.
# shellcheck disable=SC2016  # Perl expands the texts in quotation marks
. tests/lib.sh
needs awk perl

report() { "$BUILD/trine-report" "$@" >"$dir/said_out" 2>"$dir/err"; }
# data PAGE: its data, for `holds`
data() { perl -0777 -ne 'print $1 if /id="data">(.*?)<\/script>/s' "$1" >"$dir/json"; }
page() { report "$@" --out "$dir/page.html" && data "$dir/page.html"; }

# refused TEXT ARGUMENTS...: status 1, and one message that begins with the text
refused() {
    text=$1
    shift
    status=0
    report "$@" || status=$?
    [ "$status" -eq 1 ] && [ "$(wc -l <"$dir/err")" -eq 1 ] &&
        case $(cat "$dir/err") in "trine: $text"*) true ;; *) cat "$dir/err"; false ;; esac
}

# ---- A log: two processes, a skipped step, validations, a checkpoint, a line that is being written

run_of() { # run_of AFTER LAYOUT OPTIONS
    printf '"run":{"after":%s,"version":"0.1.0","time":1700000000,"ranks":4,"nodes":1,"hosts":["a"],"layout":"%s","command":["train_gpt","--x=<!--"],"options":[%s]}' "$@"
}
model='"--num-layers=4","--hidden-size=32","--num-attention-heads=4","--seq-length=16","--vocab-size=256","--global-batch-size=8","--dp=2","--pp=2"'
step() { # step NUMBER LOSS SKIPS [MORE]
    printf '{"step":%s,"loss":%s,"grad_norm":1.5,"lr":0.001,"tokens":%s,"seconds":0.36,"tokens_per_second":1000,"peak_bytes":1048576,"loss_scale":1,"skips":%s%s}\n' \
        "$1" "$2" "$(($1 * 128))" "$3" "${4:+,$4}"
}
{
    printf '{"step":0,"val_loss":5.5,%s}\n' "$(run_of 0 'pp 2 x dp 2 x tp 1' "$model")"
    step 1 5.4783335582022952 0
    step 2 5.25 0
    step 3 null 1
    step 4 5 1 "$(run_of 3 'pp 1 x dp 2 x tp 1' '"--num-layers=4","--dp=2","--vocab-size=256","--global-batch-size=8"')"
    step 5 4.75 1 '"checkpoint":4'
    printf '{"step":5,"val_loss":4.5}\n{"step":6,"lo'
} >"$dir/log"
check "a log becomes a page" page "$dir/log"
check "steps, validation, skips, resumes, checkpoints, the torn line" holds '
    my $r = $j->{runs}[0];
    "@{$r->{step}}" eq "1 2 3 4 5" && !defined $r->{loss}[2] && near($r->{loss}[0], 5.47833) && "@{$r->{skipped}}" eq "3" &&
    $r->{torn} && "@{$r->{checkpoints}}" eq "4" && @{$r->{starts}} == 2 && $r->{starts}[1]{after} == 3 &&
    $r->{val}[0][3] == 5.5 && $r->{val}[1][0] == 5 && $r->{val}[1][1] == 640 && near($r->{hours}[4], 5 * 0.36 / 3600, 1e-5)'
head -4 "$dir/log" >"$dir/first"
page "$dir/first"
check "the plan is that of --dry-run: bytes by kind and stage, the formula's bubble, eight passes of four micro-batches" holds '
    my $p = $j->{runs}[0]{planned};
    near($p->{bubble}, 1 / 5, 1e-5) && @{$p->{memory}{stages}} == 2 && @{$p->{memory}{stages}[0]} == @{$p->{memory}{kinds}} &&
    $p->{memory}{stages}[0][0] > 100000 && @{$p->{passes}} == 2 && @{$p->{passes}[0]} == 6 * 8'
total() { "$BUILD/train_gpt" --dry-run --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256 \
    --global-batch-size 8 --dp 2 --pp 2 | awk '$1 == "total" { print $2 }'; }
check "its total is that of --dry-run" holds '
    my $sum = 0; $sum += $_ for @{$j->{runs}[0]{planned}{memory}{stages}[0]};
    sprintf("%.3f", $sum / 1048576) eq "'"$(total)"'"'
check "with a machine, seconds" page "$dir/first" --hardware h100
check "which add up to the step" holds '
    my $f = $j->{runs}[0]{planned}{forecast}; my $sum = 0; $sum += $_ for @{$f->{stages}[0]};
    $f->{step} > 0 && near($sum, $f->{step}, 1e-4) && $j->{runs}[0]{planned}{unit} eq "s"'

sed 's/"--num-layers/"untied=on","num-layers/; s/"--/"/g' "$dir/first" >"$dir/bare"
page "$dir/bare"
check "options without dashes, and a flag that is on" holds '@{$j->{runs}[0]{planned}{memory}{stages}} == 2 && !$j->{runs}[0]{planned}{missing}'

# Every member of a description with values of every kind: those of its own are in the page, no others.
line=0
for member in version layout time ranks hosts command options; do
    for value in null true 7 -1 1.5 1e300 1e400 8640000000000 8640000000001 '""' '"text"' '[]' '["a"]' '[1,null,"a",["b"],{"c":1},"<"]' '{}' '{"length":3}'; do
        line=$((line + 1))
        printf '{"step":%d,"loss":1,"run":{"after":%d,"%s":%s}}\n' "$line" "$((line - 1))" "$member" "$value"
    done
done >"$dir/kinds"
check "descriptions of other kinds become a page" page "$dir/kinds"
check "which has the values of the right kind, and a time that a calendar has" holds '
    my %said; for my $s (@{$j->{runs}[0]{starts}}) { my $r = $s->{run}; for (keys %$r) { push @{$said{$_}}, ref $r->{$_} ? "[@{$r->{$_}}]" : $r->{$_} } }
    my $texts = "[] [a] [a <]";
    @{$j->{runs}[0]{starts}} == 112 && "@{$said{version}}" eq " text" && "@{$said{layout}}" eq " text" && "@{$said{time}}" eq "7 8640000000000" &&
    "@{$said{ranks}}" eq "7" && "@{$said{hosts}}" eq $texts && "@{$said{command}}" eq $texts && "@{$said{options}}" eq $texts && keys %said == 7'
# ---- Several runs: each has its plan, layout and memory by itself

page "$dir/log"
check "a run that goes on with another layout: each start has its plan, of its own options" holds '
    my ($a, $b) = @{$j->{runs}[0]{starts}}; my $p = $a->{planned}; my $q = $j->{runs}[0]{planned};
    $p->{ranks} == 4 && @{$p->{stages}} == 2 && @{$p->{memory}{stages}} == 2 && @{$p->{passes}} == 2 && !$b->{planned} &&
    $q->{ranks} == 2 && @{$q->{stages}} == 1 && @{$q->{memory}{stages}} == 1 && $a->{run}{layout} ne $b->{run}{layout}'
own_memory() { # the second process has half of the first one's; then it says nothing of its own
    sed '$d' "$dir/log" | awk 'match($0, /^{"step":[0-9]+/) { late = substr($0, 9, 1) > 3; half = "\"peak_bytes\":" (late ? 524288 : 1048576) ",\"resident_bytes\":" (late ? 500 : 1000)
        sub(/"peak_bytes":1048576/, half) } { print }' >"$dir/memory"
    page "$dir/memory" && holds '
        my $r = $j->{runs}[0]; my ($a, $b) = @{$r->{starts}};
        $a->{resident} == 1000 && $a->{peak} == 1048576 && $b->{resident} == 500 && $b->{peak} == 524288 && $r->{resident} == 500 && $r->{peak} == 524288' &&
        sed 's/,"resident_bytes":500//' "$dir/memory" >"$dir/silent" && page "$dir/silent" &&
        holds '$j->{runs}[0]{starts}[0]{resident} == 1000 && !defined $j->{runs}[0]{resident}'
}
check "and the memory of its own steps" own_memory
same() { sed '5s/"run":{"after":3.*/'"$(run_of 3 'pp 2 x dp 2 x tp 1' "$model" | sed 's/[&/\]/\\&/g')"'}/' "$dir/log" >"$dir/same" && page "$dir/same" &&
    holds '@{$j->{runs}[0]{starts}} == 2 && !$j->{runs}[0]{starts}[0]{planned} && @{$j->{runs}[0]{planned}{stages}} == 2'; }
check "where it goes on as it was, one plan" same

other='"--family=llama","--num-layers=2","--hidden-size=64","--num-attention-heads=4","--seq-length=32","--vocab-size=512","--global-batch-size=4","--dp=2"'
{ step 1 6.5 0 "$(run_of 0 'pp 1 x dp 2 x tp 1' "$other")"; step 2 6.25 0; } >"$dir/second"
two() { # two NAME NAME: two runs, of two models
    holds '
        my ($r, $s) = @{$j->{runs}}; my $sum = sub { my $t = 0; $t += $_ for @{$_[0]{planned}{memory}{stages}[0]}; $t };
        @{$j->{runs}} == 2 && $r->{path} eq "'"$1"'" && $s->{path} eq "'"$2"'" && "@{$r->{step}}" eq "1 2 3 4 5" && "@{$s->{step}}" eq "1 2" &&
        @{$r->{starts}} == 2 && @{$s->{starts}} == 1 && $r->{starts}[0]{planned}{ranks} == 4 && $s->{planned}{ranks} == 2 && !$s->{torn} &&
        $s->{planned}{stages}[0] =~ /layers 0-1, head/ && !$s->{planned}{missing} && $sum->($s) != $sum->($r) && near($s->{hours}[1], 2 * 0.36 / 3600, 1e-5)'
}
page "$dir/log" "$dir/second"
check "two logs, of other layouts and models" two "$dir/log" "$dir/second"
{ sed '$d' "$dir/log"; cat "$dir/second"; } >"$dir/joined"
page "$dir/joined"
check "the same two in one file" two "$dir/joined (run 1)" "$dir/joined (run 2)"
table_of() { report "$dir/joined" --csv && [ "$(cut -d, -f1 "$dir/said_out" | sort | uniq -c | tr -s ' \n' ' ')" = " 6 $dir/joined (run 1) 2 $dir/joined (run 2) 1 run " ]; }
check "and as rows of a table" table_of

# ---- A training's own log

token_file "$data" 20240520 1 4000 4000
rm -rf "$dir/run"
job 0 --data-path "$data" --log "$dir/own" --global-batch-size 4 --save "$dir/run" --save-interval 2 --train-iters 5 --lr 0.002
page "$dir/own"
check "a training's log says what was started, and with which options" holds '
    my $s = $j->{runs}[0]{starts}[0]; my %o = map { my ($name, $value) = split /=/, $_, 2; $name => $value // "on" } @{$s->{run}{options}};
    @{$j->{runs}[0]{starts}} == 1 && $s->{after} == 0 && $s->{run}{command}[-1] eq "0.002" && $s->{run}{ranks} == 1 && $o{"--lr"} == 0.002 &&
    $o{"--num-layers"} == 2 && !exists $o{"--seed"} && !exists $o{"--clip-grad"} && !exists $o{"--zero"} && $j->{runs}[0]{resident} > 1e6'
check "and its checkpoints, each once" holds '"@{$j->{runs}[0]{checkpoints}}" eq "2 4"'
check "its plan is made from them" holds '@{$j->{runs}[0]{planned}{memory}{stages}} == 1'

# ---- Many steps: what stands out is there

awk 'BEGIN {
    for (n = 1; n <= 20000; n++) {
        loss = n == 5003 ? 99 : n == 7777 ? -3 : 2 + n % 7 / 100
        norm = n == 11111 ? 1e6 : 1
        printf "{\"step\":%d,\"loss\":%g,\"grad_norm\":%g,\"seconds\":1,\"skips\":%d}\n", n, loss, norm, (n >= 15001)
    }
}' >"$dir/long"
page "$dir/long"
check "of 20,000 steps few are in the page, with every extreme and skip" holds '
    my $r = $j->{runs}[0]; my %at; $at{$r->{step}[$_]} = $_ for 0 .. $#{$r->{step}};
    @{$r->{step}} < 6000 && $r->{steps} == 20000 && $r->{loss}[$at{5003}] == 99 && $r->{loss}[$at{7777}] == -3 &&
    $r->{norm}[$at{11111}] == 1e6 && exists $at{15001} && exists $at{20000} && "@{$r->{skipped}}" eq "15001"'

# ---- Nothing in a text is HTML, and nothing comes from elsewhere

mkdir "$dir/<"  # "$odd" is a file in this folder
odd="$dir/</script><b>&"
cp "$dir/log" "$odd"
page "$odd"
check "a name with </script> ends no element" holds '$j->{runs}[0]{path} eq "'"$odd"'" && $j->{runs}[0]{starts}[0]{run}{command}[1] eq "--x=<!--"'
elements() { # as many ends as beginnings, and no text that a browser would take for a comment
    [ "$(grep -o '<script' "$dir/page.html" | wc -l)" -eq "$(grep -o '</script>' "$dir/page.html" | wc -l)" ] &&
        ! grep -q '<' "$dir/json"
}
check "as many script elements end as begin" elements
alone() { ! grep -oE '(src|href)="[^"]*"|@import|url\([^)]*\)|sourceMappingURL' "$dir/page.html" | grep -v '^[a-z]*="data:'; }
check "the page names no other file" alone

# ---- Samples: texts, as they may stand in a page

printf '\357\273\277In the </pre><script>\r\nbeginning\ta\033[31mb\000c\177 \302\205\342\200\256\342\201\246 \303\251\360\237\230\200\r' >"$dir/said.txt"
awk 'BEGIN { for (n = 0; n < 8191; n++) printf "x"; printf "\303\251more" }' >"$dir/long.txt"
: >"$dir/empty.txt"
check "texts become a part of the page" page "$dir/first" --sample "$dir/said.txt" --sample "$dir/long.txt" --sample "$dir/empty.txt"
check "as text, without control characters, the first 8 KiB in whole characters" holds '
    my ($s, $l, $e) = @{$j->{samples}}; my $no = "\x{fffd}";
    @{$j->{samples}} == 3 && $s->{path} eq "'"$dir/said.txt"'" && !$s->{cut} && $l->{cut} && $l->{text} eq "x" x 8191 && $e->{text} eq "" && !$e->{cut} &&
    $s->{text} eq "In the </pre><script>\nbeginning\ta$no\[31mb${no}c$no $no$no$no \x{e9}\x{1f600}\n"'
check "as many script elements end as begin" elements
page "$dir/first"
check "without texts there is no such part" holds '!exists $j->{samples}'
for bytes in '\377' 'a\303' '\303(' '\355\240\200' '\340\200\200' '\364\220\200\200'; do
    # shellcheck disable=SC2059  # the bytes are the format
    printf "ab$bytes" >"$dir/bad.txt"
    check "what is no UTF-8 ($bytes) is refused with its byte" refused "--sample $dir/bad.txt: is not UTF-8 at byte " "$dir/first" --sample "$dir/bad.txt" --out "$dir/no.html"
done
printf '\377\376a\0' >"$dir/bad.txt"
check "UTF-16 is refused" refused "--sample $dir/bad.txt: is UTF-16" "$dir/first" --sample "$dir/bad.txt" --out "$dir/no.html"
check "so is a file that is not there" refused "--sample $dir/none.txt: " "$dir/first" --sample "$dir/none.txt" --out "$dir/no.html"
check "and an output that is a text" refused "--out $dir/said.txt: the same file as --sample" "$dir/first" --sample "$dir/said.txt" --out "$dir/said.txt"
check "a table has no texts" refused "--csv and --sample exclude each other" --csv "$dir/first" --sample "$dir/said.txt"
check "texts alone are no page" refused "no log is given" --sample "$dir/said.txt" --out "$dir/no.html"

# ---- The table

report --csv "$dir/log" "$dir/long"
cp "$dir/said_out" "$dir/table"
table() {
    head -1 "$dir/table" | grep -q '^run,step,hours,val_loss,loss,grad_norm,lr,tokens,seconds,' && [ "$(wc -l <"$dir/table")" -eq 20007 ] &&
        grep -q "^$dir/log,1,[0-9.e-]*,,5.4783335582022952,1.5,0.001,128,0.36,1000,1048576,,1,0\$" "$dir/table" &&
        grep -q "^$dir/log,0,,5.5,,,,,,,,,,\$" "$dir/table" && grep -q "^$dir/log,5,[0-9.e-]*,4.5,4.75," "$dir/table" &&
        grep -q "^$dir/log,3,[0-9.e-]*,,,1.5," "$dir/table"
}
check "--csv: every line of every log, all digits, a validation in its step's row" table

# ---- A trace of two ranks over dp: rank 1 comes 30 us late to a collective, and rank 0 waits 5 us for its message

event() { printf ',\n{"ph":"%s","pid":%s,"tid":%s,%s}' "$@"; }
span() { # span RANK CATEGORY NAME START LENGTH ARGUMENTS
    event X "$1" 0 "\"cat\":\"$2\",\"name\":\"$3\",\"ts\":$4,\"dur\":$5,\"args\":{$6}"
}
trace() {
    printf '{"displayTimeUnit":"ms","otherData":{"kind":"trace","clock_error_ns":1500},\n"traceEvents":['
    printf '{"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"rank 0 [pp0 dp0 tp0]"}}'
    event M 1 0 '"name":"process_name","args":{"name":"rank 1 [pp0 dp1 tp0]: in NORM (2 of 3) of step 3"}'
    for r in 0 1; do span $r step "step 3" 0 100 '"step":3'; done
    span 0 instruction "FORWARD u0 m0" 0 20 '"step":3,"unit":0,"micro_batch":0'
    span 1 instruction "FORWARD u0 m0" 0 50 '"step":3,"unit":0,"micro_batch":0'
    span 0 instruction NORM 20 60 '"step":3'
    span 1 instruction NORM 50 30 '"step":3'
    span 0 collective all_reduce 20 60 '"group":"dp","number":7,"bytes":4'
    span 1 collective all_reduce 50 30 '"group":"dp","number":7,"bytes":4'
    span 0 wait wait 80 15 '"step":3,"for":"FORWARD u1 m1"'
    span 0 message "recv, wait" 80 15 '"group":"pp_next","number":1,"peer":1,"bytes":4'
    event s 1 1 '"id":5,"ts":85'
    event f 0 1 '"id":5,"bp":"e","ts":94.999'
    printf '\n]}\n'
}
trace >"$dir/trace.json"
check "a trace becomes a page, also without a log" page --trace "$dir/trace.json"
check "who waited for whom, for how long: to the microsecond" holds '
    my $t = $j->{trace}; @{$t->{pairs}} == 1 && "@{$t->{pairs}[0]}" eq "0 1 35" && $t->{time}[1]{caused} == 35 && $t->{time}[0]{caused} == 0 &&
    $t->{error} == 1.5 && $t->{ranks}[1]{state} eq "in NORM (2 of 3) of step 3"'
check "where the time went adds up to the step, by rank" holds '
    my ($t, $ok) = ($j->{trace}, 1); my %at; $at{$t->{parts}[$_]} = $_ for 0 .. $#{$t->{parts}};
    for my $r (@{$t->{time}}) { my $sum = 0; $sum += $_ for @{$r->{parts}}; $ok &&= near($sum, 100) }
    my $a = $t->{time}[0]{parts};
    $ok && $a->[$at{forward}] == 20 && $a->[$at{"waiting for a late rank"}] == 35 && $a->[$at{communication}] == 30 &&
    $a->[$at{"other waits"}] == 10 && $t->{time}[1]{own} == 50'
check "the bubble between the first and the last pass" holds 'near($j->{trace}{bubble}, 1 - 70 / 100)'
sed 's/"pid":1,/"pid":2147483646,/' "$dir/trace.json" >"$dir/far.json"
far() { (ulimit -v 2000000 && page --trace "$dir/far.json") && [ "$(grep -o '"rank":2147483646' "$dir/json" | wc -l)" -eq 1 ]; }
check "the number of a rank takes no memory" far
check "a trace among the logs is one" page "$dir/log" "$dir/trace.json"
check "and both are in the page" holds '@{$j->{runs}} == 1 && @{$j->{trace}{ranks}} == 2'
sed 's/"kind":"trace",/&"layout":"pp 1 x dp 4 x tp 1",/' "$dir/trace.json" >"$dir/node0.json"
sed 's/"pid":0,/"pid":2,/; s/"pid":1,/"pid":3,/' "$dir/node0.json" >"$dir/node1.json"
sed 's/dp 4 x tp 1/dp 2 x tp 2/' "$dir/node1.json" >"$dir/tp.json"
check "files of two nodes are one trace" page --trace "$dir/node0.json" "$dir/node1.json"
check "of four ranks and their layout" holds '@{$j->{trace}{ranks}} == 4 && $j->{trace}{layout} eq "pp 1 x dp 4 x tp 1"'
check "two files with spans of one rank are not of one run: both names" \
    refused "$dir/node0.json: it contains spans of rank 0, and so does $dir/trace.json; give files of one run" \
    "$dir/trace.json" "$dir/node0.json" --out "$dir/no.html"
check "and neither are files of two layouts" \
    refused "$dir/tp.json: its ranks are laid out as pp 1 x dp 2 x tp 2, those of $dir/node0.json as pp 1 x dp 4 x tp 1;" \
    "$dir/node0.json" "$dir/tp.json" --out "$dir/no.html"

# ---- What is no log, and no trace

printf '{"step":1,"loss":1}\nno line of a log\n' >"$dir/bad"
check "a line that is no JSON: file and line" refused "$dir/bad, line 2: " "$dir/bad" --out "$dir/no.html"
printf '{"step":1,"loss":1}\n{"loss":2}\n' >"$dir/bad"
check "a line without a step" refused "$dir/bad, line 2: not a line of a log (--log): it has no \"step\"" "$dir/bad" --out "$dir/no.html"
printf '{"step":4,"loss":1}\n{"step":4,"loss":2}\n' >"$dir/bad"
check "steps that do not increase" refused "$dir/bad, line 2: step 4 comes after step 4" "$dir/bad" --out "$dir/no.html"
: >"$dir/bad"
check "an empty file" refused "$dir/bad: no lines of a log" "$dir/bad" --out "$dir/no.html"
head -c 400 "$dir/trace.json" >"$dir/bad"
check "half a trace: the byte" refused "--trace $dir/bad: a string has no end at byte 400" --trace "$dir/bad" --out "$dir/no.html"
cp "$dir/first" "$dir/here.jsonl"
named() { run "$BUILD/trine-report" "$@" && [ "$status" = 0 ]; }
check "without --out" named "$dir/here.jsonl" "$dir/log"
check "the page of run.jsonl is run.html" test "$(cat "$dir/out")" = "$dir/here.html" -a -s "$dir/here.html"
check "which is made again" named "$dir/here.jsonl"
echo "<p>mine</p>" >"$dir/here.html"
check "what is no such page is kept" refused "$dir/here.html exists and is not a page of trine-report; give --out FILE.html" \
    "$dir/here.jsonl"
check "as it was" test "$(cat "$dir/here.html")" = "<p>mine</p>"
rm "$dir/here.html"
cp "$dir/first" "$dir/.first"
check "a name that begins with a dot" named "$dir/.first"
check "has no end" test -s "$dir/.first.html"
cp "$dir/first" "$dir/second.html"
check "a log named .html" named "$dir/second.html"
check "is not replaced" test -s "$dir/second.html.html" -a "$(cat "$dir/second.html")" = "$(cat "$dir/first")"
ln "$dir/here.jsonl" "$dir/here.html"
check "nor by its link" refused "the page $dir/here.html: the same file as argument $dir/here.jsonl" "$dir/here.jsonl"
rm "$dir/here.html"
check "nothing to show" refused "no log is given" --out "$dir/no.html"
check "an unknown machine" refused "--hardware nothing: unknown machine (known: " "$dir/log" --hardware nothing --out "$dir/no.html"
check "none of them has left a page" test ! -e "$dir/no.html"

# ---- --watch

cp "$dir/first" "$dir/growing"
shows() { data "$dir/watched.html" && holds "\"@{\$j->{runs}[0]{step}}\" eq \"$1\" && \$j->{watch} > 0"; }
printf one >"$dir/text"
background "$BUILD/trine-report" "$dir/growing" --sample "$dir/text" --watch --out "$dir/watched.html"
check "--watch writes the page" eventually 300 shows "1 2 3"
step 4 4.5 1 >>"$dir/growing"
check "and again when the log has grown" eventually 300 shows "1 2 3 4"
printf 'one two' >"$dir/text"
says() { data "$dir/watched.html" && holds "\$j->{samples}[0]{text} eq \"$1\""; }
check "or a text has" eventually 300 says "one two"
kill "$launcher"
finish
check "and ends by a signal" test "$status" -eq 143
done_testing
