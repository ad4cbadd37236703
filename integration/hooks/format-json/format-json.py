#!/usr/bin/env python3
"""After edits: a JSON file that was written is indented; one that is no JSON is the model's to mend."""

import json
import re
import sys
from pathlib import Path

PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: (.+)$", re.MULTILINE)

tool_input = json.load(sys.stdin)["tool_input"]
files = [tool_input["file_path"]] if "file_path" in tool_input else PATCHED.findall(tool_input["command"])
faults = []
for file in map(Path, files):
    if file.suffix == ".json":
        try:
            file.write_text(json.dumps(json.loads(file.read_text()), indent=2) + "\n")
        except ValueError as error:
            faults.append(f"{file} is no JSON: {error}")
if faults:
    print(json.dumps({"decision": "block", "reason": "\n".join(faults)}))
