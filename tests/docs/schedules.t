#!/bin/sh
# Every command of docs/schedules.md prints the output on the page.
exec tests/docs/console.sh docs/schedules.md
