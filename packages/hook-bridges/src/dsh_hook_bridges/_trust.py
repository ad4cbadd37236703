"""Whether a project's hooks may run: what comes with a clone is somebody else's code until its user says otherwise."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ._regular import read_regular
from ._values import Handler, HookFile
from .errors import TrustUnreadable

TrustState: TypeAlias = Literal["trusted", "changed", "untrusted"]

_VERSION = 1
_PROJECT = re.compile(
    r"\$\{CLAUDE_PROJECT_DIR\}|\$CLAUDE_PROJECT_DIR|\$\(git rev-parse --show-toplevel\)|\$\{PWD\}|\$PWD|\$\(pwd\)"
)
"""How commands say where their project is."""


class TrustStore:
    """A file of the user's that says which projects are trusted, and with which content."""

    def __init__(self, path: str) -> None:
        self.path = path

    def projects(self) -> Mapping[str, str]:
        """Return every project that was trusted, by its real path, and its digest then. Raises ``TrustUnreadable``."""
        return self._load()

    def state_of(self, project: str, print_: str) -> TrustState:
        """Return whether a project is trusted as it is now. Raises ``TrustUnreadable``."""
        known = self._load().get(os.path.realpath(project))
        if known is None:
            return "untrusted"
        return "trusted" if known == print_ else "changed"

    def trust(self, project: str, print_: str) -> None:
        """Trust a project with exactly this content. Raises ``TrustUnreadable`` and ``OSError``."""
        self._save({**self._load(), os.path.realpath(project): print_})

    def revoke(self, project: str) -> bool:
        """Trust a project no more; False when it was not. Raises as ``trust`` does."""
        known = dict(self._load())
        if known.pop(os.path.realpath(project), None) is None:
            return False
        self._save(known)
        return True

    def _load(self) -> Mapping[str, str]:
        try:
            value = json.loads(read_regular(self.path, follows=False).decode())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise TrustUnreadable(self.path, getattr(error, "strerror", None) or str(error)) from error
        if not isinstance(value, dict) or cast("dict[str, Any]", value).get("version") != _VERSION:
            raise TrustUnreadable(self.path, f"it is not of version {_VERSION}")
        projects = cast("dict[str, Any]", value).get("projects")
        if not isinstance(projects, dict):
            raise TrustUnreadable(self.path, "it has no projects")
        prints = cast("dict[str, Any]", projects)
        return {project: print_ for project, print_ in prints.items() if isinstance(print_, str)}

    def _save(self, projects: Mapping[str, str]) -> None:
        folder = Path(self.path).parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Complete under another name, then renamed: a reader finds the old file or the new one.
        fd, draft = tempfile.mkstemp(prefix=".trust-", dir=folder)
        try:
            with open(fd, "w", encoding="utf-8") as file:
                json.dump({"version": _VERSION, "projects": dict(sorted(projects.items()))}, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
            raise


def fingerprint(project: str, files: Sequence[HookFile]) -> str:
    """Return a digest of what a project's files would have run: their handlers, and the project's scripts these name.

    What else stands in the files does not count, so settings may change without a question. Scripts that such a script
    starts are not followed.
    """
    digest = hashlib.sha256()
    for file in files:
        said = {
            "file": os.path.relpath(file.path, project),
            "off": file.disables_all,
            "hooks": [_canonical(handler) for handler in file.handlers],
        }
        digest.update(json.dumps(said, sort_keys=True).encode() + b"\n")
    for script in sorted(
        {path for file in files for handler in file.handlers for path in scripts_of(handler, project)}
    ):
        digest.update(json.dumps([os.path.relpath(script, project), _digest_of(script)]).encode() + b"\n")
    return digest.hexdigest()


def scripts_of(handler: Handler, project: str) -> Iterator[str]:
    """Yield the files of a project that a command names, be they links; what these start in turn is not followed."""
    base = os.path.realpath(project)
    for word in _words(handler.command):
        named = os.path.join(base, word)
        for path in {os.path.normpath(named), os.path.realpath(named)}:
            if path.startswith(base + os.sep) and os.path.isfile(path):  # noqa: PTH113  # what is no name is no file
                yield os.path.join(project, os.path.relpath(path, base))


def _words(command: str) -> Iterator[str]:
    """Yield what may be a path in a command, seen from the project: its words, and the parts of each."""
    command = _PROJECT.sub(".", command)
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is never closed
        words = command.split()
    for word in _unwritten(words):
        yield word
        yield word.partition("=")[2]  # the value of an option
        if " " in word:  # a script of ``bash -c``
            yield from _words(word)


def _unwritten(words: Iterable[str]) -> Iterator[str]:
    """Leave out what a redirection only writes: a log of the hook's own changes with every run."""
    for before, word in pairwise(["", *words]):
        if not before.endswith((">", ">|", ">&")) or "<" in before:
            yield word


def _canonical(handler: Handler) -> Mapping[str, Any]:
    return {
        "point": handler.point,
        "matcher": handler.matcher,
        "command": handler.command,
        "timeout": handler.timeout_s,
        "onFailure": handler.on_failure,
        "async": handler.is_detached,
        "passEnv": handler.pass_env,
    }


def _digest_of(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        return f"unreadable: {error.errno}"
    return digest.hexdigest()
