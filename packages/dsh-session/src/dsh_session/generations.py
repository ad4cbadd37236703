"""The generations of the log format; the only place, with the file name, that knows which one is current."""

from __future__ import annotations

CURRENT = 4
"""The generation this build writes and the one every session has in memory."""

PLUGIN_PREFIX = "plugin:"
"""Types of foreign plugins, ``plugin:<ns>/<name>``: log-only and always ignorable (GENERATIONS §5)."""

SURFACE_TYPES = frozenset({"system/message", "developer/message", "user/message", "assistant/message", "tool/result"})
"""Types that carry a surface operation, and the only ones that may (FORMAT §1.1, GENERATIONS §4, §5)."""

KNOWN_TYPES = SURFACE_TYPES | frozenset(
    """
    agent-preset/selected agent/inbox/spliced approval/asked approval/decided approval/policy assistant/attempt
    command/done command/run compaction/end compaction/prune compaction/start compaction/summary deliverables/presented
    feedback/message-delete feedback/message-put feedback/record goal/change hook/invoked hook/result image/offload
    job/registered job/settled llm/retry llm/retry-started model/selection permission/preset plan/mode request/context
    request/header sandbox/mode schedule/change session-log-deepseek/delivery-accepted session/end-seed session/title
    session/title-llm-request step/end step/start subagent/catalog subagent/descriptor subagent/model-selection-policy
    team/member team/message/delivered team/message/queued team/task todo/write tool-workflow/agent-end
    tool-workflow/agent-start tool-workflow/run-end tool-workflow/run-start tool/call tool/ptc-dispatch
    tool/ptc-dispatch-start turn/end turn/start web/deepseek-search-llm-request working-directory/change
    workspace/changes
    """.split()
)
"""Types a harness of the current generation reads; any other needs ``ignorable`` or the whole log is refused."""
