"""The tests of flowref as pytest runs them: of decorated functions, and of pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flowref.pytest.conformance import ATTRIBUTE, PAIR, Conformance
from flowref.pytest.pair import Load, Pair

DECLARED = "flowref"


class PairFunction(pytest.Function):
    """A decorated function with one pair."""

    flowref_test: Load

    def _getobj(self) -> Any:
        """The function itself, which does not bear the whole name of this item."""
        parent: Any = self.parent
        home = self.instance if isinstance(parent, pytest.Class) else parent.obj
        return getattr(home, self.name.partition("[")[0])

    def setup(self) -> None:
        """Give the function its pair, and fixtures as ever."""
        self.funcargs[PAIR] = self.flowref_test
        super().setup()


class Checked(pytest.Item):
    """A test of which no line of the user's could be shown."""

    flowref_test: Load

    def runtest(self) -> None:
        """Check what it is about."""
        self.flowref_test.check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was seen."""
        from flowref.model import FlowrefError

        if isinstance(excinfo.value, FlowrefError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class LoadFunction(Checked, PairFunction):
    """Whether a target of a decorated function can be loaded, once its fixtures are there."""


class DeclaredItem(Checked):
    """One pair of a target that pyproject.toml declares, or whether it can be loaded."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands."""
        return self.path, None, self.name


class DeclaredFile(pytest.File):
    """The targets that pyproject.toml declares."""

    flowref_tests: Sequence[Load]

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each pair."""
        for test in self.flowref_tests:
            item = DeclaredItem.from_parent(self, name=f"{DECLARED}[{test.id}]")
            item.flowref_test = test
            yield item


def conformance_items(
    collector: Any, name: str, test: Any, tests: Sequence[Load]
) -> list[pytest.Item]:
    """A decorated function as one test for each pair, all of which share its fixtures."""
    marks = getattr(test, "pytestmark", [])
    if any(mark.name == "parametrize" for mark in marks):
        raise collector.CollectError(
            f"{name} has a conformance decorator and pytest.mark.parametrize; give the decorator "
            "all targets instead"
        )
    first = pytest.Function.from_parent(collector, name=name, callobj=test)
    items: list[pytest.Item] = []
    for one in tests:
        item = (PairFunction if isinstance(one, Pair) else LoadFunction).from_parent(
            collector,
            name=f"{name}[{one.id}]",
            fixtureinfo=first._fixtureinfo,  # looked up once: it is the same for all
        )
        item.originalname = name
        item.flowref_test = one
        for mark in one.candidate.marks:
            item.add_marker(mark)
        items.append(item)
    return items


def wanted(test: Any) -> Conformance | None:
    """What the decorator left on a function; None for everything else that a module holds."""
    found = vars(test).get(ATTRIBUTE) if type(test).__name__ == "function" else None
    return found if isinstance(found, Conformance) else None
