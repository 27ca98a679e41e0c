#!/bin/sh
# docs/proving.md has what trine-prove prints.
exec tests/docs/console.sh docs/proving.md
