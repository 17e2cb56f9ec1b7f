"""Runs programs where flowref cannot be imported: one process that has imported what they need, of
which each program gets a copy of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from effort import PATIENCE
from flowref.scripting.trial_run import ProgramOutcome

SERVER = """
import importlib, json, os, runpy, signal, sys, tempfile, traceback, warnings

warnings.simplefilter("ignore")
sys.modules["flowref"] = None

def run(path):
    try:
        runpy.run_path(path, run_name="__main__")
        return 0
    except SystemExit as end:
        return end.code
    except BaseException:
        traceback.print_exc()
        return 1

for line in sys.stdin:
    path, patience, imports = json.loads(line)
    for name in imports:
        importlib.import_module(name)
    out, err = (tempfile.TemporaryFile("w+") for _ in range(2))
    child = os.fork()
    if not child:
        signal.alarm(patience)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        code = run(path)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code or 0))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read())
    print(json.dumps([code, *texts]), flush=True)
"""


class Alone:
    """A process to run programs in, from a folder of its own; ``imports``: what it imports for all of
    them.
    """

    def __init__(self, folder: Path, *imports: str) -> None:
        self.folder, self.imports = folder, imports
        command = [sys.executable, "-c", SERVER]
        self.server: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.count = 0

    def __call__(self, text: str) -> ProgramOutcome:
        """How a program ends."""
        self.count += 1
        path = self.folder / f"program_{self.count}.py"
        path.write_text(text, encoding="utf-8")
        return self.run(path)

    def run(self, path: Path, *imports: str) -> ProgramOutcome:
        """How a program in a file ends; ``imports``: what the process imports beside, and keeps."""
        line = json.dumps([str(path), PATIENCE, [*self.imports, *imports]])
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        return ProgramOutcome(*json.loads(self.server.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()
