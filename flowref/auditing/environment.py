"""The environment of flowref: versions, libraries, CPUs and memory, with problems."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass

from flowref import __version__, backends, registry
from flowref.auditing.usage import free, total_memory
from flowref.backends.versions import untested
from flowref.model import TargetError
from flowref.model.budget import MEBIBYTE

# MiB of memory below which only small flows can be audited.
LITTLE = 2048
PACKAGES = ("numpy", "scipy", "hypothesis", "click", "rich")


@dataclass(frozen=True)
class EnvironmentItem:
    """One item of the environment; ``trouble``: a problem to fix, or empty."""

    name: str
    said: str
    trouble: str = ""


def environment_items() -> Iterator[EnvironmentItem]:
    """Yield all items of the environment."""
    yield from _versions()
    yield from _libraries()
    yield from _machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _versions() -> Iterator[EnvironmentItem]:
    yield EnvironmentItem("flowref", __version__)
    yield EnvironmentItem("python", platform.python_version())
    for package in PACKAGES:
        yield EnvironmentItem(
            package, _version(package), "" if _version(package) else f"{package} is missing"
        )
    troubles = {}
    for name in backends.OURS:
        try:
            backends.find(name)
        except TargetError as error:
            troubles[name] = str(error)
    without = len(troubles) == len(backends.OURS)
    for name in backends.OURS:
        version = _version(name)
        # One framework is enough; an installed one that cannot be used is a problem.
        trouble = (
            troubles.get(name, "") if version or (without and name == backends.DEFAULT) else ""
        )
        yield EnvironmentItem(name, version or "not installed", trouble)
        if not trouble:
            yield from (EnvironmentItem("", sentence) for sentence in untested([name]))


def _libraries() -> Iterator[EnvironmentItem]:
    names = [
        name
        for name, one in registry.adapters().items()
        if one.package not in ("", "flowref", *backends.OURS)
    ]
    there = [
        f"{name} {registry.library_version(name)}" for name in names if registry.installed(name)
    ]
    missing = [name for name in names if not registry.installed(name)]
    yield EnvironmentItem("libraries", ", ".join(there) or "none")
    if missing:
        yield EnvironmentItem("", f"not installed: {', '.join(missing)}")


def _machine() -> Iterator[EnvironmentItem]:
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield EnvironmentItem("CPUs", f"{own} of {os.cpu_count()}, a worker each")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    yield EnvironmentItem(
        "threads", f"1 in each worker{f'; OMP_NUM_THREADS={threads}' if threads else ''}"
    )
    memory, left = total_memory() // MEBIBYTE, free() // MEBIBYTE
    little = 0 < memory < LITTLE
    trouble = f"{memory} MiB of memory are little: a pair may take {LITTLE} MiB" if little else ""
    yield EnvironmentItem(
        "memory", f"{memory} MiB, {left} MiB of them free" if memory else "unknown", trouble
    )
    yield EnvironmentItem("GPU", "not used: flowref judges on the CPU")
