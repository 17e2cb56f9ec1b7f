"""Runs programs where flowref cannot be imported: one process that has imported torch, of which
each program gets a copy of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from flowref.scripting.trying import Outcome

SERVER = """
import json, os, runpy, sys, tempfile, traceback, warnings

warnings.simplefilter("ignore")
import numpy, torch, torch.distributions
torch.set_num_threads(1)
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
    path = json.loads(line)
    out, err = (tempfile.TemporaryFile("w+") for _ in range(2))
    child = os.fork()
    if not child:
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
    """A process to run programs in, from a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-c", SERVER]
        self.server: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        self.count = 0

    def __call__(self, text: str) -> Outcome:
        """How a program ends."""
        self.count += 1
        path = self.folder / f"program_{self.count}.py"
        path.write_text(text, encoding="utf-8")
        self.server.stdin.write(json.dumps(str(path)) + "\n")
        self.server.stdin.flush()
        return Outcome(*json.loads(self.server.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()
