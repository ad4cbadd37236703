#!/usr/bin/env python3
"""Tells the desktop that the agent waits for somebody, or is done."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

payload = json.load(sys.stdin)
if payload["hook_event_name"] == "Notification":
    message = payload["message"]
else:
    message = f"Done: {payload.get('last_assistant_message') or ''}"
if shutil.which("notify-send"):
    subprocess.run(["notify-send", f"Agent in {Path.cwd().name}", message], check=False)
