"""Compare two commits, in turns: `python asv_bench/tools/compare.py [BEFORE] [AFTER]`; "." is the
working tree.

Three processes run side by side, with flowref as it was before, as it is after, and as it was
before once more. For every case they take turns, one call at a time, in an order that is reversed
in every round, so that what else the machine does falls on all alike. The third is the control: its
ratio to the first must be 1, and a case is flagged only if after / before is over the factor, with
most of its rounds, and well over what the control shows. Exits with 1 if a case is slower, with 2
if one fails.

``--plant flowref.reference.coupling:AffineCoupling.inverse=1.3`` makes a function of the second
version slower by that factor: what the comparison is worth.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
FACTOR = 1.15
SIZES = ("small", "medium")
CASES = (
    *(("batch_norm", op, size) for op in ("forward", "forward_backward", "eval") for size in SIZES),
    *(("coupling", op, size) for op in ("forward", "inverse", "log_det") for size in SIZES),
    *((flow, op, size) for flow in ("vector_flow", "image_flow", "multi_scale") for op in ("log_prob", "sample") for size in SIZES),
    *((flow, "training_step", "small") for flow in ("vector_flow", "image_flow", "multi_scale")),
    ("audit", "map/inverse[latents]", "nflows:AffineCouplingTransform"),
    ("audit", "map/log-det", "nflows:AffineCouplingTransform"),
)  # fmt: skip
Case = tuple[str, str, str]


def planted(text: str) -> None:
    """Make ``module:name=factor`` slower, by computing nothing for the rest of the time."""
    place, _, factor = text.partition("=")
    module, _, name = place.partition(":")
    *path, last = name.split(".")
    owner = functools.reduce(getattr, path, importlib.import_module(module))
    original = getattr(owner, last)

    def slower(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        result = original(*args, **kwargs)
        until = began + (time.thread_time() - began) * float(factor)
        while time.thread_time() < until:
            pass
        return result

    setattr(owner, last, slower)


def call_of(component: str, op: str, size: str) -> Callable[[], Any]:
    """What is timed; for the auditor a law on a target."""
    from benchmarks import _cases

    if component != "audit":
        return _cases.case(component, op, "flowref", size, "cpu").call
    from flowref import checking, registry

    target, law = registry.parse_target(size), registry.find_law(op)
    return lambda: checking.pair_verdict(target, law, checking.Settings(profile="quick"))


def work() -> None:
    """Answer requests, one per line: "prepare" gives the calls of a sample, "time" the seconds of a
    sample.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not be taken for an answer
    sys.path.insert(0, str(BENCH))
    from benchmarks import _timing

    _timing.one_thread()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "plant" in request:
                planted(request["plant"])
                answer: dict[str, Any] = {}
            else:
                call = calls(*request["case"])
                if "number" in request:
                    call()  # what ran since has taken the caches
                    answer = {"seconds": _timing.seconds(call, request["number"])}
                else:
                    answer = {"number": _timing.repeats(call)[0]}
        except Exception as error:
            answer = {
                "error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            }
        print(json.dumps(answer), file=answers, flush=True)


@functools.cache
def calls(component: str, op: str, size: str) -> Callable[[], Any]:
    """Each case is built once."""
    return call_of(component, op, size)


class Worker:
    """A process with one version of flowref."""

    def __init__(self, tree: Path) -> None:
        from _running import STEADY

        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--work"]
        env = {**os.environ, **STEADY, "PYTHONPATH": str(tree)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        if hasattr(os, "sched_setaffinity"):
            # All on one core: whoever else uses it, or its twin, is then a neighbour of all.
            os.sched_setaffinity(self.process.pid, {max(os.sched_getaffinity(0))})

    def ask(self, **request: Any) -> Any:
        """The answer to a request; raises what went wrong there."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def verdict(ratios: Sequence[float], control: Sequence[float], factor: float = FACTOR) -> str:
    """Slower, faster, same or noisy. Slower: the median is over the factor, and three quarters of
    the rounds are over what three quarters of the control's are below.
    """
    low, middle, high = quartiles(ratios)
    control_low, control_middle, control_high = quartiles(control)
    if not 1 / factor < control_middle < factor:
        return "noisy"
    if middle > factor and low > max(control_high, 1 + (factor - 1) / 2):
        return "slower"
    if middle < 1 / factor and high < min(control_low, 1 - (factor - 1) / 2):
        return "faster"
    return "same"


def measured(workers: Sequence[Worker], case: Case, rounds: int) -> list[list[float]]:
    """Seconds per call of each process, round by round; the first round is left out."""
    number = min(worker.ask(case=case)["number"] for worker in workers)
    taken: list[list[float]] = [[] for _ in workers]
    for lap in range(rounds + 1):
        for index in range(len(workers)) if lap % 2 else reversed(range(len(workers))):
            seconds = workers[index].ask(case=case, number=number)["seconds"]
            if lap:
                taken[index].append(seconds)
    return taken


def compare(before: str, after: str, options: argparse.Namespace) -> int:
    """Print the table, and return the exit code."""
    from _running import tree_of

    found: dict[str, int] = {}
    with contextlib.ExitStack() as stack:
        trees = [stack.enter_context(tree_of(name)) for name in (before, after)]
        workers = [Worker(tree) for tree in (*trees, trees[0])]
        for worker in workers:
            stack.callback(worker.close)
        if options.plant:
            workers[1].ask(plant=options.plant)
        print(f"{'case':58} {'before':>10} {'after/before':>12} {'quartiles':>13} {'control':>8}")
        for case in CASES:
            name = ".".join(case)
            if options.only and not any(part in name for part in options.only):
                continue
            try:
                first, second, third = measured(workers, case, options.rounds)
            except RuntimeError as error:
                found["failed"] = found.get("failed", 0) + 1
                print(f"{name:58} failed: {error}", flush=True)
                continue
            ratios = [a / b for a, b in zip(second, first, strict=True)]
            control = [a / b for a, b in zip(third, first, strict=True)]
            said = verdict(ratios, control, options.factor)
            found[said] = found.get(said, 0) + 1
            low, middle, high = quartiles(ratios)
            print(
                f"{name:58} {1e6 * statistics.median(first):8.1f}us {middle:12.3f} {low:6.3f} "
                f"{high:6.3f} "
                f"{statistics.median(control):8.3f}  {'' if said == 'same' else said.upper()}",
                flush=True,
            )
    print(", ".join(f"{count} {said}" for said, count in sorted(found.items())))
    return 2 if found.get("failed") else 1 if found.get("slower") else 0


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", nargs="?", default="HEAD")
    parser.add_argument("after", nargs="?", default=".")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--factor", type=float, default=FACTOR)
    parser.add_argument("--only", action="append", help="parts of names of cases")
    parser.add_argument("--plant", help="module:name=factor")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return 0
    return compare(options.before, options.after, options)


if __name__ == "__main__":
    sys.exit(main())
