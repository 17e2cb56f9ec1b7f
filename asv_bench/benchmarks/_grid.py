"""Which implementations are measured, in which sizes and on which devices, and which of them can
run here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import sysconfig
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

# What the name of an implementation ends in that is compiled.
COMPILED = "-compiled"
REFERENCE = ("flowref", f"flowref{COMPILED}")
# The libraries that are compared with the reference (`_peers` builds with them), and whether they have
# couplings of images by channels.
LIBRARIES = {
    "nflows": True,
    "normflows": True,
    "zuko": False,
    "FrEIA": True,
    "glasflow": True,
    "torchflows": False,
}
IMPLS = (*REFERENCE, *LIBRARIES)
SIZES = ("small", "medium", "large")
DEVICES = ("cpu", "cuda")


@functools.cache
def installed(name: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@functools.cache
def available(impl: str) -> bool:
    """Whether an implementation can run here: the library is there, or for compiled code the
    compiler with Python's headers.
    """
    if impl == "torch":
        return True
    if impl == "flowref":
        return installed("flowref.reference")
    library, compiled, _ = impl.partition(COMPILED)
    if compiled:
        headers = Path(sysconfig.get_path("include")) / "Python.h"
        return (
            available(library)
            and headers.is_file()
            and any(map(shutil.which, ("g++", "c++", "clang++")))
        )
    return installed(impl) and available("flowref")


@functools.cache
def has_cuda() -> bool:
    """Whether torch is installed and sees a GPU."""
    return installed("torch") and bool(importlib.import_module("torch").cuda.is_available())


@functools.cache
def offered(name: str) -> bool:
    """Whether the reference has a class of this name, which earlier commits lack."""
    return available("flowref") and hasattr(importlib.import_module("flowref.reference"), name)


def skipped(
    impls: Sequence[str],
    sizes: Sequence[Any],
    devices: Sequence[str] = DEVICES,
    images: bool = False,
    needs: str = "Flow",
) -> list[tuple[Any, ...]]:
    """The combinations that this machine lacks, which asv shows as n/a: the parameters stay, and
    with them the history.

    ``needs``: a class of the reference, with which all but torch's own layers are compared.
    """
    return [
        (impl, size, device)
        for impl, size, device in product(impls, sizes, devices)
        if not available(impl)
        or (impl != "torch" and not offered(needs))
        or (device == "cuda" and not has_cuda())
        or (images and not LIBRARIES.get(impl, True))
    ]


def on_the_cpu(impls: Sequence[str], sizes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """All combinations with the CPU, to leave out what only a GPU has."""
    return [(impl, size, "cpu") for impl, size in product(impls, sizes)]
