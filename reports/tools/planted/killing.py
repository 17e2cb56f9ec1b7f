"""A plugin of pytest for the tree of mutations: each is in force in a copy of this process, in which the
tests that reach it run until enough of them have failed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

# What the tree of mutations imports under the name flowref_planted.
MODULE = '''"""The number of the mutation in force; 0 for none."""

import os

number = int(os.environ.get("FLOWREF_MUTATION", "0"))
'''
# Of so many tests that fail none is alone.
ENOUGH = 3
HANGS = "(takes too long)"


@dataclass(frozen=True)
class Job:
    """A mutation and the tests to run, the cheapest first; ``patience``: seconds for all of them."""

    number: int
    tests: list[str]
    patience: float


@dataclass(frozen=True)
class Outcome:
    """Which tests failed of those that ran; ``hangs``: the one that did not end."""

    number: int
    killers: list[str]
    ran_tests: list[str]
    hangs: str = ""


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Does the jobs of ``PLANTED_JOBS``, and appends an outcome to ``PLANTED_OUTCOMES`` for each."""
    jobs = json.loads(Path(os.environ["PLANTED_JOBS"]).read_text(encoding="utf-8"))
    items = {item.nodeid: item for item in session.items}
    for each in jobs:
        job = Job(**each)
        found = [items[test] for test in job.tests if test in items]
        outcome = _outcome(job, found)
        with Path(os.environ["PLANTED_OUTCOMES"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
    return True


def _outcome(job: Job, items: Sequence[pytest.Item]) -> Outcome:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read)
        with os.fdopen(write, "w") as told:
            _run(job.number, items, told)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        lines = list(_lines(told, child, job.patience))
    os.waitpid(child, 0)
    ended = {line["test"]: line["failed"] for line in lines if "failed" in line}
    begun = [line["test"] for line in lines if "failed" not in line]
    hangs = begun[-1] if begun and begun[-1] not in ended else ""
    killers = [test for test, failed in ended.items() if failed]
    return Outcome(job.number, killers, list(ended), hangs)


def _lines(told: Any, child: int, patience: float) -> Iterator[dict[str, Any]]:
    """What a copy says, until it ends or time is up."""
    end = time.monotonic() + patience

    def late(_number: int, _frame: object) -> None:
        os.killpg(child, signal.SIGKILL)

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, end - time.monotonic()))
    try:
        for line in told:
            if line.endswith("\n"):
                yield json.loads(line)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _run(number: int, items: Sequence[pytest.Item], told: Any) -> None:
    importlib.import_module("flowref_planted").__dict__["number"] = number
    os.environ["FLOWREF_MUTATION"] = str(number)
    killers = 0
    for item, following in zip(items, [*items[1:], None], strict=True):
        print(json.dumps({"test": item.nodeid}), file=told, flush=True)
        reports = runtestprotocol(item, log=False, nextitem=following)
        failed = any(report.failed for report in reports)
        print(json.dumps({"test": item.nodeid, "failed": failed}), file=told, flush=True)
        killers += failed
        if number and killers == ENOUGH:
            return
