#!/bin/sh
# docs/planning.md has what trine-plan prints.
exec tests/docs/console.sh docs/planning.md
