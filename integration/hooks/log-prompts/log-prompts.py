#!/usr/bin/env python3
"""Keeps what people ask for: a line of JSON for each prompt."""

import json
import sys
import time

payload = json.load(sys.stdin)
now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
with open("prompts.jsonl", "a", encoding="utf-8") as log:
    log.write(json.dumps({"time": now, "session_id": payload["session_id"], "prompt": payload["prompt"]}) + "\n")
