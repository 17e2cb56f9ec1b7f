"""The library and framework of a live object, by its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref import backends, registry
from flowref.backends import Backend
from flowref.model import Adapter

ZOO = "flowref_zoo."


def libraries(obj: Any) -> list[Adapter]:
    """The adapters of libraries that an object's class or base classes come from, frameworks last.

    A class that derives from a library's base and a framework's belongs to the library. The zoo counts as
    user code.
    """
    modules = [base.__module__ for base in type(obj).__mro__]
    packages = {name.partition(".")[0] for name in modules if not name.startswith(ZOO)}
    adapters = [one for one in registry.adapters().values() if one.package in packages]
    return sorted(adapters, key=lambda adapter: adapter.package == adapter.backend)


def framework(obj: Any) -> Backend:
    """The backend of an object: that of its library, else the one whose arrays it holds."""
    named = next((adapter.backend for adapter in libraries(obj) if adapter.backend), "")
    return backends.find(named) if named else backends.of(obj)


def embedded(obj: Any) -> Any:
    """The object to audit: most are themselves, adapters may replace them. A pair of modules without an
    inverse is a map and its inverse.
    """
    if isinstance(obj, tuple):
        pairs = (backend.paired(obj) for backend in backends.imported_backends())
        return next((one for one in pairs if one is not None), obj)
    embeddings = (adapter.embeds(obj) for adapter in libraries(obj) if adapter.embeds is not None)
    return next((one for one in embeddings if one is not None), obj)


def embedding(build: Callable[[], Any]) -> Any:
    """The object to audit for what ``build`` returns."""
    return embedded(build())
