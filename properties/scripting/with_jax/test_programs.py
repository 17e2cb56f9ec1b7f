"""Programs in JAX: each shows its violation where flowref cannot be imported, on a page, and is silent
once the flow is repaired.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("equinox", reason="programs in JAX are written where JAX is installed")

from flowref import checking
from flowref.model import FlowrefError, Status
from flowref.reporting.programs import PROGRAMS
from flowref.scripting import LONGEST, script
from flowref.scripting.jax import TEMPLATES
from flowref.scripting.trial_run import run_standalone

FLOWS = Path(__file__).parents[2] / "adapters" / "with_jax" / "flows.py"
# A flow with a bug, and the law that its program is about.
PAIRS = (
    ("flows.py:bent?bug=half", "map/log-det"),
    ("flows.py:bent?bug=sign", "map/log-det[inverse]"),
    ("flows.py:pair?bug=offset", "map/inverse"),
    ("flows.py:pair?bug=branch", "gradient/finite[inverse]"),
    ("flows.py:normal?bug=wide", "sampling/follows-density[ratios]"),
)
QUICK = checking.Settings("quick")


def test_reports_name_the_laws_that_have_programs() -> None:
    """They print no command that is refused."""
    assert sorted(PROGRAMS["jax"]) == sorted(TEMPLATES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, in which the program runs."""
    shutil.copy(FLOWS, tmp_path / "flows.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("target", "law"), PAIRS)
def test_a_program_shows_a_bug_until_it_is_mended(target: str, law: str, folder: Path) -> None:
    """It exits with 1 for the flow with a bug, and with 0 for the healthy twin."""
    verdict = checking.pair_verdict(target, law, QUICK)
    assert verdict.status is Status.VIOLATED
    text = script(verdict)
    assert 15 <= len(text.splitlines()) <= LONGEST
    assert max(map(len, text.splitlines())) <= 100
    assert "import jax" in text and "torch" not in text and "import flowref" not in text
    repaired = re.sub(r'bug="[^"]+"', 'bug=""', text)
    assert repaired != text
    healthy = run_standalone(repaired)
    assert (healthy.code, healthy.out.splitlines()[-1]) == (0, "holds")


def test_laws_without_a_template_say_so(folder: Path) -> None:
    """A sentence says what cannot be written."""
    verdict = checking.pair_verdict("flows.py:bent?bug=half", "map/log-det", QUICK)
    with pytest.raises(FlowrefError, match="no short program for"):
        script(replace(verdict, law="gradient/input[value]"))
