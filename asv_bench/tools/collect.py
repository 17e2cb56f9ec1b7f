"""Measure on a machine without asv, git or network: `python asv_bench/tools/collect.py --out
raw.json [--bench REGEX]`.

Needs torch or JAX, flowref and asv_runner only; peers that are not installed are n/a, and so is all that
is written in torch where that is not installed. What it writes is
taken into the results on a machine with asv by `ingest.py`. A benchmark that fails is written as
such, and the exit code is then 2. What was measured so far is on disk every few seconds, so that a
machine that is lent for a time may end it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import platform
import re
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
ROOT = BENCH.parent
for _path in (BENCH, ROOT):  # the suite, and flowref where it is not installed
    sys.path.insert(0, str(_path))


# Seconds after which what is measured is written down.
WRITTEN = 10.0
# Modules that an environment of JAX without torch has benchmarks of.
WITHOUT_TORCH = ("benchmarks.audit", "benchmarks.jax_flows")


def discovered(modules: tuple[str, ...]) -> Iterator[Any]:
    """The benchmarks of packages and modules."""
    from asv_runner.discovery import disc_benchmarks

    for module in modules:
        yield from disc_benchmarks(module)


def described(benchmark: Any) -> dict[str, Any]:
    """What asv keeps of a benchmark in benchmarks.json and compares results by."""
    return {
        name: getattr(benchmark, name)
        for name in ("name", "version", "params", "param_names", "unit", "type")
    }


def run(benchmark: Any, index: int) -> dict[str, Any]:
    """One benchmark at one combination of parameters: a value, samples, n/a, or what it failed
    with.
    """
    from asv_runner.benchmarks.mark import SkipNotImplemented

    if benchmark.params:
        benchmark.set_param_idx(index)
    if "torch._dynamo" in sys.modules:  # as in a process of its own, which asv gives each
        sys.modules["torch._dynamo"].reset()
    began = time.time()
    try:
        if benchmark.do_setup():
            return {"value": math.nan}
        try:
            value = benchmark.do_run()
        finally:
            benchmark.do_teardown()
    except SkipNotImplemented:
        return {"value": math.nan}
    except Exception:
        return {"value": None, "error": traceback.format_exc()}
    found = (
        {"samples": value["samples"], "number": value["number"]}
        if isinstance(value, dict)
        else {"value": value}
    )
    return {**found, "started_at": began, "seconds": time.time() - began}


def wanted(benchmark: Any, bench: list[str]) -> list[int]:
    """The combinations whose names match; asv writes them as `module.Class.track_name('a', 'b')`."""
    grid = list(itertools.product(*benchmark.params))
    names = [
        f"{benchmark.name}({', '.join(params)})" if params else benchmark.name for params in grid
    ]
    return [
        index
        for index, name in enumerate(names)
        if not bench or any(re.search(one, name) for one in bench)
    ]


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument(
        "--bench", action="append", default=[], help="a regular expression of benchmarks"
    )
    parser.add_argument(
        "--machine", help="its name in the results; by default that of the GPU, or of the processor"
    )
    parser.add_argument(
        "--commit", default="", help="the commit that is measured, where git cannot say"
    )
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    gpu, build = "none", ""
    if with_torch := importlib.util.find_spec("torch") is not None:
        import torch

        build = torch.__version__  # with its CUDA, which a wheel from PyPI is not named after
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    name = (
        options.machine
        or re.sub(r"\W+", "-", gpu if gpu != "none" else "other-cpu").strip("-").lower()
    )
    os.chdir(BENCH)
    results: list[dict[str, Any]] = []
    document = {
        "format": 1,
        "machine": {
            "machine": name,
            "os": platform.system(),
            "arch": platform.machine(),
            "gpu": gpu,
        },
        "commit": options.commit,
        "python": platform.python_version(),
        "versions": {
            "torch": build,
            **{package: version_of(package) for package in ("jax", "numpy", "asv_runner")},
        },
        "results": results,
    }
    failed, written = 0, time.monotonic()
    for benchmark in discovered(("benchmarks",) if with_torch else WITHOUT_TORCH):
        for index in wanted(benchmark, options.bench):
            outcome = run(benchmark, index)
            failed += "error" in outcome
            results.append({**described(benchmark), "index": index, **outcome})
            said = (
                "failed"
                if "error" in outcome
                else "n/a"
                if outcome.get("value") != outcome.get("value")
                else "ok"
            )
            print(f"{said:6} {benchmark.name} {index}", flush=True)
            if time.monotonic() - written > WRITTEN:
                write(document, options.out)
                written = time.monotonic()
    write(document, options.out)
    print(f"{len(results)} results, {failed} failed: {options.out}")
    return 2 if failed else 0


def write(document: dict[str, Any], path: Path) -> None:
    """The whole of it, or what was there before."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(document))
    beside.replace(path)


def version_of(package: str) -> str:
    """The installed version."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
