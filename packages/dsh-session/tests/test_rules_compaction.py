"""Compactions and prunings (GENERATIONS §5); see ``rule_cases``."""

from __future__ import annotations

from typing import Any

from rule_cases import CONFIG, RESULT, Cases, asked

CASES = Cases()


def begin(talk: Any, turn: Any = 1, **fields: Any) -> Any:
    return talk.append("compaction/start", {"compactionId": "c", "turn": turn, **fields})


def summarize(talk: Any, *seqs: int, **fields: Any) -> Any:
    data = {
        "compactionId": "c",
        "summary": [{"type": "text", "text": "s"}],
        "shadowedRange": {"start": seqs[0], "end": seqs[-1]},
        "shadowedSeqs": list(seqs),
        "shadowedTokenCount": 1,
        **CONFIG,
    }
    return talk.append("compaction/summary", data | fields)


def checkpoint(talk: Any, *seqs: int, **source: Any) -> Any:
    return talk.user(
        op=talk.replace(seqs[0], seqs[-1]),
        cite=seqs,
        source={"kind": "compact-checkpoint", "compactionId": "c"} | source,
    )


def ended(talk: Any, turn: Any = 1, **fields: Any) -> Any:
    return talk.append("compaction/end", {"compactionId": "c", "turn": turn, **fields})


def talked(talk: Any) -> tuple[int, int]:
    return asked(talk).seq, talk.assistant().seq


@CASES.accepted
def compaction(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk)
    summarize(talk, *seqs)
    checkpoint(talk, *seqs)
    ended(talk)
    talk.close()
    begin(talk, None, sourceCommandId="x")
    ended(talk, None, sourceCommandId="x", error={"message": "m"})


@CASES.refused("still open")
def compaction_in_compaction(talk: Any) -> None:
    asked(talk)
    begin(talk)
    begin(talk)


@CASES.refused("turn 1 is due")
def compaction_outside_its_turn(talk: Any) -> None:
    asked(talk)
    begin(talk, None)


@CASES.refused("still open")
def compaction_across_turns(talk: Any) -> None:
    asked(talk)
    begin(talk)
    talk.close()


@CASES.refused("still open")
def compaction_before_a_turn(talk: Any) -> None:
    asked(talk)
    talk.close()
    begin(talk, None)
    talk.open()


@CASES.accepted
def compaction_abandoned(talk: Any) -> None:
    asked(talk)
    begin(talk)
    talk.append("session/end-seed", {})
    talk.close()


@CASES.refused("is not open")
def compaction_summary_alone(talk: Any) -> None:
    summarize(talk, *talked(talk))


@CASES.refused("is not open")
def compaction_summary_after_a_mark(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk)
    talk.append("session/end-seed", {})
    summarize(talk, *seqs)


@CASES.refused("is not open")
def compaction_of_another_command(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk, sourceCommandId="x")
    summarize(talk, *seqs)


@CASES.refused("has a summary already")
def compaction_summary_twice(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk)
    summarize(talk, *seqs)
    summarize(talk, *seqs)


@CASES.refused("exact span")
def compaction_span_short(talk: Any) -> None:
    first, last = talked(talk)
    begin(talk)
    summarize(talk, first, last, shadowedSeqs=[first])


@CASES.refused("exact span")
def compaction_span_backwards(talk: Any) -> None:
    first, last = talked(talk)
    begin(talk)
    summarize(talk, last, first)


@CASES.refused("protected")
def compaction_of_the_head(talk: Any) -> None:
    first, last = talked(talk)
    begin(talk)
    summarize(talk, 2, first, last)


@CASES.refused("tool-result block")
def compaction_wrapped_result(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk)
    summarize(talk, *seqs, summary=[RESULT])


@CASES.refused("is not open")
def checkpoint_alone(talk: Any) -> None:
    checkpoint(talk, *talked(talk))


@CASES.refused("is not open")
def checkpoint_of_another(talk: Any) -> None:
    seqs = talked(talk)
    begin(talk)
    checkpoint(talk, *seqs, compactionId="d")


@CASES.accepted
def checkpoint_appended(talk: Any) -> None:
    asked(talk)
    talk.user(source={"kind": "compact-checkpoint", "compactionId": "d"})


@CASES.refused("without a summary")
def compaction_end_without_summary(talk: Any) -> None:
    asked(talk)
    begin(talk)
    ended(talk)


@CASES.refused("turn 1 is due")
def compaction_end_in_another_turn(talk: Any) -> None:
    asked(talk)
    begin(talk)
    ended(talk, 2, error={"message": "m"})


def prune(talk: Any, *seqs: int) -> Any:
    shadowed = {"start": seqs[0], "end": seqs[-1]}
    data = {"shadowedRange": shadowed, "shadowedSeqs": list(seqs), "shadowedTokenCount": 1}
    return talk.append("compaction/prune", data)


@CASES.accepted
def pruned(talk: Any) -> None:
    prune(talk, *talked(talk))


@CASES.refused("exact span")
def pruned_elsewhere(talk: Any) -> None:
    talked(talk)
    prune(talk, 0)


def test_rule(talk: Any, prove: Any) -> None:
    """GENERATIONS §5: what dsh accepts passes and validates; what it refuses is refused before anything changes."""
    prove(talk)
