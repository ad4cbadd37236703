"""From the text of a configuration file to its handlers; what does not fit is named and the rest kept."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast, get_args

from dsh_bash import DSH_ENV_PREFIX

from ._kinds import LONE_SURROGATE, is_array, is_object, kind_of, printable, shown
from ._matcher import is_names, matcher_problem
from ._support import Feature, FeatureKind, features
from ._values import DialectName, Handler, HookFile, HookPoint, HookProblem, Layer

_POINTS: frozenset[str] = frozenset(get_args(HookPoint))
_NO_MATCHER = frozenset({"UserPromptSubmit", "Stop"})
"""Points at which both dialects pass over a matcher."""
_MAX_TIMEOUT_S = 1e9
"""What no executor waits for anyway, and can be told in milliseconds."""
_MAX_CHARACTERS = 500
"""Of what a problem says."""


def parse_hooks(data: bytes, *, dialect: DialectName, layer: Layer, path: str) -> HookFile:
    """Return what a file says: JSON, or TOML where its name ends so. Never raises for what it holds."""
    parser = _Parser(dialect, layer, path)
    settings = parser.decode(data)
    handlers = () if settings is None else tuple(parser.handlers(settings))
    return HookFile(
        dialect=dialect,
        layer=layer,
        path=path,
        handlers=handlers,
        problems=tuple(parser.problems),
        disables_all=None if settings is None else parser.switch(settings),
        switched_off=() if settings is None else tuple(parser.switched_off(settings)),
        features=tuple(parser.features),
    )


class _Parser:
    def __init__(self, dialect: DialectName, layer: Layer, path: str) -> None:
        self._dialect: DialectName = dialect
        self._layer: Layer = layer
        self._path = path
        self.problems: list[HookProblem] = []
        self.features: dict[Feature, None] = {}
        """In the order in which they came."""

    def decode(self, data: bytes) -> Mapping[str, Any] | None:
        try:
            text = data.decode("utf-8-sig")
            settings = tomllib.loads(text) if self._path.endswith(".toml") else json.loads(text)
        except (ValueError, RecursionError) as error:
            self._tell("", f"it cannot be read, so none of its hooks runs: {str(error) or type(error).__name__}")
            return None
        if not is_object(settings):
            self._tell("", f"it is {kind_of(settings)} where an object was expected, so none of its hooks runs")
            return None
        return settings

    def switch(self, settings: Mapping[str, Any]) -> bool | None:
        """Return what the file says about running no hooks at all."""
        if self._dialect == "claude-code":
            value = settings.get("disableAllHooks")
            return value if isinstance(value, bool) else None
        flags = settings.get("features")
        value = flags.get("hooks", flags.get("codex_hooks")) if is_object(flags) else None
        return not value if isinstance(value, bool) else None

    def switched_off(self, settings: Mapping[str, Any]) -> Iterable[str]:
        """Yield the keys under which Codex keeps that its user has switched single hooks off."""
        hooks = settings.get("hooks")
        states = hooks.get("state") if self._dialect == "codex" and is_object(hooks) else None
        for key, state in states.items() if is_object(states) else ():
            if is_object(state) and state.get("enabled") is False:
                yield key

    def handlers(self, settings: Mapping[str, Any]) -> Iterable[Handler]:
        """Yield the handlers of every point."""
        prefix, events = "hooks.", settings.get("hooks")
        if events is None:
            known = features(self._dialect, "event")
            events = {name: groups for name, groups in settings.items() if name in known}
            prefix = ""
            if events:
                names = ", ".join(events)
                self._tell("", f'it has no "hooks" key; {names} was read from the top level, put it below "hooks"')
            elif self._path.endswith("hooks.json"):
                self._tell("", 'it has no "hooks" key and names no event, so it has no hooks')
        if not is_object(events):
            self._tell("hooks", f"it is {kind_of(events)} where an object of events was expected")
            return
        for name, groups in events.items():
            place = f"{prefix}{name}"
            if self._is_point(name, place):
                yield from self._groups(cast("HookPoint", name), groups, place)

    def _is_point(self, name: str, place: str) -> bool:
        if self._dialect == "codex" and name == "state":
            return False  # where Codex keeps which of its hooks are trusted, and which are off
        feature = self._feature("event", name)
        if feature is None:
            self._tell(place, f"{name} is no event of {self._dialect}; its hooks never run")
        elif feature.support == "ignored":
            self._tell(place, f"{name} is not supported ({feature.note}); its hooks never run")
        return feature is not None and feature.support != "ignored" and name in _POINTS

    def _groups(self, point: HookPoint, groups: Any, place: str) -> Iterable[Handler]:
        if not is_array(groups):
            self._tell(place, f"it is {kind_of(groups)} where an array of groups was expected")
            return
        for index, group in enumerate(groups):
            yield from self._group(point, group, f"{place}[{index}]")

    def _group(self, point: HookPoint, group: Any, place: str) -> Iterable[Handler]:
        if not is_object(group):
            self._tell(place, f"it is {kind_of(group)} where an object with hooks was expected")
            return
        handlers = group.get("hooks")
        if not is_array(handlers):
            said = "it has no hooks" if handlers is None else f"its hooks are {kind_of(handlers)}"
            self._tell(place, f'{said}; a group is {{"matcher": …, "hooks": [{{"type": "command", "command": …}}]}}')
            return
        try:
            matcher = self._matcher(point, group.get("matcher"))
        except _Unusable as error:
            self._tell(f"{place}.matcher", str(error))
            return
        for index, handler in enumerate(handlers):
            at = f"{place}.hooks[{index}]"
            try:
                yield self._handler(point, matcher, handler, at)
            except _Unusable as error:
                self._tell(at, str(error))

    def _matcher(self, point: HookPoint, matcher: Any) -> str | None:
        if matcher is None or point in _NO_MATCHER:
            return None
        if not isinstance(matcher, str):
            raise _Unusable(f"it is {kind_of(matcher)} where text was expected; the group's hooks never run")
        if matcher not in ("", "*") and not is_names(matcher, self._dialect):
            problem = matcher_problem(matcher)
            if problem is not None:
                raise _Unusable(f"{shown(matcher)} is no regular expression ({problem}); the group's hooks never run")
        return matcher

    def _handler(self, point: HookPoint, matcher: str | None, handler: Any, place: str) -> Handler:
        if not is_object(handler):
            raise _Unusable(f"it is {kind_of(handler)} where an object with a command was expected")
        fields = handler
        kind = fields.get("type", "command")
        if kind != "command":
            known = isinstance(kind, str) and kind in features(self._dialect, "handler")
            raise _Unusable(
                f"handlers of type {shown(kind)} are {'not supported' if known else 'unknown'}; it never runs"
            )
        if fields.get("if") is not None:
            raise _Unusable('conditions ("if") are not supported; it never runs, rather than too often')
        shell = fields.get("shell")
        if shell not in (None, "bash", "sh"):
            raise _Unusable(f"its shell is {shown(shell)}, and only bash runs hooks; it never runs")
        for name in fields:
            if self._feature("handler field", name) is None:
                self._tell(f"{place}.{name}", "it is unknown, and has no effect")
        return Handler(
            dialect=self._dialect,
            layer=self._layer,
            path=self._path,
            place=place,
            point=point,
            matcher=matcher,
            command=self._command(fields),
            timeout_s=self._timeout(fields, place),
            on_failure="closed" if self._is_closed(fields, place) else "open",
            is_detached=any(self._is_on(fields, name, place) for name in ("async", "asyncRewake")),
            pass_env=tuple(self._pass_env(fields, place)),
        )

    def _command(self, fields: Mapping[str, Any]) -> str:
        command, args = fields.get("command"), fields.get("args")
        if not isinstance(command, str) or not command.strip():
            raise _Unusable("it has no command; it never runs")
        if not _is_word(command):
            raise _Unusable("its command holds what no program argument can; it never runs")
        if args is None or self._dialect != "claude-code":
            return command
        if not is_array(args) or not all(map(_is_word, args)):
            raise _Unusable("its args are no array of text; it never runs")
        # Without a shell there: the words stay what they are, but for the folder that is put in.
        return " ".join(map(_word, [command, *args]))

    def _timeout(self, fields: Mapping[str, Any], place: str) -> float | None:
        names = ("timeout",) if self._dialect == "claude-code" else ("timeout", "timeoutSec")
        for name in names:
            value = fields.get(name)
            if value is None:
                continue
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(min(value, _MAX_TIMEOUT_S))
            self._tell(f"{place}.{name}", f"{shown(value)} is no positive number of seconds; the default holds")
        return None

    def _is_on(self, fields: Mapping[str, Any], name: str, place: str) -> bool:
        value = fields.get(name)
        if value is not None and not isinstance(value, bool):
            self._tell(f"{place}.{name}", f"it is {kind_of(value)} where a boolean was expected; the loop waits for it")
        return value is True

    def _is_closed(self, fields: Mapping[str, Any], place: str) -> bool:
        value = fields.get("onFailure", "open")
        if value not in ("open", "closed"):
            self._tell(f"{place}.onFailure", f'it is {shown(value)}, neither "open" nor "closed"; a failure blocks')
        return bool(value != "open")

    def _pass_env(self, fields: Mapping[str, Any], place: str) -> Iterable[str]:
        names = fields.get("passEnv", [])
        if not is_array(names):
            self._tell(f"{place}.passEnv", f"it is {kind_of(names)} where an array of names was expected")
            return
        for name in names:
            if not _is_word(name) or not name or "=" in name:
                self._tell(f"{place}.passEnv", f"{shown(name)} is no name of a variable")
            elif name.upper().startswith(DSH_ENV_PREFIX):
                self._tell(f"{place}.passEnv", f"{name} is a managed name, which no child inherits")
            else:
                yield name

    def _feature(self, kind: FeatureKind, name: str) -> Feature | None:
        """Return the row of the table that something falls under, and keep it."""
        row = features(self._dialect, kind).get(name)
        if row is not None:
            self.features[row] = None
        return row

    def _tell(self, place: str, message: str) -> None:
        # Names in there are the file's, which may be anybody's: no control sequence and no book reaches a terminal.
        said = [printable(text[:_MAX_CHARACTERS]) for text in (place, message)]
        self.problems.append(HookProblem(path=self._path, place=said[0], message=said[1]))


class _Unusable(Exception):
    """Why a group or a handler is left out."""


def _is_word(value: object) -> TypeGuard[str]:
    """Tell whether it is a text that a program can be given."""
    return isinstance(value, str) and "\0" not in value and LONE_SURROGATE.search(value) is None


def _word(text: str) -> str:
    """Quote a word of an argument vector; the one variable that is a placeholder there stays one."""
    parts = text.split("${CLAUDE_PROJECT_DIR}")
    return '"$CLAUDE_PROJECT_DIR"'.join(shlex.quote(part) if part or len(parts) == 1 else "" for part in parts)
