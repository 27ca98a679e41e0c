#!/bin/bash
# TEST longer=proved timeout=3600 ranks=4
# trine-verify: a layout beside one rank. With --exact every hash is the same, without it rounding explains what differs,
# and no layout is called wrong (TRINE_LAYOUTS random ones, 5; in the full tests 100, drawn by TRINE_SEED); a bit that one
# rank changes in its parameters is found where it is: step, tensor, rank. Fingerprint files compare what never met.
. tests/lib.sh
needs perl

# Open MPI's mpirun waits a second before it kills ranks of a job of which one has ended with another status than 0. Here
# all ranks end with the same, by themselves.
export OMPI_MCA_odls_base_sigkill_timeout=0

seed=${TRINE_SEED:-7}
layouts=${TRINE_LAYOUTS:-$([ -n "${TRINE_FULL:-}" ] && echo 100 || echo 5)}
perl -e 'binmode STDOUT; srand 5; print pack "V256", 20240520, 1, 4001, (0) x 253; print pack "v*", map { int rand 256 } 1 .. 4001' >"$data"
model="--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --vocab-size 256 --threads 1 --lr 1e-3
    --global-batch-size 8 --micro-batch-size 1 --data-path $data"

# verify RANKS OPTIONS -- ARGUMENTS
verify() {
    local ranks=$1 own=()
    shift
    while [ "$1" != -- ]; do own+=("$1") && shift; done
    shift
    # shellcheck disable=SC2086  # words are meant to be split
    run_ranks "$ranks" "$BUILD/trine-verify" "${own[@]}" -- $model $*
}

# says VERDICT STATUS: the last line, and of all ranks the status
ends() {
    grep -q "^$1 (" "$dir/out" && [ "$status" -eq "$2" ]
}

# found TEXT...: a fault, with these words in this order
found() {
    ends wrong 11 || return
    local all
    all=$(tr '\n' ' ' <"$dir/out")
    for text in "$@"; do
        case $all in *"$text"*) all=${all#*"$text"} ;; *) echo "# lacks: $text" && return 1 ;; esac
    done
}

verify 4 -- --dp 2 --tp 2 --sequence-parallel --zero 3 --exact --exact-tp 2 && ends "equal: all hashes are the same" 0
result $? "with --exact all hashes are those of one rank"

verify 4 -- --dp 2 --tp 2 --vocab-size 257 --exact --global-batch-size 0 && ends "equal: all hashes are the same" 0
result $? "the padding of a vocabulary is no part of it, and what is left open is the layout's in the reference, too"

verify 4 -- --dp 2 --pp 2 --schedule zb "$BF16" && ends "equal up to rounding" 0
result $? "without it rounding explains what differs"

verify 4 --flip-step 2 --flip-rank 2 -- --dp 4 --exact
found "before step 2: h.0.ln_1.weight" "differs between ranks 2 and 0" "step 2: the output of layer 0, sample 2 differs" \
    "on rank 2"
result $? "a bit of a copy of a weight: the rank and the tensor"

verify 4 --flip-step 3 --flip-rank 1 -- --dp 4 --zero 3 --exact
found "step 3: h.0" "before the step differs" "on rank 1"
result $? "a bit of a slice of a weight: the rank, the tensor, the element"

verify 4 --flip-step 2 --flip-rank 3 --flip-unit 2 -- --tp 2 --pp 2
found "step 2: the output of layer 1" "rounding does not explain it"
result $? "without --exact: what rounding does not explain"

verify 4 --flip-what message --flip-step 2 --flip-rank 1 -- --dp 2 --pp 2
found "step 2: the output of layer 0 for micro-batch 0 differs between rank 3, which received it, and rank 1, which sent it" \
    "step 2: the output of layer 1, sample 1 differs" "on rank 3"
result $? "a bit of a message: both ranks"

verify 4 --flip-what gradient --flip-step 2 --flip-rank 3 -- --dp 2 --tp 2 --zero 2
found "step 2: the gradients of layer 0 have changed in the memory of rank 3"
result $? "a bit of a gradient in memory: the rank"

verify 4 --flip-what arithmetic --flip-step 2 --flip-rank 3 -- --dp 4 --zero 1
found "step 2: the gradient of h.0.ln_1.weight differs" "rounding does not explain it"
result $? "a gradient that one rank has computed wrongly: the tensor"

verify 2 --steps 1 --flip-what arithmetic --flip-step 1 --flip-rank 1 --flip-unit 2 --flip-bit 24 -- --dp 2 --zero 1 "$BF16"
found "step 1: the gradient of h.1.ln_1.weight differs" "rounding does not explain it"
result $? "in 16 bits an item is held to its own rounding"

verify 4 --rotate --flip-what arithmetic --flip-step 2 --flip-rank 3 --flip-unit 3 -- --dp 2 --pp 2 --schedule zb
found "step 2: what rank 3 adds to the gradients of head differs"
result $? "and beside itself, every rank one place further: the rank"

verify 4 --flip-what message --flip-step 1 --flip-rank 1 -- --dp 4
[ "$status" -ne 0 ] && grep -q "rank 1 sends no activations" "$dir/err" && verify 4 --flip-step 1 --flip-unit 3 -- --pp 4
[ "$status" -ne 0 ] && grep -q "rank 0 has no parameters of unit 3" "$dir/err"
result $? "what a rank does not have is not changed without a word"

verify 4 --rotate -- --dp 2 --tp 2 && ends "equal: all hashes are the same" 0 &&
    verify 4 --rotate --flip-step 2 --flip-rank 2 -- --dp 4 --zero 3
found "step 2: h.0" "before the step differs" "on rank 2"
result $? "beside itself, every rank one place further"

verify 2 --fingerprint "$dir/prints" -- --dp 2 && [ "$status" -eq 0 ] && verify 4 --against "$dir/prints" -- --dp 2 --tp 2 &&
    ends "equal up to rounding" 0 && verify 2 --against "$dir/prints" -- --dp 2 --zero 1 && ends "equal: all hashes are the same" 0
result $? "a fingerprint file beside another layout"

verify 2 --flip-step 1 --flip-rank 0 --flip-bit 22 --against "$dir/prints" -- --dp 2
found "step 1: " "in $dir/prints"
result $? "and beside a run with a fault"

sed 's/"hash":"[0-9a-f]*",//' "$dir/prints" >"$dir/plain"
verify 2 --against "$dir/plain" -- --dp 2 && ends "equal up to rounding" 0 &&
    verify 2 --flip-step 1 --flip-rank 0 --flip-bit 22 --against "$dir/plain" -- --dp 2
found "step 1: " "in $dir/plain"
result $? "a file without hashes: norms and samples are compared"

# explained OPTIONS TEXT...: beside a file of another trainer, which does not say its options, a run with these
sed '1s/"options":.*"machine"/"machine"/' "$dir/plain" >"$dir/foreign"
explained() {
    verify 2 --steps 2 --against "$dir/foreign" -- --dp 2 "$1"
    shift
    found "$@"
}
agree="the gradients of step 1 agree, "
explained "--adam-beta1 0.95" "the first moment of wte.weight differs" "${agree}the first moments differ: compare --adam-beta1, --clip-grad" \
    "the file's moments are those of --adam-beta1 0.9; here it is 0.95" &&
    explained "--adam-beta2 0.95" "${agree}the second moments differ: compare --adam-beta2" "those of --adam-beta2 0.999; here it is 0.95" &&
    explained "--adam-beta1 0.8 --adam-beta2 0.95" "if both clip alike, the file's moments are those of --adam-beta1 0.9 --adam-beta2 0.999" &&
    explained "--clip-grad 0" "the file's moments are those of --clip-grad 1; here it is 0" &&
    mv "$dir/foreign" "$dir/clipped" && verify 2 --steps 2 --fingerprint "$dir/free" -- --dp 2 --clip-grad 0 && [ "$status" -eq 0 ] &&
    sed '1s/"options":.*"machine"/"machine"/' "$dir/free" >"$dir/foreign" &&
    explained "" "moments are those of gradients that are not clipped: --clip-grad 0; here it is 1"
result $? "gradients agree and moments do not: which of beta1, beta2 and the clipping of the norm the file has"
[ ! -e "$dir/clipped" ] || mv "$dir/clipped" "$dir/foreign"

explained "--lr 2e-3 --lr-decay-style constant" "${agree}and so do the moments: compare --lr" "a learning rate of 0.001 in step 1; here it is 0.002" &&
    explained "--weight-decay 0.5 --decay-all" "step 2: the output of" "$agree" "those of --weight-decay 0.01; here: --weight-decay 0.5 --decay-all" &&
    explained "--adam-eps 1e-6" "${agree}and so do the moments: compare --lr, its schedule and warm-up, --adam-eps" && ! grep -q "the file's" "$dir/out"
result $? "moments agree and parameters do not: the learning rate or the weight decay, and no number where neither explains it"

grep -v '"item":"\(the [a-z]* moment of [a-z0-9_.]*\|[a-z0-9_.]*\|[a-z0-9_.]* before the step\)"' "$dir/foreign" >"$dir/few" && mv "$dir/foreign" "$dir/all" && mv "$dir/few" "$dir/foreign"
explained "--weight-decay 0.5" "step 2: the output of" "${agree}compare --lr" "--decay-all, --adam-beta1, --adam-beta2, --clip-grad"
result $? "a file of outputs and gradients alone: all options"

sed '/"step":1,"item":"the first moment of h.1.mlp.c_fc.bias"/s/"norm":[^,]*/"norm":7/' "$dir/all" >"$dir/foreign"
explained "" "the first moment of h.1.mlp.c_fc.bias differs" && ! grep -q ": compare" "$dir/out"
result $? "the moment of one tensor: no option makes that"

# scaled ITEM FACTOR FILE: the file with norms and samples of items that match ITEM times FACTOR
scaled() {
    perl -pe 'BEGIN { $item = shift; $by = shift } if (/"step":1,"item":"$item"/) {
        s/("norm":)([0-9.e+-]+)/$1 . $2 * $by/e; s/("samples":\[)([^]]*)/$1 . join(",", map { $_ * $by } split(",", $2))/e }' "$1" "$2" "$dir/all" >"$3"
}
scaled 'the gradient of [^"]*' 4 "$dir/foreign"
explained "" "step 1: the gradient of" "in every tensor the file's gradients of step 1 are those here times 4: " \
    "here a step is the mean over 8 samples, in micro-batches of 1" &&
    scaled 'the gradient of [^"]*' 0.125 "$dir/foreign" && explained "" "are those here times 0.125: "
result $? "all gradients have one factor: a scale, with the factor"
scaled 'the gradient of h.1[^"]*' 4 "$dir/foreign"
explained "" "step 1: the gradient of" && ! grep -q "in every tensor" "$dir/out"
result $? "and where some have it no word of a scale"

sed '/"step":1,"item":"the gradient of h.1.mlp.c_fc.bias"/s/"norm":[^,]*/"norm":7/' "$dir/all" >"$dir/foreign"
explained "" "step 1: the gradient of h.1.mlp.c_fc.bias differs" "the sampled elements agree, the norms differ: 0." ", 7 in $dir/foreign"
result $? "where the norm alone is wrong both norms are printed"

verify 2 --against "$dir/prints" -- --dp 2 --lr 2e-3
[ "$status" -ne 0 ] && grep -q "was written by another run:" "$dir/err" && grep -q "there: .*lr 0.001" "$dir/err" && grep -q "here: .*lr 0.002" "$dir/err"
result $? "a file of another run is refused with both"
[ "$(grep -c -e "num-layers" -e "seed" "$dir/err")" -eq 0 ]
result $? "and with nothing that is equal"

sed '3s/"count":[0-9]*/"count":7/' "$dir/prints" >"$dir/broken"
verify 2 --against "$dir/broken" -- --dp 2
[ "$status" -ne 0 ] && grep -q "line 3: .* has 7 elements there" "$dir/err"
result $? "a broken file is refused with its line"

# spoiled SED TEXT: a file in which this was changed is refused with these words
spoiled() {
    sed "$1" "$dir/prints" >"$dir/broken" && verify 2 --against "$dir/broken" -- --dp 2 && [ "$status" -eq 1 ] || return 1
    shift
    for text in "$@"; do grep -qF -- "$text" "$dir/err" || return 1; done
}
spoiled '3s/"step":1/"step":0/' "broken, line 3: step 0: the first step is 1" &&
    spoiled '3s/"item":"/"item":"transformer./' "broken, line 3: this model has no item \"transformer." "did you mean \"" &&
    spoiled '4s/"norm":/"norm":./' "broken, line 4: invalid JSON at byte "
result $? "a step 0, a name that the model has not, and what is no JSON: each with its line and what is near"

# changed SED TEXT...: a file without hashes in which this was changed is called wrong, with these words
changed() {
    sed "$1" "$dir/plain" >"$dir/broken" && verify 2 --steps 2 --against "$dir/broken" -- --dp 2
    shift
    found "$@"
}
one='"step":1,"item":"the gradient of h.1.mlp.c_fc.bias"'
changed "/$one/s/\"samples\":.*/\"samples\":[$(yes null | head -64 | paste -sd, -)]}/" "step 1: the gradient of h.1.mlp.c_fc.bias differs" ", nan in " "the difference is inf of" &&
    changed "/$one/s/,[-0-9.e]*\]/,null]/" "step 1: the gradient of h.1.mlp.c_fc.bias differs" ", nan in "
result $? "an element that is no number is wrong, however right the norm is"
reversed=$(grep "$one" "$dir/plain" | sed 's/.*\[\(.*\)\].*/\1/' | tr , '\n' | tac | paste -sd, -)
changed "/$one/s/\"samples\":.*/\"samples\":[$reversed]}/" "step 1: the gradient of h.1.mlp.c_fc.bias differs" "the norms agree: are its elements in another order" &&
    changed '/"step":1,"item":"the output of embedding, sample 0"/s/"norm":[^,]*/"norm":7/' "nothing is computed before it: compare the samples and their order" &&
    changed "/$one/s/,[-0-9.e]*\]/,7]/;/${one/h.1/h.0}/s/,[-0-9.e]*\]/,7]/" \
        "the gradient of h.1.mlp.c_fc.bias differs" "  element 63 of 128: " ", 7 in " && ! grep -q "the norms agree" "$dir/out" &&
    grep -qF "broken has steps up to 3: those after 2 are not compared (--steps)" "$dir/out"
result $? "what is more often the cause than a fault is named, the element is the farthest, and steps that are not compared are"

item='"step":2,"item":"the gradient of h.1.mlp.c_fc.bias"'
{ cat "$dir/prints" && grep "$item" "$dir/prints"; } >"$dir/copies"
verify 2 --against "$dir/copies" -- --dp 2 && ends "equal: all hashes are the same" 0 &&
    { cat "$dir/prints" && grep "$item" "$dir/prints" | sed 's/"norm":[^,]*/"norm":7/'; } >"$dir/copies" && verify 2 --against "$dir/copies" -- --dp 2
found "step 2: the gradient of h.1.mlp.c_fc.bias in line $(wc -l <"$dir/copies") of $dir/copies differs from line $(grep -n "$item" "$dir/copies" | sed 's/:.*//;q')"
result $? "two lines of an item are copies, and must have the same values"

grep -v '"step":3' "$dir/prints" >"$dir/short"
verify 2 --against "$dir/short" -- --dp 2
[ "$status" -ne 0 ] && grep -q "short has no item of step 3; --steps is 3" "$dir/err" && verify 2 --steps 2 --against "$dir/short" -- --dp 2 && [ "$status" -eq 0 ]
result $? "a file that has nothing of a step is refused"

# shellcheck disable=SC2086  # words are meant to be split
run "$BUILD/train_gpt" $model --train-iters 2 --save "$dir/run"
start="--load $dir/run/step-2 --finetune"
verify 1 --steps 1 --fingerprint "$dir/loaded" -- $start && verify 2 --steps 1 --against "$dir/loaded" -- --dp 2 $start && ends "equal up to rounding" 0 &&
    verify 2 --steps 1 --against "$dir/loaded" -- --dp 2
found "step 1: wte.weight before the step differs"
result $? "every run starts from what --load names"

verify 1 -- --load auto --save "$dir/run"
[ "$status" -ne 0 ] && grep -q -- "--load auto: trine-verify saves nothing" "$dir/err"
result $? "--load auto is refused"

# Elements 0, 127, 254, ... of 8192.
grep '"item":"wte.weight before the step"' "$dir/loaded" | perl -0777 -e '
    open my $file, "<:raw", $ARGV[0] or die; read $file, my $bytes, 8; $bytes = unpack "Q<", $bytes; read $file, my $head, $bytes;
    my ($at) = $head =~ /wte\.weight"[^}]*"data_offsets":\s*\[(\d+)/; seek $file, 8 + $bytes + $at, 0; read $file, my $raw, 4 * 8192;
    my @w = unpack "f<*", $raw; my ($said) = <STDIN> =~ /"samples":\[([^\]]*)/; my @said = split /,/, $said;
    exit !(@said == 64 && !grep { abs($said[$_] - $w[127 * $_]) > 1e-7 * abs $said[$_] } 0 .. 63)' "$dir/run/step-2/model.safetensors"
result $? "samples are of all columns of a matrix"

wrong=0
for i in $(seq "$layouts"); do
    set -- "1 4 1" "4 1 1" "2 2 1" "2 1 2" "1 2 2" "1 1 4"
    draw $#
    shift "$r"
    read -r dp tp pp <<<"$1"
    draw 4
    zero=$r
    set -- "" "$BF16" "--exact --exact-dp 4 --exact-tp 4" "--recompute-granularity full" "--family llama --num-query-groups 2"
    draw $#
    shift "$r"
    # shellcheck disable=SC2086  # words are meant to be split
    verify 4 --steps 2 -- --dp "$dp" --tp "$tp" --pp "$pp" --zero $zero $1
    [ "$status" -eq 0 ] && grep -q '^equal' "$dir/out" || { wrong=1 && echo "# $i: dp $dp tp $tp pp $pp zero $zero $1" && head -n 4 "$dir/out" "$dir/err"; }
done
result $wrong "$layouts random layouts: no false alarm"
done_testing
