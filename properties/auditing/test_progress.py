"""How far an audit is: told where a person looks, gone afterwards, and silent elsewhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import flowref
from flowref.auditing import progress

SPEC, LAW = "torch:AffineTransform", "map/log-det"


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is drawn."""
    monkeypatch.setattr(progress, "EVERY", -1.0)


def audited(wanted: bool | None = None) -> flowref.Report:
    """A small audit."""
    return flowref.audit([SPEC], laws=LAW, profile="quick", progress=wanted)


def test_nothing_is_shown_to_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal, an audit prints nothing."""
    audited()
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("eager")
def test_a_terminal_has_a_line_that_is_blanked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal the line is written over, and blank in the end; a test runner's is left alone."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    audited()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "_tested", lambda: False)
    audited()
    drawn = capsys.readouterr().err
    assert f"\r0 checks done, at most 1 left  {SPEC} {LAW}" in drawn
    assert drawn.endswith(f"\r{'':<{progress.WIDTH}}\r")
    audited(False)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("eager")
def test_a_notebook_has_one_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook one output is updated, and empty in the end."""
    shown: list[dict[str, str]] = []
    handle = SimpleNamespace(update=lambda data, raw: shown.append(data))

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        shown.append(data)
        return handle

    shell = type(progress.KERNEL, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    audited()
    assert 'max="1" value="0"' in shown[0]["text/html"]
    assert shown[-1] == {"text/html": "", "text/plain": ""}
    assert capsys.readouterr() == ("", "")
