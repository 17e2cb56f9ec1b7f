"""Fixtures of the judging room."""

from __future__ import annotations

import pytest

from checking.fakes import Shelf
from flowref import loading


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Targets that are built by functions of a property."""
    shelf = Shelf()
    monkeypatch.setattr(loading, "load", shelf.load)
    return shelf
