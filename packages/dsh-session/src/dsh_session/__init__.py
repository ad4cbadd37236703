"""DeepSeek Harness sessions in memory: events as bytes, the header, what a log means, and the store of live sessions.

One invariant: an event's data is encoded once, when it is appended, and those bytes are the truth from then on.
"""

from ._closers import interrupted_closers
from ._event import EncodedBatch, EventLog, EventRun, Replace, SessionEvent, SurfaceOp
from ._header import SessionHeader, SessionMeta
from ._header_line import decode_header, encode_header
from ._json import decode_json, encode_data
from ._log_state import LogState, PendingCall
from ._session import Session
from ._sessions import Sessions
from ._stream import (
    BlockEnd,
    BlockStart,
    Finish,
    ReasoningDelta,
    StreamChunk,
    StreamRecorder,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from .errors import (
    DataNotLossless,
    EventRefused,
    FormatUnsupported,
    HeaderInvalid,
    SessionError,
    SessionExists,
)

__all__ = [
    "BlockEnd",
    "BlockStart",
    "DataNotLossless",
    "EncodedBatch",
    "EventLog",
    "EventRefused",
    "EventRun",
    "Finish",
    "FormatUnsupported",
    "HeaderInvalid",
    "LogState",
    "PendingCall",
    "ReasoningDelta",
    "Replace",
    "Session",
    "SessionError",
    "SessionEvent",
    "SessionExists",
    "SessionHeader",
    "SessionMeta",
    "Sessions",
    "StreamChunk",
    "StreamRecorder",
    "SurfaceOp",
    "TextDelta",
    "ToolCallDelta",
    "Usage",
    "decode_header",
    "decode_json",
    "encode_data",
    "encode_header",
    "interrupted_closers",
]
