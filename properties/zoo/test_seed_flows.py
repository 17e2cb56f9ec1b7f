"""Each bug of the tutorial on flows and of the essay on Real NVP is named by a law that it breaks;
without bugs none is.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import pytest

from flowref import checking, registry
from flowref.auditing.selftest import healthy_specs
from flowref.model import Status, TargetError
from flowref_zoo.seeds import flows as seed_flows
from flowref_zoo.seeds import real_nvp as seed_real_nvp
from rows import one_of_each

QUICK = checking.Settings("quick")
SEEDS = (seed_flows, seed_real_nvp)
SHOWN = [(module, row) for module in SEEDS for row in module.ROWS]
TWINS = [(module, part) for module in SEEDS for part in module.PARTS]
# Bugs for which the object cannot be called, or not backwards: what it raises is what is told.
REFUSED = ("001-8", "001-9")
ACCUSING = (Status.VIOLATED, Status.ADVICE)
SOUND = (Status.HOLDS, Status.NOT_APPLICABLE, Status.INCONCLUSIVE)
# Laws of values and log-dets that a twin is held to here; `flowref selftest` and audits hold it to
# all of them.
CORE = (
    "map/log-det[inverse]",
    "map/inverse",
    "map/log-det",
    "shape/one-number-per-point[log-det]",
    "sampling/follows-density[ratios]",
)


def short(value: Any) -> str:
    """A test id: the module without its package, or the row."""
    return value.__name__.rpartition(".")[2] if isinstance(value, ModuleType) else str(value)


def spec(module: ModuleType, options: str) -> str:
    """The spec of what a module makes."""
    return f"{module.__name__}:make?{options}"


@functools.cache
def status(target: str, law: str) -> Status:
    """The verdict on a pair."""
    return checking.pair_verdict(target, law, QUICK).status


def named(module: ModuleType, part: str) -> list[str]:
    """The laws that the bugs of a part break."""
    known = module.PARTS[part].BUGS
    return sorted({law for row in known if row in module.ROWS for law in module.ROWS[row].laws})


@pytest.mark.parametrize("module", SEEDS, ids=short)
def test_the_table_is_complete(module: ModuleType) -> None:
    """Every bug that a part knows has its row in its own module, every row is a bug, and its laws
    are in the catalogue.
    """
    known = {row for kind in module.PARTS.values() for row in kind.BUGS}
    ours = {
        row for row in known if row.partition("-")[0] == next(iter(module.ROWS)).partition("-")[0]
    }
    assert set(module.ROWS) == ours
    laws = {law.id for law in registry.laws()}
    assert {law for row in module.ROWS.values() for law in row.laws} <= laws
    assert [row for row, case in module.ROWS.items() if not case.laws and row not in REFUSED] == []


def test_no_bug_passes_for_healthy() -> None:
    """None of these is among the subjects for which every law must hold."""
    assert not [
        healthy
        for healthy in healthy_specs()
        if any(module.__name__ in healthy for module in SEEDS)
    ]


@pytest.mark.parametrize(
    ("module", "row"), one_of_each(SHOWN, lambda row: row[0].ROWS[row[1]].laws), ids=short
)
def test_a_bug_is_named(module: ModuleType, row: str) -> None:
    """Each bug alone breaks every law of its row, or is refused."""
    target, laws = spec(module, f"rows={row}"), module.ROWS[row].laws
    if row in REFUSED:
        with pytest.raises(TargetError, match="cannot be called on a batch"):
            checking.pair_verdict(target, "map/log-det", QUICK)
        return
    assert {law: status(target, law) for law in laws if status(target, law) not in ACCUSING} == {}


@pytest.mark.parametrize(("module", "part"), TWINS, ids=short)
def test_without_bugs_the_laws_hold(module: ModuleType, part: str) -> None:
    """A part without bugs is accused by none of the laws that its bugs break, nor by the laws of
    values and log-dets.
    """
    target = spec(module, f"part={part}")
    found = {law: status(target, law) for law in (*named(module, part), *CORE)}
    assert {law: seen for law, seen in found.items() if seen not in SOUND} == {}
    assert Status.HOLDS in found.values()


@pytest.mark.parametrize("module", SEEDS, ids=short)
def test_bugs_of_different_parts_are_refused(module: ModuleType) -> None:
    """Bugs are combined within a part; a sentence says which there are."""
    first, second = (kind.BUGS[0] for kind in list(module.PARTS.values())[:2])
    with pytest.raises(ValueError, match="of one part"):
        module.make(f"{first},{second}")
    several = next(kind.BUGS for kind in module.PARTS.values() if len(kind.BUGS) > 1)
    assert module.make(",".join(several[:2])).rows == set(several[:2])


@pytest.mark.parametrize("bugs", [("003-8", "003-21"), ("001-5", "001-22")], ids=short)
def test_the_laws_tell_bugs_apart(bugs: tuple[str, str]) -> None:
    """A law of one bug holds for another bug where that does not break it."""
    module = seed_real_nvp if bugs[0].startswith("003") else seed_flows
    other = {"003-21": "map/log-det[slopes]", "001-22": "map/inverse"}[bugs[1]]
    assert status(spec(module, f"rows={bugs[0]}"), other) in SOUND
