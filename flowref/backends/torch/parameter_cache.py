"""Caching of results that depend on parameters alone, within a call: an inverse that solves one
coordinate after the other recomputes its masked weights each time.

Bit for bit the same, since nothing else enters. If the call writes to such a result after it was
returned twice, the call is repeated without the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.state import tensors

T = TypeVar("T")
# Results with at least this many entries are cached.
WORTH = 4096

Key = tuple[Any, ...]


class Spoiled(RuntimeError):
    """A cached result is written to."""


class Folding(Dispatch):
    """Caches results that depend on some tensors alone."""

    def __init__(self, constants: list[torch.Tensor]) -> None:
        super().__init__()
        self.memory = {_memory(one) for one in constants}
        self.results: dict[Key, torch.Tensor] = {}
        # Memory of results -> key, returns per key, and keys that are written to.
        self.keys: dict[int, Key] = {}
        self.handed: dict[Key, int] = {}
        self.written: set[Key] = set()
        self.spoiled = False

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator, or returns its cached result."""
        kind = _operator_purity(func)
        if kind == "writes":
            self._drop_written_results(func, args)
        key = self._cache_key(func, args) if kind == "pure" and not named else None
        if key is None or key in self.written:
            return func(*args, **named)
        if key in self.results:
            self.handed[key] += 1
            return torch.ops.aten.alias.default(self.results[key])
        out = func(*args)
        if isinstance(out, torch.Tensor) and out.numel() >= WORTH and not out.is_inference():
            self.results[key] = torch.ops.aten.alias.default(out)
            self.handed[key] = 1
            self.keys[_memory(out)] = key
            self.memory.add(_memory(out))
        return out

    def _cache_key(self, func: Any, args: tuple[Any, ...]) -> Key | None:
        found, large = [func], False
        for value in args:
            if isinstance(value, torch.Tensor):
                if value.layout != torch.strided or _memory(value) not in self.memory:
                    return None
                large |= value.numel() >= WORTH
                found.append(
                    (
                        value.data_ptr(),
                        value._version if not value.is_inference() else -1,
                        value.dtype,
                        tuple(value.shape),
                        value.stride(),
                    )
                )
            elif value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
                found.append((type(value), value))
            else:
                return None
        return tuple(found) if large else None

    def _drop_written_results(self, func: Any, args: tuple[Any, ...]) -> None:
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            if isinstance(value, torch.Tensor) and _memory(value) in self.keys:
                key = self.keys.pop(_memory(value))
                self.memory.discard(_memory(value))
                self.results.pop(key, None)
                self.written.add(key)
                if self.handed[key] > 1:
                    self.spoiled = True
                    raise Spoiled("a cached result is written to")


def folding_of(obj: Any) -> Folding:
    """Folding for the tensors of an object."""
    return Folding([one for one in tensors(obj) if one.layout == torch.strided])


def run_with_folding(obj: Any, run: Callable[[], T]) -> T:
    """The result of a call with this cache; of the plain call if it fails."""
    mode = folding_of(obj)
    try:
        with mode:
            result = run()
    except Exception:
        if not mode.spoiled:
            raise
    else:
        if not mode.spoiled:
            return result
    return run()


def _memory(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


@functools.cache
def _operator_purity(func: Any) -> str:
    """Whether an operator "writes" to an argument, or is "pure": a function of its arguments that
    returns new memory; else "".
    """
    if any(
        one.alias_info is not None and one.alias_info.is_write for one in func._schema.arguments
    ):
        return "writes"
    views = any(one.alias_info is not None for one in func._schema.returns)
    random = torch.Tag.nondeterministic_seeded in func.tags
    return "other" if views or random else "pure"
