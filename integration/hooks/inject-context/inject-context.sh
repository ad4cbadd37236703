#!/usr/bin/env bash
# Begins a session with what the project wants everybody to know.
set -u
echo "Branch: $(git branch --show-current)"
[[ -r NOTES.md ]] && cat NOTES.md
exit 0
