"""One worker process: reads pairs from its parent, checks them, and answers in JSON lines; foreign
code runs only here.

The parent's two pipes arrive as standard input and output. They are moved out of the way first, so
that whatever a target prints or reads goes nowhere.
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
from flowref.model.budget import Beyond
from flowref.reporting.contents import FREE, Expense
from flowref.reporting.verdict_json import (
    recognized_from_json,
    recognized_to_json,
    verdict_from_json,
    verdict_to_json,
)

MEBIBYTE = 2**20
# A worker that has grown by this share of its memory limit lets go of what nobody holds; the pool
# replaces it if that does not help.
GROWN = 0.4
# Of the limit, what a worker may come to hold that fills free blocks again.
REFILLED = 1.2
# A law is named by its id where it comes from another process.
Entry = Callable[[Target, str | Law | None, Any], Verdict | Recognized | None]


@dataclass(frozen=True)
class Start:
    """What a worker reads first. ``entry``: the function that checks a pair, as "module:name";
    ``frameworks``: the names of the backends that the targets need.
    """

    path: tuple[str, ...]
    entry: str
    memory: int
    parent: int
    frameworks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PairOutcome:
    """What came of a pair: its verdict, or the sentence of what it raised; of a probe that went well
    what the target was recognized as. ``expense``: what the process took for it.
    """

    verdict: Verdict | None = None
    raised: str = ""
    seconds: float = 0.0
    recognized: Recognized | None = None
    expense: Expense = FREE


@dataclass(frozen=True)
class Replay:
    """In place of settings: measure this case again, with those settings, instead of searching."""

    case: Counterexample
    settings: Any


def check_pair(target: Target, law: str | Law | None, settings: Any) -> Verdict | Recognized:
    """Check one pair; without a law, only load the target and raise if that fails, else say what it
    was recognized as.
    """
    from flowref import checking, diagnosing, loading

    make_ready(target)
    if law is None:
        if settings is not None:
            loading.fit_to(settings.data)
        subject, recognized = loading.load(target), loading.recipe_of(target).recognized
        data = () if settings is None else checking.described(target, settings)
        methods = loading.entered_methods(subject) if recognized.path else ()
        return replace(recognized, data=data, methods=methods)
    if isinstance(settings, Replay):
        return checking.remeasure(target, law, settings.case, settings.settings)
    return diagnosing.check(target, law, settings)


def law_id_or_self(law: Law) -> str | Law:
    """A law by its id, or itself if no catalogue has it, as while it is being written."""
    from flowref import registry

    return law.id if any(listed is law for listed in registry.laws()) else law


@functools.lru_cache(maxsize=1)
def make_ready(target: Target) -> None:
    """Let this process give back what another target left, and large blocks when they are freed."""
    give_back()


def resolve(name: str) -> Entry:
    """The function that "module:name" names."""
    module, _, attribute = name.partition(":")
    entry: Entry = getattr(importlib.import_module(module), attribute)
    return entry


def metered(entry: Entry, target: Target, law: str | Law | None, settings: Any) -> PairOutcome:
    """What `guarded` gives, with what it took; the peak is that of this whole process."""
    forget_peak()
    began = time.process_time()
    outcome = guarded(entry, target, law, settings)
    return replace(outcome, expense=Expense(time.process_time() - began, peak(os.getpid())))


def guarded(entry: Entry, target: Target, law: str | Law | None, settings: Any) -> PairOutcome:
    """Run ``entry`` and take whatever it raises."""
    began = time.perf_counter()
    try:
        with undisturbed():
            result = entry(target, law, settings)
    except (FlowrefError, Beyond) as error:
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
    """Import these frameworks, so that `undisturbed` sees their settings."""
    with process.unwarned():
        for name in names:
            with contextlib.suppress(ImportError):
                importlib.import_module(backends.find(name).requires)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Compute with one thread, and put global settings and random states back afterwards: a pair must
    not see what another one did.
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
        ):  # places that were added stay, behind: modules may still import lazily from them
            sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler and handler is not None:
                signal.signal(number, handler)
        with contextlib.suppress(OSError):
            os.chdir(folder)


def main(start_text: str) -> None:
    """The life of a worker."""
    start = Start(**json.loads(start_text))
    orders, answers = _private_pipes()
    _confine(start.parent)
    entry = resolve(start.entry)
    pid, imported, space, kept = os.getpid(), "", 0, 0
    # Frameworks and libraries are imported before the limit is set: it is about what a target
    # takes, not about what an import maps.
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
            gc.freeze()  # what was imported stays, and need not be looked at again
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
    """Keep the parent's pipes under other numbers; standard input, output and error lead nowhere
    from here on.
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
    """Mebibytes by which the address space may grow from now on, of a process that holds so many bytes
    since it began, and took so many more addresses.

    Blocks that were given back keep their addresses, which cost nothing: the next pair may take what is
    not held. But they may be filled again beside all that is new, and both together are to stay below
    what the pool ends a process for.
    """
    held, free = max(0, held) // MEBIBYTE, max(0, taken - held) // MEBIBYTE
    return max(0, min(memory - held, int(REFILLED * memory) - held - free))


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
