#!/usr/bin/env bash
# Before commands: refuses what nobody can undo.
set -u
command=$(jq -r '.tool_input.command')
patterns=(
  'rm +-[a-zA-Z]*[rR][a-zA-Z]* +(/|~|\$HOME)/?( |;|$)'
  'git +push +(.* )?(--force|-f)( |$)'
  '(curl|wget) [^|]*\| *(sudo +)?(ba|z)?sh( |$)'
  '(mkfs|dd +(.* )?of=/dev/)'
)
for pattern in "${patterns[@]}"; do
  if [[ $command =~ $pattern ]]; then
    echo "refused, since it cannot be undone: ${BASH_REMATCH[0]}" >&2
    exit 2
  fi
done
exit 0
