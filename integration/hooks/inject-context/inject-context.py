#!/usr/bin/env python3
"""Begins a session with what the project wants everybody to know."""

import json
import subprocess
from pathlib import Path

branch = subprocess.run(["git", "branch", "--show-current"], check=False, capture_output=True, text=True).stdout
notes = Path("NOTES.md")
context = f"Branch: {branch}{notes.read_text() if notes.exists() else ''}"
print(json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": context.rstrip()}}))
