#!/usr/bin/env bash
# The work is done when ./check passes. Who was sent back once may leave, so that nobody goes round in circles.
set -u
[[ $(jq -r '.stop_hook_active') == true || ! -x check ]] && exit 0
if ! output=$(./check 2>&1); then
  printf './check fails:\n%s\n' "$(tail -n 20 <<<"$output")" >&2
  exit 2
fi
exit 0
