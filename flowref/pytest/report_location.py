"""Where the report of a session of tests is kept, and how a command finds it."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class StoredReport:
    """``path``: what commands are given, empty for the last report of the folder, None where there is no
    report; ``before``: what goes ahead of a command, since targets are meant from the project's folder.
    """

    path: str | None = None
    before: str = ""

    @classmethod
    def of(cls, config: pytest.Config) -> StoredReport:
        """What the options of a session say; ``--flowref-report ""`` keeps none."""
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
