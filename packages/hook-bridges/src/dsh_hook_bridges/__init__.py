"""People's Claude Code and Codex hooks on the extension points of an agent.

One invariant: a hook that hangs, fails, floods or says nonsense delays the loop by its deadline at most, and is told.
"""

from ._behaviour import STOP_CAP, Compat
from ._claude import Claude
from ._codex import Codex
from ._config import HookBridgesConfig
from ._decode import decode
from ._dialect import Dialect, Scene
from ._layers import FileState, FoundFile, HookSet, load_hooks, read_hook_file
from ._library import HookLibrary, cache_path, trust_path
from ._matcher import matches
from ._merge import Merged, merge
from ._mirror import TranscriptMirror
from ._notice import HookNotice
from ._outcome import Answer, HookOutcome, OutcomeKind
from ._parse import parse_hooks
from ._plugin import HOOKS, dialect_of, hook_bridges
from ._runner import HookRunner, Setting
from ._sample import SAMPLE_SESSION, is_reachable, sample_payload
from ._support import FEATURES, Feature, Support
from ._support_page import support_page
from ._trust import TrustState, TrustStore, fingerprint, scripts_of
from ._values import DialectName, Handler, HookFile, HookPoint, HookProblem, Layer
from .errors import HookBridgesError, TrustUnreadable

__all__ = [
    "FEATURES",
    "HOOKS",
    "SAMPLE_SESSION",
    "STOP_CAP",
    "Answer",
    "Claude",
    "Codex",
    "Compat",
    "Dialect",
    "DialectName",
    "Feature",
    "FileState",
    "FoundFile",
    "Handler",
    "HookBridgesConfig",
    "HookBridgesError",
    "HookFile",
    "HookLibrary",
    "HookNotice",
    "HookOutcome",
    "HookPoint",
    "HookProblem",
    "HookRunner",
    "HookSet",
    "Layer",
    "Merged",
    "OutcomeKind",
    "Scene",
    "Setting",
    "Support",
    "TranscriptMirror",
    "TrustState",
    "TrustStore",
    "TrustUnreadable",
    "cache_path",
    "decode",
    "dialect_of",
    "fingerprint",
    "hook_bridges",
    "is_reachable",
    "load_hooks",
    "matches",
    "merge",
    "parse_hooks",
    "read_hook_file",
    "sample_payload",
    "scripts_of",
    "support_page",
    "trust_path",
]
