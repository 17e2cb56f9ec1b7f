"""The frameworks by name: torch and jax, and those of other distributions.

Naming a backend imports no framework. A distribution offers one through the entry-point group
``flowref.backends``: the entry has the name of the backend, and names a module with a `Backend`
called ``BACKEND``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from flowref.backends import process, versions
from flowref.backends.protocol import Backend, Blueprint, Counter, Wish
from flowref.model import SpecError, TargetError, nearest, one_line
from flowref.model.extras import installation, missing
from flowref.model.seeds import derive

GROUP = "flowref.backends"
OURS = {"torch": "flowref.backends.torch.backend", "jax": "flowref.backends.jax.backend"}
# The framework of an object that shows no other.
DEFAULT = "torch"

__all__ = [
    "DEFAULT",
    "Backend",
    "Blueprint",
    "Counter",
    "Wish",
    "backend_names",
    "build_seed",
    "find",
    "importable",
    "imported_backends",
    "importing",
    "installed",
    "of",
    "sandbox",
    "single_threaded",
    "take_device_wish",
    "vet_device",
]  # fmt: skip


@functools.cache
def _modules() -> dict[str, str]:
    """Backend name -> module. The names of ours cannot be overridden."""
    entries = importlib.metadata.entry_points(group=GROUP)
    others = {entry.name: entry.module for entry in sorted(entries, key=lambda entry: entry.name)}
    return OURS | {name: module for name, module in others.items() if name not in OURS}


@functools.cache
def _backend(name: str) -> Backend:
    """Raises `TargetError` for an unknown name, and for a module that fails to import. The
    framework need not be installed.
    """
    modules = _modules()
    if name not in modules:
        raise TargetError(
            f"there is no backend {name!r}{nearest(name, modules)}; expected one of "
            f"{', '.join(modules)}, or one that a distribution offers as {GROUP}"
        )
    try:
        backend: Backend = importlib.import_module(modules[name]).BACKEND
    except Exception as error:
        raise TargetError(
            f"the backend {name!r} is offered by {modules[name]}, whose import raised "
            f"{one_line(error, 200)}; fix or uninstall the distribution that offers it"
        ) from error
    return backend


def find(name: str) -> Backend:
    """Returns the backend of a name; raises `TargetError` if there is none, or if its framework is
    not installed or too old.
    """
    backend = _backend(name)
    if not importable(backend.requires):
        raise TargetError(_missing(name, backend))
    if name in OURS and (sentence := versions.too_old(name)):
        raise TargetError(sentence)
    return backend


def _missing(name: str, backend: Backend) -> str:
    if name in OURS:
        return missing(backend.requires, name)
    return f"{backend.requires} is not installed; `pip install {backend.requires}` installs it"


def installed(name: str) -> bool:
    """Whether `find` returns the backend of this name in this environment."""
    try:
        find(name)
    except TargetError:
        return False
    return True


def backend_names() -> tuple[str, ...]:
    """The names of the backends whose frameworks are installed."""
    return tuple(name for name in _modules() if installed(name))


def importable(package: str) -> bool:
    """Whether a package can be imported, found without importing it. A namespace folder of its
    name on the path does not count.
    """
    if package in sys.modules:
        module = sys.modules[package]
        return not hasattr(module, "__path__") or getattr(module, "__file__", None) is not None
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None


def imported_backends() -> Iterable[Backend]:
    """The backends whose frameworks this process has imported."""
    found = []
    for name in _modules():
        with contextlib.suppress(TargetError):
            # A search for what is not imported takes as long as a small pair.
            if _backend(name).requires in sys.modules:
                found.append(find(name))
    return found


@contextlib.contextmanager
def sandbox(seed: int, dtype: str | None = None) -> Iterator[None]:
    """Run foreign code of an unknown framework in the sandboxes of the default framework and of
    every imported one. ``dtype``: the default dtype, "float32" or "float64".
    """
    with process.quarantine(seed), contextlib.ExitStack() as stack:
        for backend in _likely():
            stack.enter_context(backend.sandbox(seed, dtype))
        yield


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Compute with one thread in every imported framework: the order of sums depends on the number
    of threads, and small calls are many times slower with several.
    """
    with contextlib.ExitStack() as stack:
        for backend in imported_backends():
            stack.enter_context(backend.single_threaded())
        yield


@contextlib.contextmanager
def importing(text: str) -> Iterator[None]:
    """Import user code under `Backend.importing` of each framework whose name occurs in its
    ``text``.
    """
    with contextlib.ExitStack() as stack:
        for name in backend_names():
            backend = find(name)
            if backend.requires in text:
                stack.enter_context(backend.importing())
        yield


def vet_device(name: str) -> None:
    """Raises `SpecError` if no installed framework can move objects to the device ``name``; an
    empty name passes.
    """
    reasons = [backend.lacks(name) for backend in map(find, backend_names())] if name else []
    if reasons and all(reasons):
        raise SpecError(
            f"there is no device {name!r} here: {reasons[0]}; leave --device out, and calls run on a "
            "simulated device, which raises the errors of a GPU"
        )


def take_device_wish() -> Wish:
    """Returns what code has requested of other devices since the last call, over all imported
    frameworks (see `Backend.elsewhere`): refused before granted before none.
    """
    wishes = {backend.device_requests() for backend in imported_backends()}
    return next((one for one in (Wish.REFUSED, Wish.GRANTED) if one in wishes), Wish.NONE)


def _likely() -> list[Backend]:
    chosen = {backend.name: backend for backend in imported_backends()}
    if installed(DEFAULT):
        chosen.setdefault(DEFAULT, find(DEFAULT))
    return list(chosen.values())


def build_seed(seed: int) -> int:
    """The seed under which `Backend.subject` builds an object for a condition with this seed."""
    return derive(seed, 3)


def of(obj: Any) -> Backend:
    """Returns the backend whose framework a live object belongs to; if nothing shows it, the
    default one, or an imported one of ours if the default is not installed. Raises
    `TargetError` if none is left.
    """
    there = list(imported_backends())
    owner = next((backend for backend in there if backend.owns(obj)), None)
    if owner is None and not importable(_backend(DEFAULT).requires):
        owner = next((backend for backend in there if backend.name in OURS), None)
    if owner is None and not importable(_backend(DEFAULT).requires):
        raise TargetError(
            f"the framework of a {type(obj).__name__} is unknown, and the default, {DEFAULT}, is not "
            f"installed; `{installation(DEFAULT)}` installs it"
        )
    return owner or find(DEFAULT)
