"""Targets that pyproject.toml declares, as tests that need no test file."""

from __future__ import annotations

from collections.abc import Iterable

from flowref.baseline.targets import Declared
from flowref.model import FlowrefError, SpecError
from flowref.pytest.conformance import Conformance, Listed
from flowref.pytest.pair import Pair
from flowref.pytest.session import Session


def pairs(session: Session, targets: Iterable[Declared]) -> list[Pair]:
    """The pairs of all these targets, each pair once. Raises: `FlowrefError` in one sentence, which
    begins with file and line.
    """
    found: dict[str, Pair] = {}
    for one in targets:
        wanted = Conformance((Listed("", one.spec),), one.laws, one.event, one.profile)
        try:
            for pair in session.pairs(wanted, one.where):
                found.setdefault(pair.id, pair)
        except FlowrefError as error:
            raise SpecError(f"{one.where}: {error}") from None
    return sorted(found.values(), key=lambda pair: (pair.target.casefold(), pair.target, pair.law))
