# Splits a page into its commands (tests/docs/console.sh says what a page looks like). For command N writes steps/N.name,
# .command, .shown (the lines below it) and .expected (its exit status); prints how many there are.
#
#     awk -v steps=DIR -f tests/docs/split.awk PAGE

/^```/ {
    inside = !inside && /^```console[ \t]*$/
    finish()
    next
}
!inside { next }
base != "" && continued {
    command($0)
    next
}
/^\$ / {
    finish()
    base = steps "/" ++count
    expected = 0
    name = FILENAME ":" FNR ": $ " substr($0, 3)
    gsub(/#/, "", name) # TAP reads "# skip" as a directive
    print name >(base ".name")
    printf "" >(base ".shown")
    command(substr($0, 3))
    next
}
base == "" {
    print FILENAME ":" FNR ": output without a command: " $0 >"/dev/stderr"
    exit 2
}
/^\[status [0-9]+\]$/ {
    expected = substr($0, 9) + 0
    next
}
{ print >(base ".shown") }
END { print count + 0 }

function command(line) {
    print line >(base ".command")
    continued = line ~ /\\$/
}

function finish() {
    if (base == "") return
    print expected >(base ".expected")
    close(base ".name")
    close(base ".command")
    close(base ".shown")
    close(base ".expected")
    base = ""
}
