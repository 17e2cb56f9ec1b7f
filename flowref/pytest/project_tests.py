"""Tests of the targets that pyproject.toml declares, without a test file."""

from __future__ import annotations

from collections.abc import Iterable

from flowref.baseline.targets import Declared
from flowref.model import FlowrefError, SpecError
from flowref.pytest.conformance import Conformance, Listed
from flowref.pytest.pair import Load
from flowref.pytest.session import Session


def tests(session: Session, targets: Iterable[Declared]) -> list[Load]:
    """Return the tests of all these targets, each once. Raises: `FlowrefError` in one sentence that
    begins with file and line.
    """
    found: dict[str, Load] = {}
    for one in targets:
        listed = Listed("", one.spec, (), one.laws, one.event, one.profile)
        try:
            for test in session.tests(Conformance((listed,)), one.where):
                found.setdefault(test.id, test)
        except FlowrefError as error:
            raise SpecError(f"{one.where}: {error}") from None
    return sorted(found.values(), key=order)


def order(test: Load) -> tuple[str, str, bool, str]:
    """Sort key: by target, and within one the test that loads it first."""
    return test.target.casefold(), test.target, type(test) is not Load, test.name
