"""A stand-in for `flowref.checking.pair_verdict`: the target's name says how it misbehaves on the first
law.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from flowref.model import Counts, Status, Target, TargetError, Verdict

FIRST = "map/inverse"
CALLS: list[tuple[str, str | None]] = []
INTERRUPT_AT: list[int] = []


def segfault() -> None:
    """Read address 0."""
    ctypes.string_at(0)


def endless() -> None:
    """Loop in Python."""
    while True:
        pass


def endless_in_c() -> None:
    """Loop in C with the interpreter lock held: a regular expression that backtracks for ages."""
    re.match(r"(a+)+$", "a" * 60 + "b")


def asleep() -> None:
    """Wait for what never comes."""
    time.sleep(600)


def naps() -> None:
    """Wait longer than the limit, as on a busy machine, and do little in between."""
    for _ in range(8):
        time.sleep(0.5)
        until = time.process_time() + 0.03
        while time.process_time() < until:
            pass


def exit_quietly() -> None:
    """Leave with code 0, as if all were well."""
    os._exit(0)


def exit_loudly() -> None:
    """Leave with a code."""
    os._exit(7)


def system_exit() -> None:
    """Raise SystemExit."""
    sys.exit("done")


def memory_bomb() -> None:
    """Take all there is."""
    held = []
    while True:
        held.append(bytearray(2**25))


def unlimited_bomb() -> None:
    """Lift the limit first."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    held = []
    for _ in range(64):
        held.append(b"x" * 2**24)
        time.sleep(0.01)
    time.sleep(60)


def close_everything() -> None:
    """Close the pipes that the answer should take."""
    os.closerange(0, 256)


def fork() -> None:
    """Go on in two processes."""
    os.fork()


def print_much() -> None:
    """Flood both streams, in Python and below it."""
    for _ in range(200):
        print("noise " * 200)
    os.write(1, b"raw noise\n" * 1000)
    os.write(2, b"raw noise\n" * 1000)


def read_input() -> None:
    """Read from standard input, where the next order would come from."""
    assert sys.stdin.read() == ""
    assert os.read(0, 10) == b""


def default_dtype() -> None:
    """Change the precision of everybody."""
    import torch

    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)


def random_numbers() -> None:
    """Consume and reseed the global generators."""
    import numpy as np
    import torch

    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)


def surroundings() -> None:
    """Change folder, environment, search path and warnings."""
    os.chdir("/")
    os.environ["FLOWREF_HOSTILE"] = "1"
    sys.path.insert(0, "/nowhere")
    warnings.simplefilter("error")


def innocent() -> None:
    """Do nothing."""


def fingerprint() -> str:
    """What a pair sees of the process: the same for everybody, if nobody leaves traces."""
    import numpy as np
    import torch

    return " ".join(
        str(part)
        for part in (
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.rand(()).item(),
            np.random.rand(),
            random.random(),
            os.environ.get("FLOWREF_HOSTILE"),
            sys.path[0] == "/nowhere",
            os.getcwd() == "/",
        )
    )


def check(target: Target, law: str | None, settings: Any) -> Verdict | None:
    """Misbehave on the first law, and hold on the others."""
    CALLS.append((str(target), law))
    if INTERRUPT_AT and len(CALLS) == INTERRUPT_AT[0]:
        raise KeyboardInterrupt
    name = target.component.rpartition(":")[2]
    deed: Callable[[], None] = globals().get(
        name.removeprefix("always_").removeprefix("loading_"), innocent
    )
    if name.startswith("unloadable"):
        raise TargetError(f"{target} does not want to be loaded")
    if law is None:
        if name.startswith("loading_"):
            deed()
        return None
    if law == FIRST or name.startswith("always_"):
        deed()
    return Verdict(str(target), law, Status.HOLDS, fingerprint(), Counts(held=1))
