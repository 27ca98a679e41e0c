#!/bin/sh
# TEST timeout=120
# docs/proving.md has what trine-prove prints.
exec tests/docs/console.sh docs/proving.md
