"""How sessions become durable: the seam a backend implements, and the coordinator that any backend gets for free.

One invariant: what an awaited append or flush acknowledged is on disk, and what it did not acknowledge is still queued.
"""

from ._copy import Copied, Outcome, ShowsHolder, copy_sessions
from ._memory import MemoryLogStore
from ._resend import unwritten
from ._seam import (
    Capabilities,
    GroupCommit,
    ListedSession,
    LogStore,
    LogTail,
    LogWriter,
    Receipt,
    Repair,
    SessionLocation,
    StoredPrefix,
    TornTail,
)
from ._service import SessionPersistence
from ._write_behind import Health
from .errors import (
    ForeignChange,
    FormatNotSupported,
    LiveTurnOpen,
    OutcomeUnknown,
    PersistenceClosed,
    PersistenceError,
    QueueFull,
    RowTooLarge,
    SeqConflict,
    SessionAlreadyStored,
    SessionBusy,
    SessionCorrupt,
    SessionIdCollision,
    SessionIdTooLong,
    SessionNotFound,
    StoreUnusable,
    WriteFailed,
)

__all__ = [
    "Capabilities",
    "Copied",
    "ForeignChange",
    "FormatNotSupported",
    "GroupCommit",
    "Health",
    "ListedSession",
    "LiveTurnOpen",
    "LogStore",
    "LogTail",
    "LogWriter",
    "MemoryLogStore",
    "Outcome",
    "OutcomeUnknown",
    "PersistenceClosed",
    "PersistenceError",
    "QueueFull",
    "Receipt",
    "Repair",
    "RowTooLarge",
    "SeqConflict",
    "SessionAlreadyStored",
    "SessionBusy",
    "SessionCorrupt",
    "SessionIdCollision",
    "SessionIdTooLong",
    "SessionLocation",
    "SessionNotFound",
    "SessionPersistence",
    "ShowsHolder",
    "StoreUnusable",
    "StoredPrefix",
    "TornTail",
    "WriteFailed",
    "copy_sessions",
    "unwritten",
]
