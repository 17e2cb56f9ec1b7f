"""Isolation of foreign code in the process, for Python and numpy: random states, settings, output
and warnings. Frameworks have sandboxes of their own.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.random import mtrand

GENERATORS = ("numpy", "random")
SETTERS: dict[str, Callable[[Any], Any]] = {
    "numpy error state": lambda value: np.seterr(**dict(value)),
    "working directory": os.chdir,
    "recursion limit": sys.setrecursionlimit,
}


def process_settings() -> dict[str, Any]:
    """The process-wide settings that foreign code could change, by name."""
    return {
        "numpy error state": tuple(sorted(np.geterr().items())),
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
    }


def restore(
    before: Mapping[str, Any], now: Mapping[str, Any], setters: Mapping[str, Callable[[Any], Any]]
) -> None:
    """Restore the settings that changed. Unchanged ones are skipped, since some setters
    are slow.
    """
    for name, value in before.items():
        if now[name] != value:
            setters[name](value)


def random_state() -> tuple[Any, ...]:
    """A comparable fingerprint of the global random state of each of `GENERATORS`."""
    name, keys, *rest = np.random.get_state(legacy=True)
    return (name, np.asarray(keys).tobytes(), *rest), random.getstate()


@contextlib.contextmanager
def standing_in(owner: Any, **values: Any) -> Iterator[None]:
    """Replace attributes of an object, and restore them afterwards."""
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Ignore warnings while foreign code is imported, also where warnings are errors: the compiler
    warns the first time that a module is imported.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def quarantine(seed: int) -> Iterator[io.StringIO]:
    """Run foreign code with fixed random states, then restore everything; yields its printed
    output.

    Warnings are silenced: they concern the audited code and not flowref.
    """
    before = process_settings()
    state = random.getstate()
    printed = io.StringIO()
    with numpy_apart():
        try:
            np.random.seed(seed % 2**32)
            random.seed(seed)
            with (
                warnings.catch_warnings(),
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
            ):
                warnings.simplefilter("ignore")
                yield printed
        finally:
            restore(before, process_settings(), SETTERS)
            random.setstate(state)


# One spare generator for each level of nesting; it replaces numpy's global one.
_SPARE: list[np.random.MT19937] = []
_ENTERED: list[None] = []


@contextlib.contextmanager
def numpy_apart() -> Iterator[None]:
    """Restore numpy's global random state afterwards. Reading and writing it takes longer than
    most calls, so nested uses swap in a spare generator; code that makes many calls enters this
    once around all of them.
    """
    depth = len(_ENTERED)
    kept = mtrand.get_bit_generator()
    state = None if depth else np.random.get_state()
    if depth:
        if len(_SPARE) < depth:
            _SPARE.append(np.random.MT19937(0))
        mtrand.set_bit_generator(_SPARE[depth - 1])
    _ENTERED.append(None)
    try:
        yield
    finally:
        _ENTERED.pop()
        if mtrand.get_bit_generator() is not kept:
            mtrand.set_bit_generator(kept)
        if state is not None:
            np.random.set_state(state)
