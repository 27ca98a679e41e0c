#!/bin/sh
# docs/options.md has the help text of every program.
exec tests/docs/console.sh docs/options.md
