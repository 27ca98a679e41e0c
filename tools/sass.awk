# tools/sass.sh: reads cuobjdump -res-usage, then -sass.

BEGIN {
    columns = split("HMMA LDSM MUFU FP FMNMX PACK SHFL LDG LDS STS BAR int", column, " ")
    printf "%6s %6s", "slots", "clocks"
    for (i = 1; i <= columns; i++) printf " %5s", column[i]
    printf " %5s %5s  %s\n", "regs", "stack", "kernel"
}

function kind(op) {
    if (op ~ /^HMMA/) return "HMMA"
    if (op ~ /^LDSM/) return "LDSM"
    if (op ~ /^MUFU/) return "MUFU"
    if (op ~ /^(FFMA|FMUL|FADD|FSETP|FSEL)/) return "FP"
    if (op ~ /^FMNMX/) return "FMNMX"
    if (op ~ /^F2FP/) return "PACK"
    if (op ~ /^(SHFL|VOTE)/) return "SHFL"
    if (op ~ /^LDG/) return "LDG"
    if (op ~ /^LDS/) return "LDS"
    if (op ~ /^STS/) return "STS"
    if (op ~ /^BAR/) return "BAR"
    return "int"
}

# Whether the path to instruction `at` with these counts is better than the best known one.
function better(at, hmma, wide, slots) {
    if (!(at in best_slots)) return 1
    if (hmma != best_hmma[at]) return hmma > best_hmma[at]
    if (wide != best_wide[at]) return wide > best_wide[at]
    return slots < best_slots[at]
}

function go(from, to, end) {
    if (to <= from || to > end) return
    if (!better(to, best_hmma[from] + is_hmma[to], best_wide[from] + is_wide[to],
                best_slots[from] + 1)) return
    best_hmma[to] = best_hmma[from] + is_hmma[to]
    best_wide[to] = best_wide[from] + is_wide[to]
    best_slots[to] = best_slots[from] + 1
    before[to] = from
}

# The loop from instruction `head` to `end`.
function loop(head, end,    i, clocks) {
    split("", best_slots)
    best_hmma[head] = is_hmma[head]; best_wide[head] = is_wide[head]; best_slots[head] = 1
    for (i = head; i < end; i++) {
        if (!(i in best_slots)) continue
        if (target[i] != "" && (target[i] in number)) go(i, number[target[i]], end)
        if (!leaves[i]) go(i, i + 1, end)
    }
    if (!(end in best_slots)) return
    split("", sum)
    for (i = end; i != head; i = before[i]) sum[kind(op[i])]++
    sum[kind(op[head])]++
    printf "%6d %6d", best_slots[end], best_slots[end] + 3 * best_hmma[end]
    for (i = 1; i <= columns; i++) printf " %5d", sum[column[i]]
    printf " %5s %5s  %s\n", regs[name], stack[name], name
}

# Innermost loops with HMMA: those that contain no other one.
function report(    i, j, k, loops, inner) {
    loops = 0
    for (i = 1; i <= count; i++) {
        if (target[i] == "" || !(target[i] in number) || number[target[i]] > i) continue
        k = 0
        for (j = number[target[i]]; j <= i; j++) k += is_hmma[j]
        if (k) { loops++; first[loops] = number[target[i]]; last[loops] = i }
    }
    for (i = 1; i <= loops; i++) {
        inner = 1
        for (j = 1; j <= loops; j++)
            if (j != i && first[j] >= first[i] && last[j] <= last[i] &&
                (first[j] > first[i] || last[j] < last[i])) inner = 0
        if (inner) loop(first[i], last[i])
    }
}

function start() {
    if (name != "" && name ~ pattern) report()
    count = 0
    split("", number)
}

/^ Function .*:$/ { used = $2; sub(/:$/, "", used) }
/^  REG:/ {
    regs[used] = $1; sub(/REG:/, "", regs[used])
    stack[used] = $2; sub(/STACK:/, "", stack[used])
}
/Function : / { start(); name = $3 }

# An instruction: its address in a comment, an optional predicate, the operation, operands.
name != "" && match($0, /^ +\/\*[0-9a-f]+\*\/ +/) {
    count++
    address = $1
    gsub(/[^0-9a-f]/, "", address)
    sub(/^0+/, "", address)
    number["0x" address] = count
    text = substr($0, RSTART + RLENGTH)
    sub(/ *;.*/, "", text)
    guarded = text ~ /^@/
    sub(/^@!?U?P[0-9T]+ +/, "", text)
    split(text, word, " ")
    op[count] = word[1]
    is_hmma[count] = word[1] ~ /^HMMA/
    is_wide[count] = word[1] ~ /^(LDGSTS|LDG.*\.128)/
    target[count] = ""
    if (word[1] ~ /^BRA/) target[count] = text
    sub(/^.* /, "", target[count])
    leaves[count] = (word[1] ~ /^(BRA|EXIT|RET|JMP)/) && !guarded && text !~ /P[0-9]/
}

END { start() }
