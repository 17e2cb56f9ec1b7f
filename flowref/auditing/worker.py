"""One worker process: reads pairs from its parent, checks them, and answers in JSON lines; user
code runs only here. The parent's pipes arrive as standard input and output and are moved first, so
that output of targets is discarded.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import IO, Any

from flowref import backends
from flowref.auditing.usage import forget_peak, give_back, peak, resident, shed
from flowref.backends import process
from flowref.model import (
    USER,
    Counterexample,
    FlowrefError,
    Law,
    Recognized,
    Target,
    Verdict,
    one_line,
)
from flowref.model.budget import BudgetExceeded
from flowref.reporting.contents import FREE, Expense
from flowref.reporting.verdict_json import (
    recognized_from_json,
    recognized_to_json,
    verdict_from_json,
    verdict_to_json,
)

MEBIBYTE = 2**20
# A worker that has grown by this share of its limit frees unused memory; the pool replaces it if that
# does not help.
GROWN = 0.4
# Share of the limit that a worker may hold when it reuses free blocks.
REFILLED = 1.2
# A law from another process is given by its id.
Entry = Callable[[Target, str | Law | None, Any], Verdict | Recognized | None]


@dataclass(frozen=True)
class Start:
    """The first message of a worker. ``entry``: the function that checks a pair, as "module:name";
    ``frameworks``: names of the needed backends.
    """

    path: tuple[str, ...]
    entry: str
    memory: int
    parent: int
    frameworks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PairOutcome:
    """The outcome of a pair: its verdict, or what it raised; for a successful probe, what the
    target was recognized as. ``expense``: its cost.
    """

    verdict: Verdict | None = None
    raised: str = ""
    seconds: float = 0.0
    recognized: Recognized | None = None
    expense: Expense = FREE


@dataclass(frozen=True)
class Replay:
    """Instead of settings: measure this case again with these settings."""

    case: Counterexample
    settings: Any


def check_pair(target: Target, law: str | Law | None, settings: Any) -> Verdict | Recognized:
    """Check one pair; without a law, load the target and return what it was recognized as. Raises
    whatever loading raises.
    """
    from flowref import checking, diagnosing, loading

    make_ready(target)
    if law is None:
        with loading.fitting_to("" if settings is None else settings.data):
            subject, recognized = loading.load(target), loading.recipe_of(target).recognized
            data = () if settings is None else checking.described(target, settings)
            methods = loading.entered_methods(subject) if recognized.path else ()
            return replace(recognized, data=data, methods=methods)
    if isinstance(settings, Replay):
        return checking.remeasure(target, law, settings.case, settings.settings)
    return diagnosing.check(target, law, settings)


def law_id_or_self(law: Law) -> str | Law:
    """The id of a law, or the law itself if it is in no catalogue."""
    from flowref import registry

    return law.id if any(listed is law for listed in registry.laws()) else law


@functools.lru_cache(maxsize=1)
def make_ready(target: Target) -> None:
    """Free the memory that another target left."""
    give_back()


def resolve(name: str) -> Entry:
    """The function with the name "module:name"."""
    module, _, attribute = name.partition(":")
    entry: Entry = getattr(importlib.import_module(module), attribute)
    return entry


def metered(entry: Entry, target: Target, law: str | Law | None, settings: Any) -> PairOutcome:
    """`guarded` with its cost; the peak is that of the whole process."""
    forget_peak()
    began = time.process_time()
    outcome = guarded(entry, target, law, settings)
    return replace(outcome, expense=Expense(time.process_time() - began, peak(os.getpid())))


def guarded(entry: Entry, target: Target, law: str | Law | None, settings: Any) -> PairOutcome:
    """Run ``entry`` and catch whatever it raises."""
    began = time.perf_counter()
    try:
        with undisturbed():
            result = entry(target, law, settings)
    except (FlowrefError, BudgetExceeded) as error:
        raised = str(error)
    except (Exception, SystemExit) as error:
        raised = one_line(error, 300)
    else:
        seconds = time.perf_counter() - began
        if isinstance(result, Recognized):
            return PairOutcome(seconds=seconds, recognized=result)
        return PairOutcome(result, seconds=seconds)
    return PairOutcome(raised=raised, seconds=time.perf_counter() - began)


def import_frameworks(names: Iterable[str]) -> None:
    """Import these frameworks, so that `undisturbed` can restore their settings."""
    with process.unwarned():
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(backends.find(name).requires)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Run with one thread, and restore global settings and random states afterwards, so that pairs
    do not influence each other.
    """
    environment, path, folder = dict(os.environ), list(sys.path), os.getcwd()
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with process.quarantine(0), contextlib.ExitStack() as stack:
            for backend in backends.imported_backends():
                stack.enter_context(backend.sandbox(0))
            stack.enter_context(backends.single_threaded())
            yield
    finally:
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        if (
            sys.path != path
        ):  # added entries stay at the end: modules may still import lazily from them
            sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        with contextlib.suppress(OSError):
            os.chdir(folder)


def main(start_text: str) -> None:
    """The main loop of a worker."""
    start = Start(**json.loads(start_text))
    orders, answers = _private_pipes()
    _confine(start.parent)
    entry = resolve(start.entry)
    pid, imported, space, kept = os.getpid(), "", 0, 0
    # Frameworks and libraries are imported before the limit is set, which is for the target alone.
    for name in start.frameworks:
        with contextlib.suppress(ImportError, FlowrefError):
            backends.find(name).worker_setup()
    began = resident(pid)
    _answer(answers, {"ready": began})
    while True:
        try:
            target, law, settings, memory = pickle.load(orders)
        except EOFError:
            return
        if target.adapter != imported:
            _limit_memory(None)
            _import_library(target)
            imported = target.adapter
            gc.freeze()  # imported objects stay and need no further collection
            _limit_memory(start.memory)
            with contextlib.suppress(OSError):  # as in `_limit_memory`
                space = _address_space()
        if memory:
            _limit_memory(_room(memory, resident(pid) - began, _address_space() - space))
        outcome = metered(entry, target, law, settings)
        if os.getpid() != pid:  # the target forked, and this is the child
            os._exit(0)
        before, kept = kept, shed(began + int(GROWN * start.memory * MEBIBYTE), kept)
        if kept != before or memory:
            _limit_memory(_room(start.memory, resident(pid) - began, _address_space() - space))
        _answer(answers, message_of(outcome))


def message_of(outcome: PairOutcome) -> dict[str, Any]:
    """An outcome as JSON."""
    verdict, recognized = outcome.verdict, outcome.recognized
    return {
        "verdict": None if verdict is None else verdict_to_json(verdict),
        "raised": outcome.raised,
        "seconds": outcome.seconds,
        "recognized": None if recognized is None else recognized_to_json(recognized),
        "expense": asdict(outcome.expense),
    }


def outcome_of(message: dict[str, Any]) -> PairOutcome:
    """The outcome that `message_of` wrote."""
    verdict, recognized = message["verdict"], message["recognized"]
    return PairOutcome(
        None if verdict is None else verdict_from_json(verdict),
        str(message["raised"]),
        float(message["seconds"]),
        None if recognized is None else recognized_from_json(recognized),
        Expense(**message["expense"]),
    )


def _answer(answers: IO[bytes], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message).encode("ascii") + b"\n")
    answers.flush()


def _private_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The parent's pipes, duplicated; standard input, output and error are redirected to the null
    device.
    """
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    streams = [open(os.devnull, mode) for mode in "rww"]  # noqa: SIM115  kept for life
    sys.stdin, sys.stdout, sys.stderr = streams
    return orders, answers


def _confine(parent: int) -> None:
    """Disable core files and Ctrl-C, and end with the parent."""
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
    """Import the library of a target; errors are reported when the target is loaded."""
    from flowref import registry

    adapter = registry.adapters().get(target.adapter)
    if adapter is not None and adapter.package and target.adapter != USER:
        with contextlib.suppress(Exception), undisturbed():
            importlib.import_module(adapter.package)


def _limit_memory(mebibytes: int | None) -> None:
    """Limit the growth of the address space to ``mebibytes`` from now on; None removes the limit."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = (
            resource.RLIM_INFINITY if mebibytes is None else _address_space() + mebibytes * MEBIBYTE
        )
        if hard != resource.RLIM_INFINITY:
            limit = hard if limit == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (
        ImportError,
        ValueError,
        OSError,
    ):  # no such limit on this platform: the parent's watch remains
        return


def _room(memory: int, held: int, taken: int) -> int:
    """MiB by which the address space may grow, for a process that holds ``held`` bytes since its start and
    took ``taken`` bytes of addresses.

    Freed blocks keep their addresses, so that the next pair may take what is not held. But they may be
    reused in addition, and both together must stay below the limit at which the pool kills a process.
    """
    held, free = max(0, held) // MEBIBYTE, max(0, taken - held) // MEBIBYTE
    return max(0, min(memory - held, int(REFILLED * memory) - held - free))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
