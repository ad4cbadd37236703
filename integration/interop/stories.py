"""Sessions that we write, each with something that a log may hold. A story stores one and returns its id."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from dsh_session import EncodedBatch, Replace, SessionMeta, Sessions, StreamRecorder, TextDelta, Usage

from .author import MODEL, Author, keep, text
from .desk import Desk

Story = Callable[[Desk], str]

CALL = '{"command":"true","description":"A test command"}'
NASTY = "lone \ud800 \udfff pair \U0001d4b3 nul \0 del \x7f esc \x1b[31m sep \u2028\u2029 bom \ufeff é e\u0301 \\u0041"

STORIES: dict[str, Story] = {}
"""By name, which is the session's id as well unless the story says otherwise."""


def story(write: Callable[[Author], None]) -> Callable[[Author], None]:
    """Tell of a session that is written in one piece."""
    name = write.__name__.replace("_", "-")

    def tell(desk: Desk) -> str:
        session = desk.session(name)
        write(Author(session))
        keep(desk.store, session)
        desk.lengths[name] = session.next_seq
        return session.id

    STORIES[name] = tell
    return write


def staged(tell: Story) -> Story:
    """Tell of a session that needs more than being written."""
    STORIES[tell.__name__.replace("_", "-")] = tell
    return tell


@story
def two_turns(author: Author) -> None:
    author.turn().turn("And again?", "Again.")


@story
def the_smallest(author: Author) -> None:
    """WRITING: no request header, an empty system prompt."""
    author.note("turn/start", turn=1)
    author.note("step/start", turn=1, step=1)
    prompt = {"role": "system", "id": "m0", "source": {"kind": "system-prompt"}, "content": []}
    author.session.append("system/message", {"turn": 1, "step": 1, "message": prompt}, surface_op="append")
    author.step = 1
    author.user("Hello.")
    author.say("Hello to you.")
    author.close()


@story
def tools(author: Author) -> None:
    author.open().shell("call-1", "first").next_step().shell("call-2", "").next_step()
    author.say("Both have run.")
    author.close()


@story
def parallel_tools(author: Author) -> None:
    """Results come in another order than the calls."""
    author.open()
    author.say("", ("a", CALL), ("b", CALL), ("c", CALL))
    for id in ("b", "a", "c"):
        author.start(id, CALL)
    author.result("c", "third")
    author.result("a", "first", failed=True)
    author.result("b", "second")
    author.next_step().say("All done.")
    author.close()


@story
def unicode(author: Author) -> None:
    author.open(NASTY, system=NASTY)
    author.shell("call-é", NASTY, arguments=json.dumps({"command": f"echo {NASTY}", "description": NASTY}))
    author.next_step().say(NASTY)
    author.close()


@story
def streams(author: Author) -> None:
    """An attempt that came to nothing, and the message that followed, with their streams."""
    author.open()
    lost, kept = StreamRecorder(), StreamRecorder()
    for recorder in (lost, kept):
        for at, piece in enumerate(("Hel", "lo ", "to you.")):
            recorder.add(TextDelta(index=0, text=piece), 1_700_000_000_000 + at)
    kept.add(Usage(usage={"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}), 1_700_000_000_009)
    author.note("assistant/attempt", turn=1, step=1, stream=list(lost.records))
    author.say("Hello to you.", stream=kept.records)
    author.close()


@story
def foreign_events(author: Author) -> None:
    """Events of plugins, of types and with keys that nobody knows."""
    author.open()
    author.note("plugin:acme/note", deep={"a": [1, {"b": None}]}, text=NASTY)
    author.session.append("acme/thing", {"x": 1}, ignorable=True)
    author.note("todo/write", todos=[], unheardOf=True)
    author.say("Noted.")
    author.close()


@story
def a_title(author: Author) -> None:
    author.note("session/title", title="By hand", messageSeqs=[], source={"kind": "user"})
    author.turn()


@story
def a_replacement(author: Author) -> None:
    """A user message takes the place of a span, and stands where that stood."""
    author.turn().turn().turn()
    nodes = author.session.state.surface.nodes
    author.user("In short: they greeted.", op=Replace(start_seq=nodes[1], end_seq=nodes[4]))


@story
def a_new_head(author: Author) -> None:
    """Another system prompt takes the place of the first one."""
    author.turn().open("Change it.")
    head = author.session.state.surface.nodes[0]
    author.system("Be long.", op=Replace(start_seq=head, end_seq=head))
    author.say("It is changed.")
    author.close()


@story
def a_pruned_result(author: Author) -> None:
    """A long result gives way to a short one."""
    author.open().shell("call-1", "long " * 100).next_step().say("It was long.")
    author.close().open()
    (long,) = author.session.events.of_type("tool/result")
    span = {"start": long.seq, "end": long.seq}
    author.note("compaction/prune", shadowedRange=span, shadowedSeqs=[long.seq], shadowedTokenCount=100)
    message = {**long.data["message"], "content": text("short")}
    author.session.append(
        "tool/result",
        {"turn": 1, "step": 1, "message": message},
        surface_op=Replace(start_seq=long.seq, end_seq=long.seq),
        source_event_seqs=[long.seq],
    )
    author.say("It is short.")
    author.close()


@story
def a_compaction(author: Author) -> None:
    """A summary takes the place of everything between the head and the last question."""
    author.turn().open().shell("call-1", "out").next_step().say("Done.")
    author.close().open("Go on.")
    covered = author.session.state.surface.nodes[1:-1]
    started = author.note("compaction/start", compactionId="c-1", turn=3)
    summary = author.note(
        "compaction/summary",
        compactionId="c-1",
        summary=text("They greeted."),
        rawOutput=text("They greeted."),
        llmStreamCall=True,
        shadowedRange={"start": covered[0], "end": covered[-1]},
        shadowedSeqs=covered,
        shadowedTokenCount=40,
        provider=MODEL["provider"],
        model=MODEL["model"],
    )
    checkpoint = {
        "role": "user",
        "id": "checkpoint",
        "source": {"kind": "compact-checkpoint", "compactionId": "c-1"},
        "content": text("They greeted."),
    }
    author.session.append(
        "user/message",
        checkpoint,
        surface_op=Replace(start_seq=covered[0], end_seq=covered[-1]),
        source_event_seqs=[started.seq, summary.seq, *covered],
    )
    author.note("compaction/end", compactionId="c-1", turn=3)
    author.say("On we go.")
    author.close()


@story
def broken_off(author: Author) -> None:
    """The process ended with one call running and one not begun; whoever resumes closes the turn."""
    author.turn().open("Run two things.")
    author.say("Both at once.", ("a", CALL), ("b", CALL))
    author.start("a", CALL)


@staged
def mended_by_us(desk: Desk) -> str:
    """The same, but we are the first to resume it."""
    session = desk.session("mended-by-us")
    broken_off(Author(session))
    keep(desk.store, session)
    desk.lengths[session.id] = session.next_seq
    _quiet(desk.we_go_on(session.id))
    return session.id


def _torn(desk: Desk, name: str) -> str:
    """Cut the end off a batch that is long enough for whole rows to be saved from it in either encoding."""
    session = desk.session(name)
    author = Author(session)
    with desk.store.create(session.header) as writer:
        author.turn()
        writer.append(session.batch(0))
        acknowledged = session.next_seq
        broken_off(author)
        noise = random.Random(1)
        for _ in range(200):
            author.note("plugin:acme/noise", noise=noise.randbytes(1000).hex())
        writer.append(session.batch(acknowledged))
    log = desk.log(session.id)
    os.truncate(log, log.stat().st_size - 20)
    log.with_name(f"{log.name}.mark").unlink()  # as ``dsh`` alone would have left it
    stored = desk.store.read(session.id)
    assert acknowledged + 100 < len(stored.events) < session.next_seq
    desk.lengths[session.id] = len(stored.events)
    return session.id


@staged
def torn_cut_by_dsh(desk: Desk) -> str:
    """The last batch is cut, and ``dsh`` finds it."""
    return _torn(desk, "torn-cut-by-dsh")


@staged
def torn_cut_by_us(desk: Desk) -> str:
    """The last batch is cut, and we find it."""
    _quiet(desk.we_go_on(_torn(desk, "torn-cut-by-us")))
    return "torn-cut-by-us"


@staged
def frame_per_event(desk: Desk) -> str:
    """Each event is a batch of its own."""
    session = desk.session("frame-per-event")
    tools(Author(session))
    with desk.store.create(session.header) as writer:
        for event in session.events:
            writer.append(EncodedBatch(first_seq=event.seq, events=(event,)))
    return session.id


@staged
def no_directory(desk: Desk) -> str:
    """The header names no working directory."""
    session = desk.session("no-directory", cwd=False)
    two_turns(Author(session))
    keep(desk.store, session)
    return session.id


def _odd_id(name: str, session_id: str) -> None:
    def tell(desk: Desk) -> str:
        session = desk.session(session_id)
        two_turns(Author(session))
        keep(desk.store, session)
        return session.id

    STORIES[name] = tell


_odd_id("id-with-separators", "../é a/b%20")
_odd_id("id-of-a-device", "CON")
_odd_id("id-of-200-letters", "x" * 200)


def _forked(desk: Desk, name: str, write: Callable[[Author], None]) -> str:
    sessions = Sessions()
    meta: dict[str, Any] = {"cwd": str(desk.cwd)}
    parent = sessions.create(f"{name}-parent", meta=SessionMeta(**meta))
    write(Author(parent))
    child = sessions.create(name, seed=tuple(parent.events), meta=SessionMeta(**meta, parent_session=parent.id))
    keep(desk.store, parent, child)
    return child.id


@staged
def a_fork(desk: Desk) -> str:
    """A fork at a turn's end holds a copy of its parent's log."""
    return _forked(desk, "a-fork", tools)


@staged
def a_fork_inside_a_turn(desk: Desk) -> str:
    """A fork inside a turn is closed as forked."""
    return _forked(desk, "a-fork-inside-a-turn", broken_off)


def _delegated(desk: Desk, name: str) -> tuple[str, str]:
    sessions = Sessions()
    parent = sessions.create(f"{name}-parent", meta=SessionMeta(cwd=str(desk.cwd)))
    child = sessions.create(
        f"{name}-child",
        meta=SessionMeta(
            cwd=str(desk.cwd),
            parent_session=parent.id,
            origin="subagent",
            delegation_depth=1,
            sandbox_mode="danger-full-access",
            approval_policy="never",
        ),
    )
    two_turns(Author(child))
    author = Author(parent).open("Delegate.")
    author.note(
        "subagent/catalog",
        version=0,
        childId=child.id,
        childCreatedAt=child.header.created_at,
        mode="continuable",
        label="A greeting",
    )
    author.say("The child greeted.")
    author.close()
    keep(desk.store, parent, child)
    return parent.id, child.id


@staged
def a_delegated_child(desk: Desk) -> str:
    """A subagent's session, whose baselines stand in its log."""
    return _delegated(desk, "a-delegation")[1]


@staged
def a_delegating_parent(desk: Desk) -> str:
    """The session that delegated, and names its child."""
    return _delegated(desk, "another-delegation")[0]


@staged
def the_loop(desk: Desk) -> str:
    """What ``dshpy loop`` leaves behind."""
    if desk.encoding == "raw":  # it writes what the root holds
        two_turns(Author(session := desk.session("makes-the-root-raw")))
        keep(desk.store, session)
    command = [sys.executable, "-m", "dsh_cli", "loop", "--json", "--home", str(desk.home)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, cwd=desk.cwd)
    found: str = json.loads(done.stdout)["session_id"]
    return found


def _quiet(troubles: Any) -> None:
    assert not any(troubles.values()), troubles
