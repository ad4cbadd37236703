"""Read, write, edit and search files of a session's workspace.

One invariant: no call reaches a file outside the workspace by any path or link, whoever swaps names while it runs.
"""

from ._plugin import ToolFilesConfig, file_tools, tool_files
from ._tool import FileTool
from .errors import (
    ArgumentRefused,
    FileChanged,
    FilesError,
    NotText,
    NotThere,
    NoWorkspace,
    PathRefused,
    PatternInvalid,
    SearchStopped,
    SystemRefused,
    TextNotFound,
    TextNotUnique,
    TooLarge,
    WrongKind,
)

__all__ = [
    "ArgumentRefused",
    "FileChanged",
    "FileTool",
    "FilesError",
    "NoWorkspace",
    "NotText",
    "NotThere",
    "PathRefused",
    "PatternInvalid",
    "SearchStopped",
    "SystemRefused",
    "TextNotFound",
    "TextNotUnique",
    "TooLarge",
    "ToolFilesConfig",
    "WrongKind",
    "file_tools",
    "tool_files",
]
