"""What specimens and strange forms are recognized as is what is committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "reports" / "tools" / "recognition.py"


@pytest.mark.deep
def test_what_is_recognized_is_what_was_committed() -> None:
    """Whoever changes it writes the page anew, and shows the difference in the commit."""
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
    assert not done.returncode, done.stdout
