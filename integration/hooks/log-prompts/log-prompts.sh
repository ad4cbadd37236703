#!/usr/bin/env bash
# Keeps what people ask for: a line of JSON for each prompt.
set -u
jq -c '{time: (now | todate), session_id, prompt}' >>prompts.jsonl
