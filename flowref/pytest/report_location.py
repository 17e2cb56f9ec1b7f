"""Where the report of a test session is written, and how a command finds it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class StoredReport:
    """``path``: the argument of commands, empty for the last report of the folder, None without a
    report; ``before``: a prefix of commands that changes to the project's folder.
    """

    path: str | None = None
    before: str = ""

    @classmethod
    def of(cls, config: pytest.Config) -> StoredReport:
        """Return the location by the options of a session; ``--flowref-report ""`` writes none."""
        path, here, folder = (
            config.option.flowref_report,
            config.invocation_params.dir,
            config.rootpath,
        )
        if path == "":
            return cls()
        before = ""
        if folder != here:
            before = f"cd {shlex.quote(os.path.relpath(folder, here))} && "
            path = path and os.path.relpath(Path(here, path), folder)
        return cls(path or "", before)
