"""Files are written whole or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from flowref.reporting.files import replace_file


def test_a_file_is_replaced(tmp_path: Path) -> None:
    """The old text is gone, and nothing is left beside it."""
    path = tmp_path / "report.json"
    for text in ("old", "new"):
        replace_file(path, text)
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    """What is no file is written to, and never replaced by one."""
    path, read = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    replace_file(path, "text")
    reader.join(10)
    assert read == ["text"]
    assert stat.S_ISFIFO(path.stat().st_mode)
