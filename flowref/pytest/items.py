"""The pytest items of flowref: of decorated functions, and of pyproject.toml."""

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
        """The function itself, whose name lacks the brackets of this item's."""
        parent: Any = self.parent
        home = self.instance if isinstance(parent, pytest.Class) else parent.obj
        return getattr(home, self.name.partition("[")[0])

    def setup(self) -> None:
        """Pass the pair to the function, in addition to fixtures."""
        self.funcargs[PAIR] = self.flowref_test
        super().setup()


class Checked(pytest.Item):
    """A test without a line of the user's code."""

    flowref_test: Load

    def runtest(self) -> None:
        """Check the pair or the target."""
        self.flowref_test.check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The message of flowref's errors, without a traceback."""
        from flowref.model import FlowrefError

        if isinstance(excinfo.value, FlowrefError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class LoadFunction(Checked, PairFunction):
    """Whether a target of a decorated function can be loaded, after its fixtures are set up."""


class DeclaredItem(Checked):
    """One pair of a target that pyproject.toml declares, or whether the target can be loaded."""

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file and the name of the test."""
        return self.path, None, self.name


class DeclaredFile(pytest.File):
    """The targets that pyproject.toml declares."""

    flowref_tests: Sequence[Load]

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each pair."""
        for test in self.flowref_tests:
            item = DeclaredItem.from_parent(self, name=f"{DECLARED}[{test.id}]")
            item.flowref_test = test
            yield item


def conformance_items(
    collector: Any, name: str, test: Any, tests: Sequence[Load]
) -> list[pytest.Item]:
    """Return a decorated function as one test for each pair, all of which share its fixtures."""
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
            fixtureinfo=first._fixtureinfo,  # computed once, since it is the same for all
        )
        item.originalname = name
        item.flowref_test = one
        for mark in one.candidate.marks:
            item.add_marker(mark)
        items.append(item)
    return items


def wanted(test: Any) -> Conformance | None:
    """Return the `Conformance` of a decorated function; None for any other member of a module."""
    found = vars(test).get(ATTRIBUTE) if type(test).__name__ == "function" else None
    return found if isinstance(found, Conformance) else None
