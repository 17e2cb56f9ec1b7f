"""The tests of flowref as pytest runs them: of decorated functions, and of pyproject.toml."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowref.pytest.conformance import ATTRIBUTE, PAIR, Conformance
from flowref.pytest.pair import Pair

# From so many tests on the collection goes on without looking for garbage, of which it makes none.
MANY = 5000
DECLARED = "flowref"


class PairFunction(pytest.Function):
    """A decorated function with one pair."""

    flowref_pair: Pair

    def _getobj(self) -> Any:
        """The function itself, which does not bear the whole name of this item."""
        parent: Any = self.parent
        home = self.instance if isinstance(parent, pytest.Class) else parent.obj
        return getattr(home, self.name.partition("[")[0])

    def setup(self) -> None:
        """Give the function its pair, and fixtures as ever."""
        self.funcargs[PAIR] = self.flowref_pair
        super().setup()


class DeclaredItem(pytest.Item):
    """One pair of a target that pyproject.toml declares."""

    def __init__(self, *, pair: Pair, **details: Any) -> None:
        super().__init__(**details)
        self.flowref_pair = pair

    def runtest(self) -> None:
        """Check the pair."""
        self.flowref_pair.check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was seen: there is no line of the user's that could be shown."""
        from flowref.model import FlowrefError

        if isinstance(excinfo.value, FlowrefError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands."""
        return self.path, None, self.name


class DeclaredFile(pytest.File):
    """The targets that pyproject.toml declares."""

    flowref_pairs: list[Pair]

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each pair."""
        hurry(len(self.flowref_pairs))
        for pair in self.flowref_pairs:
            yield DeclaredItem.from_parent(self, name=f"{DECLARED}[{pair.id}]", pair=pair)


def functions(collector: Any, name: str, test: Any, pairs: list[Pair]) -> list[pytest.Item]:
    """A decorated function as one test for each pair, all of which share its fixtures."""
    hurry(len(pairs))
    marks = getattr(test, "pytestmark", [])
    if any(mark.name == "parametrize" for mark in marks):
        raise collector.CollectError(
            f"{name} has a conformance decorator and pytest.mark.parametrize; give the decorator "
            "all targets instead"
        )
    first = pytest.Function.from_parent(collector, name=name, callobj=test)
    items: list[pytest.Item] = []
    for pair in pairs:
        item = PairFunction.from_parent(
            collector,
            name=f"{name}[{pair.id}]",
            fixtureinfo=first._fixtureinfo,  # looked up once: it is the same for all
        )
        item.originalname = name
        item.flowref_pair = pair
        for mark in pair.candidate.marks:
            item.add_marker(mark)
        items.append(item)
    return items


def wanted(test: Any) -> Conformance | None:
    """What the decorator left on a function; None for everything else that a module holds."""
    found = vars(test).get(ATTRIBUTE) if type(test).__name__ == "function" else None
    return found if isinstance(found, Conformance) else None


def hurry(number: int) -> None:
    """Suspend the search for garbage where many tests are made, until `pytest_collection_finish`."""
    if number > MANY:
        gc.disable()
