"""DeepSeek Harness sessions in memory: events as bytes, the header, what a log means, and the store of live sessions.

One invariant: an event's data is encoded once, when it is appended, and those bytes are the truth from then on.
"""

from ._closers import fork_seed, interrupted_closers, repair_closers
from ._event import EVENT_BYTES, EncodedBatch, Replace, SessionEvent, SurfaceOp, encode_event
from ._expand import expand_stream
from ._header import SessionHeader, SessionMeta
from ._header_line import decode_header, encode_header
from ._json import decode_json, encode_data
from ._log import EventLog, EventRun, RebuiltRequest, RequestHeader, StoredLog
from ._log_state import LogState
from ._pending import PendingCall
from ._session import Guard, Redactor, Session
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
    EventTooLarge,
    FormatUnsupported,
    HeaderInvalid,
    LogIncomplete,
    SessionError,
    SessionExists,
    StreamInvalid,
)

__all__ = [
    "EVENT_BYTES",
    "BlockEnd",
    "BlockStart",
    "DataNotLossless",
    "EncodedBatch",
    "EventLog",
    "EventRefused",
    "EventRun",
    "EventTooLarge",
    "Finish",
    "FormatUnsupported",
    "Guard",
    "HeaderInvalid",
    "LogIncomplete",
    "LogState",
    "PendingCall",
    "ReasoningDelta",
    "RebuiltRequest",
    "Redactor",
    "Replace",
    "RequestHeader",
    "Session",
    "SessionError",
    "SessionEvent",
    "SessionExists",
    "SessionHeader",
    "SessionMeta",
    "Sessions",
    "StoredLog",
    "StreamChunk",
    "StreamInvalid",
    "StreamRecorder",
    "SurfaceOp",
    "TextDelta",
    "ToolCallDelta",
    "Usage",
    "decode_header",
    "decode_json",
    "encode_data",
    "encode_event",
    "encode_header",
    "expand_stream",
    "fork_seed",
    "interrupted_closers",
    "repair_closers",
]
