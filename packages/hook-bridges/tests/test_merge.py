"""Several hooks of a point come to one decision, whatever their order (H07, BEHAVIOUR §7.6)."""

from __future__ import annotations

from itertools import permutations

import pytest
from hookkit import handler, outcome
from hypothesis import given
from hypothesis import strategies as st

from dsh_hook_bridges import HookOutcome, Merged, merge
from dsh_hook_bridges._merge import without_twins

NOTHING = Merged(verdict=None, reason="", stop=None, contexts=[], updated_input=None)
CLOSED = handler("guard", on_failure="closed")


def decided(*outcomes: HookOutcome) -> tuple[str | None, str]:
    merged = merge(outcomes)
    return merged.verdict, merged.reason


@pytest.mark.parametrize("outcomes", [(), (outcome(),), (outcome("pass", "no reason"), outcome())])
def test_nobody_decides(outcomes):
    assert NOTHING == merge(outcomes)


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("deny", "allow"), ("deny", "deny!")),
        (("deny", "ask"), ("deny", "deny!")),
        (("deny", "pass"), ("deny", "deny!")),
        (("ask", "allow"), ("ask", "ask!")),
        (("ask", "pass"), ("ask", "ask!")),
        (("allow", "pass"), ("allow", "")),
        (("deny", "ask", "allow", "pass"), ("deny", "deny!")),
        (("deny", "timeout", "error"), ("deny", "deny!")),
        (("allow", "timeout"), ("allow", "")),
        (("timeout", "error", "spawn-failed", "cancelled"), (None, "")),
    ],
)
def test_the_most_restrictive_wins_in_any_order(kinds, expected):
    """H07: nobody's yes takes a no back; reasons are those of the rank that decides."""
    for order in permutations(kinds):
        assert expected == decided(*(outcome(kind, f"{kind}!") for kind in order))


def test_reasons_stand_in_the_order_of_the_configuration():
    """An empty line between them; who gives none is passed over."""
    said = [outcome("deny", "one"), outcome("deny"), outcome("allow", "x"), outcome("deny", "two\nlines")]
    assert ("deny", "one\n\ntwo\nlines") == decided(*said)
    assert ("ask", "a\n\nb") == decided(outcome("ask", "a"), outcome("ask", "b"))


def test_a_no_without_a_reason_is_one():
    assert ("deny", "") == decided(outcome("allow", "fine"), outcome("deny"))


@pytest.mark.parametrize("kind", ["error", "timeout", "spawn-failed"])
def test_a_failure_of_a_hook_that_is_closed_blocks(kind):
    """In any order, and it says which hook it was and what failed; of one that is open it does not."""
    for order in permutations([outcome("allow"), outcome(kind, "it broke", by=CLOSED)]):
        assert ("deny", "the hook 'guard' failed, and a failure of it blocks: it broke") == decided(*order)
    assert ("allow", "") == decided(outcome("allow"), outcome(kind, "it broke"))


def test_who_is_cancelled_blocks_nothing():
    """It is the turn that ended, and not the hook that failed."""
    assert (None, "") == decided(outcome("cancelled", by=CLOSED))


def test_a_closed_hook_that_answers_is_like_any_other():
    assert ("allow", "") == decided(outcome("allow", by=CLOSED))


def test_the_last_input_counts():
    """Of those that let the call run; where somebody objects there is none."""
    one, two = outcome("allow", updated_input={"n": 1}), outcome("pass", updated_input={"n": 2})
    asks, denies = outcome("ask", updated_input={"n": 3}), outcome("deny", updated_input={"n": 4})
    assert {"n": 2} == merge([one, two]).updated_input
    assert {"n": 1} == merge([two, one]).updated_input
    assert {"n": 3} == merge([one, asks]).updated_input
    assert {} == merge([one, outcome(updated_input={})]).updated_input
    for order in permutations([one, two, denies]):
        assert merge(order).updated_input is None
    assert merge([one, outcome("timeout", by=CLOSED)]).updated_input is None


def test_who_wants_an_end_first_says_why():
    """An empty reason is one as well: the turn ends."""
    first, second = outcome(stops=True, stop_reason="first"), outcome(stops=True, stop_reason="second")
    assert "first" == merge([outcome(), first, second]).stop
    assert "" == merge([outcome(stops=True), second]).stop
    assert merge([outcome(stop_reason="said without wanting it")]).stop is None


def test_an_end_stands_beside_a_verdict():
    """Which of them counts is the point's business."""
    merged = merge([outcome("deny", "no"), outcome("allow", stops=True, stop_reason="enough")])
    assert ("deny", "no", "enough") == (merged.verdict, merged.reason, merged.stop)


def test_all_context_is_kept():
    """Also that of one who objects; in order, empty ones left out."""
    said = [outcome(context="a"), outcome("deny", context="b"), outcome(), outcome(context="c")]
    assert ["a", "b", "c"] == merge(said).contexts


KINDS = ["pass", "allow", "ask", "deny", "error", "timeout", "spawn-failed", "cancelled"]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans()), max_size=6), st.randoms(use_true_random=False))
def test_the_order_never_changes_the_verdict(said, random):
    """Nor can one more hook make it milder."""
    outcomes = [outcome(kind, by=CLOSED if closed else None) for kind, closed in said]
    shuffled = random.sample(outcomes, len(outcomes))
    assert merge(outcomes).verdict == merge(shuffled).verdict
    ranks = [None, "allow", "ask", "deny"]
    with_one_more = merge([*outcomes, outcome("allow")]).verdict
    assert ranks.index(with_one_more) >= ranks.index(merge(outcomes).verdict)


def test_twins_run_once():
    """The first of them; what runs or fails differently is no twin."""
    first, other = handler("a", path="/user", timeout_s=1), handler("b")
    twin = handler("a", path="/project", matcher="Bash", timeout_s=2)
    differs = [handler("a", is_detached=True), handler("a", on_failure="closed"), handler("a", pass_env=("X",))]
    kept = list(without_twins([first, other, twin, *differs, *differs, other]))
    assert [first, other, *differs] == kept
