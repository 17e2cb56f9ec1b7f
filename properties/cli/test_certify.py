"""`flowref certify` tells each claim when it is found, and what it did not come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from flowref import proving
from flowref.cli import certify, main
from flowref.cli.interruption import INTERRUPTED
from flowref.cli.screen import Bar
from flowref.model import Law, Target
from flowref.proving import STATEMENTS, Certificate
from flowref.proving.identities import Proof

LAWS = list(STATEMENTS)
COUNT = len(LAWS)
ONE, TWO = "nflows:LULinear", "nflows:BatchNorm"
SECONDS = 10.0
LACKING, WRONG = Proof(False, reason="it has no inverse"), Proof(False, reason="it is no identity")


class Prover:
    """Finds nothing of any law, in ten seconds each. ``lacking``: the laws that do not apply; ``interrupted``: before which
    claim a person presses Ctrl-C. ``events``: what is begun, and what is printed.
    """

    def __init__(self, lacking: Iterable[str] = (), interrupted: int = -1) -> None:
        self.lacking, self.interrupted = set(lacking), interrupted
        self.now, self.events, self.shown = 0.0, list[str](), list[str]()

    def certified(self, target: Target, laws: Iterable[Law], *, box: str) -> Iterator[Certificate]:
        """As `proving.certified`."""
        for law in laws:
            if len(self.events) == self.interrupted:
                raise KeyboardInterrupt
            self.events.append(law.id)
            self.now += SECONDS
            proof = LACKING if law.id in self.lacking else WRONG
            yield Certificate(str(target), law.id, "", "", proof)

    def echo(self, text: str, **options: Any) -> None:
        """As `click.echo`."""
        if text.startswith("not proved"):
            self.events.append(f"said {text.split()[2]}")
        click.echo(text, **options)

    def run(self, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
        """The command, with this in the place of proofs."""
        monkeypatch.setattr(proving, "certified", self.certified)
        monkeypatch.setattr(certify, "click", SimpleNamespace(echo=self.echo))
        monkeypatch.setattr(certify, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(Bar, "begin", lambda bar, words, *_, **__: self.shown.append(words))
        return CliRunner().invoke(main, ["certify", *words])


def test_a_claim_is_printed_before_the_next_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a terminal shows which is being proved, of which target."""
    prover = Prover()
    result = prover.run(monkeypatch, ONE)
    assert prover.events == [event for law in LAWS for event in (law, f"said {law}")]
    assert prover.shown == [f"{law} of {ONE}" for law in LAWS]
    assert result.exit_code == 0 and result.stderr == ""


@pytest.mark.parametrize(
    ("specs", "lacking", "said"),
    [
        ((ONE,), LAWS[1:], LAWS[:1]),
        ((ONE,), LAWS, LAWS),
        ((ONE, TWO), LAWS, []),
        ((ONE, TWO), LAWS[:-1], LAWS[-1:] * 2),
    ],
    ids=["one applies", "none applies", "none of two", "one of each"],
)
def test_what_does_not_apply_is_told_of_a_single_target_alone(
    specs: tuple[str, ...], lacking: list[str], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else is."""
    prover = Prover(lacking)
    result = prover.run(monkeypatch, *specs)
    assert [one for one in prover.events if one.startswith("said")] == [
        f"said {one}" for one in said
    ]
    assert result.exit_code == (0 if said else 2)


@pytest.mark.parametrize(
    ("budget", "begun", "left"),
    [
        ("5s", 1, f"{COUNT - 1} statements, from {LAWS[1]} of {ONE} on"),
        ("15s", 2, f"{COUNT - 2} statements, from {LAWS[2]} of {ONE} on"),
        (f"{10 * COUNT - 5}s", COUNT, f"{COUNT} statements, from {LAWS[0]} of {TWO} on"),
        (f"{20 * COUNT - 15}s", 2 * COUNT - 1, f"1 statement, from {LAWS[-1]} of {TWO} on"),
        ("1h", 2 * COUNT, ""),
    ],
)
def test_no_statement_is_begun_after_the_budget(
    budget: str, begun: int, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is told in one line with what to do, and the exit code is that of what was found."""
    prover = Prover()
    specs = (ONE,) if "of nflows:LULinear" in left else (ONE, TWO)
    result = prover.run(monkeypatch, *specs, "--budget", budget)
    assert len(prover.events) == 2 * begun and result.exit_code == 0
    words = "give a longer --budget, or name some of them with --laws"
    assert result.stderr.count("\n") == bool(left)
    assert not left or (f" s was spent before {left}; {words}" in result.stderr)
    assert f"0 of {begun} statements are proved" in result.stdout


def test_what_was_found_is_told_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sum, what is left, and the exit code of an interrupted command."""
    result = Prover(interrupted=4).run(monkeypatch, ONE, TWO)
    assert result.exit_code == INTERRUPTED
    assert "0 of 2 statements are proved" in result.stdout
    left = f"flowref: interrupted before {2 * COUNT - 2} statements, from {LAWS[2]} of {ONE} on; name some of them with --laws\n"
    assert result.stderr == left


def test_a_budget_is_a_duration() -> None:
    """As that of an audit."""
    result = CliRunner().invoke(main, ["certify", ONE, "--budget", "soon"])
    assert result.exit_code == 2 and "no duration" in result.output
