#!/usr/bin/env bash
# Tells the desktop that the agent waits for somebody, or is done.
set -u
message=$(jq -r 'if .hook_event_name == "Notification" then .message else "Done: \(.last_assistant_message // "")" end')
if command -v notify-send >/dev/null; then
  notify-send "Agent in ${PWD##*/}" "$message"
fi
exit 0
