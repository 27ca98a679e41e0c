#!/bin/sh
# Every command of docs/tour.md prints the output on the page.
export LIMIT=240
exec tests/docs/console.sh docs/tour.md
