"""Calls that compute the same of their parameters over and over, as an inverse that solves one
coordinate after the other does with its masked weights: what comes of parameters alone is computed
once a call.

Bit for bit the same, since nothing else enters it. Where the call writes to such a result after it was
handed out twice, it is made again as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.state import tensors

T = TypeVar("T")
# Entries of results that are worth keeping.
WORTH = 4096

Key = tuple[Any, ...]


class Spoiled(RuntimeError):
    """What was handed out twice is written to."""


class Folding(Dispatch):
    """Compute what comes of some tensors alone once."""

    def __init__(self, constants: list[torch.Tensor]) -> None:
        super().__init__()
        self.memory = {_memory(one) for one in constants}
        self.results: dict[Key, torch.Tensor] = {}
        # The keys of results by their memory, how often each was handed out, and those that are
        # written to.
        self.keys: dict[int, Key] = {}
        self.handed: dict[Key, int] = {}
        self.written: set[Key] = set()
        self.spoiled = False

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Hand out what is kept."""
        kind = _operator_purity(func)
        if kind == "writes":
            self._writing(func, args)
        key = self._key(func, args) if kind == "pure" and not named else None
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

    def _key(self, func: Any, args: tuple[Any, ...]) -> Key | None:
        """What an operator and constants come to; None where anything else enters."""
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

    def _writing(self, func: Any, args: tuple[Any, ...]) -> None:
        """Forget what an operator writes to."""
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
                    raise Spoiled("what was computed once is written to")


def folding_of(obj: Any) -> Folding:
    """Folding of what comes of an object's tensors alone."""
    return Folding([one for one in tensors(obj) if one.layout == torch.strided])


def run_with_folding(obj: Any, run: Callable[[], T]) -> T:
    """What a call of an object gives, with what comes of its tensors alone computed once; what the
    plain call gives where that cannot be done.
    """
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
    """Whether an operator writes to an argument, or is a function of its arguments that returns
    memory of its own.
    """
    if any(
        one.alias_info is not None and one.alias_info.is_write for one in func._schema.arguments
    ):
        return "writes"
    views = any(one.alias_info is not None for one in func._schema.returns)
    random = torch.Tag.nondeterministic_seeded in func.tags
    return "other" if views or random else "pure"
