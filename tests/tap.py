"""TAP, for the tests in Python."""
import sys

number = failed = 0
largest = {}


def result(good, name, *remarks):
    global number, failed
    number += 1
    failed += not good
    print("%s %d - %s" % ("ok" if good else "not ok", number, name))
    for remark in remarks:
        for line in str(remark).splitlines():
            print("#", line)
    sys.stdout.flush()


def check(name, what):
    try:
        what()
    except Exception as error:
        result(False, name, "%s: %s" % (type(error).__name__, error))


def keep_largest(way, difference):
    largest[way] = max(largest.get(way, 0), difference)


def done():
    for way in sorted(largest):
        print("# largest difference, %s: %.1e" % (way, largest[way]))
    print("1..%d" % number)
    sys.exit(failed > 0)
