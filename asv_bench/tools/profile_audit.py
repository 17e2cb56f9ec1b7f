"""Where the time of an audit goes: `python asv_bench/tools/profile_audit.py [SPEC ...]`, as
Markdown.

All laws of the quick profile on each target in one process, after imports. The stack is looked at
after every two milliseconds of processor time, which costs the audit nothing, where a profiler that
notes every call doubles the cost of small functions.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from operator import itemgetter
from pathlib import Path
from types import FrameType

from _running import ROOT

TARGETS = (
    "torch:SigmoidTransform",
    "nflows:AffineCouplingTransform",
    "zuko:NSF",
    "FrEIA:AllInOneBlock[img]",
)
INTERVAL = 2e-3


class Sampled:
    """How often a function was running, by itself or with what it calls."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.within: Counter[str] = Counter()
        self.looks = 0

    def look(self, _: int, frame: FrameType | None) -> None:
        """Note every function of the stack once."""
        self.looks += 1
        seen = set()
        top = frame
        while frame is not None:
            seen.add(place(frame))
            frame = frame.f_back
        self.within.update(seen)
        if top is not None:
            self.own[place(top)] += 1

    def __enter__(self) -> Sampled:
        signal.signal(signal.SIGPROF, self.look)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def place(frame: FrameType) -> str:
    """A function as a reader finds it."""
    path = Path(frame.f_code.co_filename)
    short = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(*path.parts[-2:])
    return f"{short}:{frame.f_code.co_firstlineno} {frame.f_code.co_qualname}"


def shares(title: str, counted: Counter[str], looks: int, top: int, only: str = "") -> None:
    """Print a table."""
    print(f"\n| {title} | share |\n|---|---|")
    for name, count in [pair for pair in counted.most_common() if pair[0].startswith(only)][:top]:
        print(f"| {name} | {count / looks:.0%} |")


def main() -> int:
    """Print the profile."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("specs", nargs="*", default=TARGETS)
    parser.add_argument("--top", type=int, default=15)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    import torch

    from flowref import checking, registry

    torch.set_num_threads(1)
    settings = checking.Settings(profile="quick")
    laws = registry.laws()
    for law in laws:  # brings in what is imported late
        checking.pair_verdict(registry.parse_target(TARGETS[0]), law, settings)
    spent: defaultdict[str, float] = defaultdict(float)
    targets: defaultdict[str, float] = defaultdict(float)
    sampled = Sampled()
    for spec in options.specs:
        target = registry.parse_target(spec)
        checking.pair_verdict(target, laws[0], settings)
        for law in laws:
            began = time.process_time()
            with sampled:
                checking.pair_verdict(target, law, settings)
            taken = time.process_time() - began
            spent[law.id] += taken
            targets[spec] += taken
    total = sum(targets.values())
    said = ", ".join(f"{spec} {taken:.1f} s" for spec, taken in targets.items())
    print(f"{len(laws)} laws, {total:.1f} s of processor time: {said}.\n")
    print("| law | s | share |\n|---|---|---|")
    for law_id, taken in sorted(spent.items(), key=itemgetter(1), reverse=True)[: options.top]:
        print(f"| {law_id} | {taken:.2f} | {taken / total:.0%} |")
    shares(
        "function of flowref, with what it calls",
        sampled.within,
        sampled.looks,
        2 * options.top,
        "flowref/",
    )
    shares("function, by itself and in compiled code", sampled.own, sampled.looks, options.top)
    return 0


if __name__ == "__main__":
    sys.exit(main())
