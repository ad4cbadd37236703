#!/usr/bin/env bash
# After edits: a JSON file that was written is indented; one that is no JSON is the model's to mend.
set -u
status=0
while IFS= read -r file; do
  [[ $file == *.json ]] || continue
  if formatted=$(jq . "$file" 2>&1); then
    printf '%s\n' "$formatted" >"$file"
  else
    echo "$file is no JSON: $formatted" >&2
    status=2
  fi
done < <(jq -r '.tool_input | .file_path // ((.command // "") | scan("\n\\*\\*\\* (?:Add|Update) File: ([^\n]+)") | .[0])')
exit "$status"
