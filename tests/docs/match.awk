# Compares what a page shows of a command's output with what was printed (tests/docs/console.sh says what stands for
# what). On a mismatch prints the first shown line that was not found, and exits with 1.
#
#     awk -f tests/docs/match.awk SHOWN PRINTED

{ sub(/[ \t\r]+$/, "") }
FILENAME == ARGV[1] { shown[++n_shown] = $0 }
FILENAME == ARGV[2] { printed[++n_printed] = $0 }
END {
    while (n_shown > 0 && shown[n_shown] == "") n_shown--
    while (n_printed > 0 && printed[n_printed] == "") n_printed--
    exit n_shown > 0 && !compare()
}

# The shown lines between two lines of "..." are a run: its lines are consecutive in the output. The lines before the
# first "..." start the output, those after the last one end it.
function compare(    first, length_, at, anywhere) {
    at = 1
    for (first = 1; first <= n_shown; first += length_) {
        for (anywhere = 0; first <= n_shown && shown[first] == "..."; first++) anywhere = 1
        for (length_ = 0; first + length_ <= n_shown && shown[first + length_] != "..."; length_++) continue
        if (length_ == 0) return 1
        if (anywhere && first + length_ > n_shown && n_printed - length_ + 1 > at) at = n_printed - length_ + 1
        at = find(first, length_, at, anywhere)
        if (!at) return 0
    }
    if (at <= n_printed) print "printed, but not shown: " printed[at]
    return at > n_printed
}

# Finds a run in the printed lines: at `at`, or at the first place from there on if it may stand anywhere. Returns the
# line behind it; 0 if it is not there.
function find(first, length_, at, anywhere,    place, same_, best, most) {
    most = -1
    for (place = at; place <= n_printed || place == at; place++) {
        for (same_ = 0; same_ < length_ && place + same_ <= n_printed; same_++)
            if (!same(shown[first + same_], printed[place + same_])) break
        if (same_ == length_) return place + length_
        if (same_ > most) {
            most = same_
            best = place
        }
        if (!anywhere) break
    }
    print "shown, but not printed: " shown[first + most]
    if (most > 0 || !anywhere || first + length_ > n_shown)
        print "printed instead:        " (best + most <= n_printed ? printed[best + most] : "(nothing more)")
    else
        print "looked for after:       " (at > 1 ? printed[at - 1] : "(the beginning)")
    return 0
}

# Whether a printed line matches the shown one, in which three dots match any text.
function same(pattern, text,    after, at, literal) {
    for (after = 0; dots(pattern); after = 1) {
        literal = substr(pattern, 1, START - 1)
        at = index(text, literal)
        if (at == 0 || (!after && at != 1)) return 0
        text = substr(text, at + length(literal))
        pattern = substr(pattern, START + 3)
    }
    if (!after) return text == pattern
    return length(text) >= length(pattern) && substr(text, length(text) - length(pattern) + 1) == pattern
}

# START: position of the first group of exactly three dots in the pattern. More or fewer are literal, as in a diagram.
function dots(pattern,    skipped) {
    for (skipped = 0; match(pattern, /\.+/); pattern = substr(pattern, RSTART + RLENGTH)) {
        START = skipped + RSTART
        if (RLENGTH == 3) return 1
        skipped += RSTART + RLENGTH - 1
    }
    return 0
}
