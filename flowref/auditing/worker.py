"""One worker process: reads pairs from its parent, checks them, and answers in JSON lines; foreign code runs only here.

The parent's two pipes arrive as standard input and output. They are moved out of the way first, so that whatever a target
prints or reads goes nowhere.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any

from flowref.model import USER, FlowrefError, Law, Status, Target, Verdict

MEBIBYTE = 2**20
OUT_OF_MEMORY = re.compile(
    r"MemoryError|can't allocate memory|cannot allocate memory|unable to allocate|not enough memory|bad_alloc", re.IGNORECASE
)
Entry = Callable[[Target, Law | None, Any], Verdict | None]


@dataclass(frozen=True)
class Start:
    """What a worker is told first. ``entry``: the function that checks a pair, as "module:name"."""

    path: tuple[str, ...]
    entry: str
    memory: int
    parent: int


def check_pair(target: Target, law: Law | None, settings: Any) -> Verdict | None:
    """Check one pair; without a law, only load the target and raise if that fails."""
    from flowref import checking
    from flowref.model import Condition

    if law is None:
        checking.load(target, Condition())
        return None
    return checking.check(target, law, settings)


def guarded(entry: Entry, target: Target, law: Law | None, settings: Any) -> tuple[Verdict | None, str]:
    """Run ``entry``; whatever it raises becomes a verdict, or for a probe a sentence. One of the two is returned."""
    began = time.perf_counter()
    try:
        with undisturbed():
            verdict = entry(target, law, settings)
    except FlowrefError as error:
        said = str(error)
    except MemoryError as error:
        said = f"MemoryError: {error}"
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if law is None:
            said = f"{target} cannot be loaded: {said}"
    else:
        return (_memory_aware(verdict) if verdict is not None else None), ""
    if law is None:
        return None, said
    failed = Verdict(
        str(target),
        law.id,
        Status.ERROR,
        said,
        seconds=time.perf_counter() - began,
        law_version=law.version,
        force=law.force,
    )
    return _memory_aware(failed), ""


def _memory_aware(verdict: Verdict) -> Verdict:
    """A failed allocation is the memory limit's doing: it accuses nobody."""
    if verdict.status in (Status.ERROR, Status.VIOLATED) and OUT_OF_MEMORY.search(verdict.reason):
        reason = f"memory limit: {verdict.reason}"
        return replace(verdict, status=Status.CRASHED, reason=reason, evidence=None, counterexample=None)
    return verdict


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Put global settings and random states back afterwards: a pair must not see what another one did."""
    environment, path, handlers = dict(os.environ), list(sys.path), {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    folder = os.getcwd()
    try:
        if "torch" in sys.modules:
            yield from _undisturbed_torch()
        else:
            yield
    finally:
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        if sys.path != path:
            sys.path[:] = [*path, *(place for place in sys.path if place not in path)]
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        if os.getcwd() != folder:
            os.chdir(folder)


def _undisturbed_torch() -> Iterator[None]:
    from flowref.backends.torch.guard import sandbox

    with sandbox(0):
        yield


def main(start_text: str) -> None:
    """The life of a worker."""
    start = Start(**{key: tuple(value) if key == "path" else value for key, value in json.loads(start_text).items()})
    orders, answers = _private_pipes()
    _confine(start.parent)
    module, _, name = start.entry.partition(":")
    entry: Entry = getattr(importlib.import_module(module), name)
    pid, imported = os.getpid(), ""
    # Libraries are imported before the limit is set: it is about what a target takes, not about what an import maps.
    with contextlib.suppress(ImportError):
        importlib.import_module("torch").set_num_threads(1)
    _answer(answers, {"ready": _resident(pid)})
    while True:
        try:
            target, law, settings = pickle.load(orders)
        except EOFError:
            return
        if target.adapter != imported:
            _limit_memory(None)
            _import_library(target)
            imported = target.adapter
            _limit_memory(start.memory)
        verdict, said = guarded(entry, target, law, settings)
        if os.getpid() != pid:  # the target forked, and this is the child
            os._exit(0)
        _answer(answers, _message(verdict, said))


def _message(verdict: Verdict | None, said: str) -> dict[str, Any]:
    from flowref.reporting.encoding import verdict_to_json

    return {"problem": said} if said else {"verdict": verdict_to_json(verdict)} if verdict is not None else {"loaded": True}


def _answer(answers: IO[bytes], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message).encode("ascii") + b"\n")
    answers.flush()


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the parent's pipes under other numbers; standard input, output and error lead nowhere from here on."""
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in ("r", "w", "w"))  # noqa: SIM115  kept for life
    return orders, answers


def _confine(parent: int) -> None:
    """No core files, no Ctrl-C of its own, and no life without the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(os, "getppid"):
        threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(0)


def _import_library(target: Target) -> None:
    """Import the library of a target; what is wrong with it shows when the target is loaded."""
    from flowref import registry

    adapter = registry.adapters().get(target.adapter)
    if adapter is not None and adapter.package and target.adapter != USER:
        with contextlib.suppress(Exception), undisturbed():
            importlib.import_module(adapter.package)


def _limit_memory(mebibytes: int | None) -> None:
    """Let the address space grow by so much beyond what it is now; None lifts the limit."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = resource.RLIM_INFINITY if mebibytes is None else _address_space() + mebibytes * MEBIBYTE
        if hard != resource.RLIM_INFINITY:
            limit = hard if limit == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, ValueError, OSError):  # no such limit on this platform: the parent's watch remains
        return


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _resident(pid: int) -> int:
    """Resident bytes of a process, 0 where that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
