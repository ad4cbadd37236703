#!/usr/bin/env python3
"""Before commands: refuses what nobody can undo."""

import json
import re
import sys

PATTERNS = (
    r"rm +-[a-zA-Z]*[rR][a-zA-Z]* +(/|~|\$HOME)/?( |;|$)",
    r"git +push +(.* )?(--force|-f)( |$)",
    r"(curl|wget) [^|]*\| *(sudo +)?(ba|z)?sh( |$)",
    r"(mkfs|dd +(.* )?of=/dev/)",
)

command = json.load(sys.stdin)["tool_input"]["command"]
found = next(filter(None, (re.search(pattern, command) for pattern in PATTERNS)), None)
if found is not None:
    decision = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": f"refused, since it cannot be undone: {found[0]}",
    }
    print(json.dumps({"hookSpecificOutput": decision}))
