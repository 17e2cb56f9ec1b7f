"""Which cases of each statement are visited, and which are left out, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flowref.checking.search import TRAINED_FROM
from flowref.model import STATISTICAL, Law, cases_of, statement_of
from flowref.model.law import CIRCUMSTANCES

EVERY = (*CIRCUMSTANCES, "inverse")


def _lives(laws: Sequence[Law]) -> bool:
    return all("play" in law.needs or law.family == "batch-norm" for law in laws)


def _samples(laws: Sequence[Law]) -> bool:
    return all(law.tolerance == STATISTICAL for law in laws)


def _one_way(laws: Sequence[Law]) -> bool:
    return not any({"forward", "inverse"} & law.needs for law in laws)


def _fresh(laws: Sequence[Law]) -> bool:
    return all(law.history == "fresh" for law in laws)


def _batches(laws: Sequence[Law]) -> bool:
    return any(law.effort >= TRAINED_FROM and (len(law.scales) > 1 or law.scanned) for law in laws)


def _always(laws: Sequence[Law]) -> bool:
    return True


LIVES = (
    "its laws lead lives of their own, in which they set modes, train, and call under other manners"
)
# Of each circumstance the reasons that it may be left out for, the first that holds.
REASONS: dict[str, tuple[tuple[str, Callable[[Sequence[Law]], bool]], ...]] = {
    "train": (
        (LIVES, _lives),
        ("`same/train-mode` states which of it are the same in train mode", _always),
    ),
    "trained": (
        ("it is about what is just built", _fresh),
        (LIVES, _lives),
        ("the standard profile measures trained weights in a batch of their own", _batches),
        ("it is measured in too few batches for other weights than those that are drawn", _always),
    ),
    "no-grad": (
        (LIVES, _lives),
        ("`same/manner[grad-modes]` states that calls return the same under no_grad", _always),
    ),
    "context": (
        ("normalizers of batches take none", lambda laws: laws[0].family == "batch-norm"),
        ("`?context=SHAPE` has every law judge under a context that may be left out", _always),
    ),
    "one-context": (
        ("normalizers of batches take none", lambda laws: laws[0].family == "batch-norm"),
        ("it is about conditional maps and densities already", _always),
    ),
    "many": (
        (LIVES, _lives),
        ("it draws as many samples as it needs", _samples),
        ("`same/rows[many]` states that a thousand rows together are what they are alone", _always),
    ),
    "inverse": (
        ("its calls have one direction", _one_way),
        ("its laws call both directions, or one that is meant", _always),
    ),
}
LETTERS = {
    sentence: chr(ord("a") + index)
    for index, sentence in enumerate(
        dict.fromkeys(sentence for rows in REASONS.values() for sentence, _ in rows)
    )
}


def left_out(laws: Sequence[Law]) -> dict[str, str]:
    """The circumstances that no law of a statement visits, and the letter of the reason."""
    visited = {case for law in laws for case in cases_of(law.id)}
    return {
        case: LETTERS[next(sentence for sentence, holds in REASONS[case] if holds(laws))]
        for case in EVERY
        if case not in visited
    }


def table(every: Iterable[Law]) -> str:
    """A row for each statement."""
    by_statement: dict[str, list[Law]] = {}
    for law in every:
        by_statement.setdefault(statement_of(law.id), []).append(law)
    rows = []
    for statement, laws in sorted(by_statement.items()):
        cases = sorted({", ".join(cases_of(law.id)) for law in laws} - {""})
        missing = ", ".join(f"{case} ({why})" for case, why in left_out(laws).items())
        rows.append(f"| `{statement}` | {'; '.join(cases) or 'the usual one'} | {missing} |")
    reasons = [f"- ({letter}) {sentence}." for sentence, letter in LETTERS.items()]
    head = ["| statement | cases | circumstances left out |", "|---|---|---|"]
    return "\n".join([*head, *rows, "", *reasons])
