#!/bin/sh
# Every command of docs/finetune.md prints the output on the page.
export LIMIT=240
exec tests/docs/console.sh docs/finetune.md
