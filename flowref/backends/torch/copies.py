"""Lending one copy of an object to many calls, as long as each leaves it unchanged.

Each call needs a fresh copy, and copying costs more than most calls. What can be checked
completely, in less time than a copy takes, is whether a call changed the object: the same entries
in every container, the same values in every tensor. An unchanged copy is as good as fresh. An
object that cannot be checked (of an unknown kind, with a generator, or with a method that caches)
is copied for each call. State that a library stores elsewhere, by the object's identity, is neither
copied nor checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import operator
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from flowref.backends.torch.reach import OPAQUE
from flowref.backends.torch.state import tensors
from flowref.model.budget import OUT_OF_MEMORY

# Changed returns until copies are no longer reused: such calls keep caches or counters.
PATIENCE = 3
# Tensors with this many entries are compared as integers of the same size.
LARGE = 4096
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
CACHED = type(functools.cache(lambda: None))
SEQUENCES = (list, tuple, set, frozenset)
VALUES = operator.methodcaller("values")
# Immutable or shared values; random generators are neither.
FIXED = (*(kind for kind in OPAQUE if kind is not torch.Generator), slice, range, np.generic)


class Unknown(Exception):
    """The object cannot be checked for changes."""


class Shelf:
    """Copies to lend; ``make`` makes a fresh one. ``alone``: the object is so large that only one
    shelf keeps a copy at a time, and that copies are compared with the ``original``, which
    nothing changes.
    """

    def __init__(self, make: Callable[[], Any], alone: bool = False, original: Any = None) -> None:
        self.make, self.alone, self.original = make, alone, original
        self.spare: tuple[Any, Inventory] | None = None
        self.patience = PATIENCE

    @contextlib.contextmanager
    def lend(self) -> Iterator[Any]:
        """A copy for exclusive use, as good as fresh; it is reused if it is unchanged
        afterwards.
        """
        if self.alone:
            for other in [shelf for shelf in _ALONE if shelf is not self]:
                other.spare = None
            _ALONE.clear()
            _ALONE.add(self)
        (obj, inventory), self.spare = self.spare or self._fresh(), None
        yield obj  # a copy is not checked after a call that raised
        if inventory is None or not self.patience:
            return
        if inventory.unchanged():
            self.spare = obj, inventory
        else:
            self.patience -= 1

    def _fresh(self) -> tuple[Any, Inventory | None]:
        obj = self.make()
        if not self.patience:
            return obj, None
        try:
            return obj, Inventory(obj, self.original if self.alone else None)
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # Unknown, or a tensor without this property (sparse ones have no strides)
            if OUT_OF_MEMORY.search(str(error)):
                raise
            self.patience = 0
            return obj, None


# The last used shelf of large copies.
_ALONE: weakref.WeakSet[Shelf] = weakref.WeakSet()


class Inventory:
    """The contents of an object, for a later comparison; ``original``: what it is a copy of.
    Raises `Unknown` if the contents cannot be listed completely.
    """

    def __init__(self, obj: Any, original: Any = None) -> None:
        self.originals = {} if original is None else _originals(obj, original)
        # Objects, their classes and their attribute dictionaries.
        self.holders: tuple[list[Any], list[type], list[Any]] = ([], [], [])
        # Containers: empty ones, all others, and the mappings among these.
        self.empty: list[Any] = []
        self.containers: list[Any] = []
        self.mappings: list[Any] = []
        self.tensors: list[tuple[torch.Tensor, torch.Tensor, tuple[Any, ...]]] = []
        self.arrays: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        stack = [obj]
        while stack:
            item = stack.pop()
            if isinstance(item, FIXED) or id(item) in seen:
                continue
            seen.add(id(item))
            stack += self._record(item)
        self.lengths = list(map(len, self.containers))
        self.entries = list(_container_entries(self.containers))
        self.values = list(_mapping_values(self.mappings))

    def _record(self, item: Any) -> tuple[Any, ...]:
        """Records an item; returns the values that it holds."""
        kind: Any = type(item)
        if kind is torch.Tensor or kind is nn.Parameter:
            marks = _tensor_properties(item)
            if not all(marks[:5]) or item.is_inference():
                raise Unknown
            value = self.originals.get(id(item))
            self.tensors.append((item, item.detach().clone() if value is None else value, marks))
            return ()
        if kind in (dict, OrderedDict) or kind in SEQUENCES:
            if not item:
                self.empty.append(item)
                return ()
            self.containers.append(item)
            if kind not in (dict, OrderedDict):
                return tuple(item)
            self.mappings.append(item)
            return (*item, *item.values())
        if kind is np.ndarray and item.dtype != object:
            self.arrays.append((item, item.copy()))
            return ()
        if kind is types.MethodType:
            return (item.__self__,)
        if kind is functools.partial:
            return (item.func, item.args, item.keywords, vars(item))
        if _transparent(kind):
            items, kinds, attributes = self.holders
            items.append(item)
            kinds.append(kind)
            attributes.append(vars(item))
            return (vars(item),)
        raise Unknown

    def unchanged(self) -> bool:
        """Whether every item is in its place, with the values that it had."""
        try:
            return (
                not any(self.empty)
                and self._same_objects()
                and all(
                    _tensor_properties(tensor) == marks and same_values(tensor, value)
                    for tensor, value, marks in self.tensors
                )
                and all(np.array_equal(array, value) for array, value in self.arrays)
            )
        except Exception:  # comparison fails, as for tensors on two devices: something changed
            return False

    def _same_objects(self) -> bool:
        """Whether objects have their classes, and containers their entries, by identity. There are
        hundreds, so loops are those of `map`.
        """
        items, kinds, attributes = self.holders
        return (
            all(map(operator.is_, map(type, items), kinds))
            and all(map(operator.is_, map(vars, items), attributes))
            and list(map(len, self.containers)) == self.lengths
            and all(map(operator.is_, _container_entries(self.containers), self.entries))
            and all(map(operator.is_, _mapping_values(self.mappings), self.values))
        )


def same_values(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are equal; NaN, and zeros of different signs, may count as different.
    Large ones are compared as integers, in half the time.
    """
    whole = WHOLE.get(first.element_size())
    large = first.numel() >= LARGE and first.dtype == second.dtype and not first.is_complex()
    plain = first.is_cpu and second.is_cpu and first.is_contiguous() and second.is_contiguous()
    if whole is None or not large or not plain:
        return torch.equal(first, second)
    one, other = (torch._C.TensorBase.numpy(each.detach().view(whole)) for each in (first, second))
    return one.shape == other.shape and same_bytes(one, other)


@functools.cache
def _memcmp() -> Callable[[int, int, int], int] | None:
    """The C library's memcmp, twice as fast as numpy's comparison; None if it is not found."""
    try:
        found = ctypes.CDLL(None).memcmp
    except (OSError, TypeError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    found.restype = ctypes.c_int
    return cast(Callable[[int, int, int], int], found)


def same_bytes(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Whether two contiguous arrays of one dtype and shape have equal bytes."""
    compare = _memcmp()
    if compare is None:
        return np.array_equal(first, second)
    return not compare(first.ctypes.data, second.ctypes.data, first.nbytes)


def _originals(obj: Any, original: Any) -> dict[int, torch.Tensor]:
    """Id of each tensor of a copy -> tensor of the original at the same place, in different
    memory. If values differ, the copy counts as changed after its first call.
    """
    pairs = list(zip(tensors(obj), tensors(original), strict=False))
    memory = {one.untyped_storage().data_ptr() for _, one in pairs}
    return {
        id(copy): one.detach()
        for copy, one in pairs
        if copy.dtype == one.dtype and copy.untyped_storage().data_ptr() not in memory
    }


def _container_entries(containers: list[Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(containers)


def _mapping_values(mappings: list[Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(map(VALUES, mappings))


def _tensor_properties(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Properties of a tensor apart from its values; the first five must be true for a reusable
    copy.

    Writes through ``.data`` do not change the version, so values are compared as well.
    """
    return (
        not vars(tensor),
        tensor.grad is None,
        tensor.grad_fn is None,
        tensor._backward_hooks is None,
        getattr(tensor, "_post_accumulate_grad_hooks", None) is None,
        tensor._version,
        tensor.requires_grad,
        tensor.device,
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
    )


class Plain:
    """Instances have the size of all classes written in Python without slots that extend no
    built-in one.
    """


@functools.cache
def _transparent(kind: type) -> bool:
    """Whether ``__dict__`` holds all state of an instance, and no method has a cache of its own."""
    members = [member for base in kind.__mro__ for member in vars(base).values()]
    members += [
        inner
        for member in members
        for inner in (getattr(member, "fget", None), getattr(member, "__func__", None))
    ]
    cached = any(isinstance(member, CACHED) for member in members)
    return not cached and bool(kind.__dictoffset__) and kind.__basicsize__ == Plain.__basicsize__
