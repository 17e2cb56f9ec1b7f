"""Lending one copy of an object to many calls, as long as each leaves it as it was.

Every call is owed a fresh copy, and copying costs more than most calls. What can be checked
completely, in less time than a copy takes, is that a call changed nothing: the same entries in
every container, the same values in every tensor. Such a copy is as good as fresh. Whatever cannot
be checked (an unknown kind of object, a generator, a method with a cache of its own) is copied
anew. What a library keeps outside of the object, under its identity, no copy shows and no check
sees.
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

# Copies that came back changed before none is kept any more: its calls keep caches or counters.
PATIENCE = 3
# Entries from which on tensors are compared as whole numbers of as many bytes.
LARGE = 4096
WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
CACHED = type(functools.cache(lambda: None))
SEQUENCES = (list, tuple, set, frozenset)
VALUES = operator.methodcaller("values")
# Values that nothing can change, or that all copies share; generators of random numbers are
# neither.
FIXED = (*(kind for kind in OPAQUE if kind is not torch.Generator), slice, range, np.generic)


class Unknown(Exception):
    """Whether this object changed cannot be checked."""


class Shelf:
    """Copies to lend: ``make`` gives a fresh one. ``alone``: it is so large that no other such shelf
    keeps one meanwhile, and that it is compared with the ``original`` itself, which nobody changes.
    """

    def __init__(self, make: Callable[[], Any], alone: bool = False, original: Any = None) -> None:
        self.make, self.alone, self.original = make, alone, original
        self.spare: tuple[Any, Inventory] | None = None
        self.patience = PATIENCE

    @contextlib.contextmanager
    def lend(self) -> Iterator[Any]:
        """A copy that nobody else holds, as good as fresh; it is kept for the next call if this one
        returns it unchanged.
        """
        if self.alone:
            for other in [shelf for shelf in _ALONE if shelf is not self]:
                other.spare = None
            _ALONE.clear()
            _ALONE.add(self)
        (obj, inventory), self.spare = self.spare or self._fresh(), None
        yield obj  # what a call that raised has left behind is not worth checking
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
        ) as error:  # Unknown, or a tensor that cannot be asked (sparse ones have no strides)
            if OUT_OF_MEMORY.search(str(error)):
                raise
            self.patience = 0
            return obj, None


# The shelf of large copies that was last used.
_ALONE: weakref.WeakSet[Shelf] = weakref.WeakSet()


class Inventory:
    """What an object holds, to be compared with later; with what an ``original`` of it holds, where
    it is a copy of one. Raises `Unknown` where that cannot be told completely.
    """

    def __init__(self, obj: Any, original: Any = None) -> None:
        self.originals = {} if original is None else _originals(obj, original)
        # Objects, their classes and what their attributes are kept in.
        self.holders: tuple[list[Any], list[type], list[Any]] = ([], [], [])
        # Containers: those that are empty, all others, and the mappings among these.
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
            stack += self._enter(item)
        self.lengths = list(map(len, self.containers))
        self.entries = list(_container_entries(self.containers))
        self.values = list(_mapping_values(self.mappings))

    def _enter(self, item: Any) -> tuple[Any, ...]:
        """Take an item down; returns what it holds."""
        kind: Any = type(item)
        if kind is torch.Tensor or kind is nn.Parameter:
            marks = _marks(item)
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
        """Whether everything is where it was, with the values that it had."""
        try:
            return (
                not any(self.empty)
                and self._all_the_same()
                and all(
                    _marks(tensor) == marks and same_values(tensor, value)
                    for tensor, value, marks in self.tensors
                )
                and all(np.array_equal(array, value) for array, value in self.arrays)
            )
        except Exception:  # tensors of two devices, say, cannot be compared: something did change
            return False

    def _all_the_same(self) -> bool:
        """Whether objects are of their classes, and containers hold the very entries that they held:
        there are hundreds, so that loops are those of `map`.
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
    """Whether two tensors hold the same; nan, and a zero of another sign, may count as another value.
    Large ones are compared as whole numbers, in half the time.
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
    """The C library's comparison of memory, which takes half the time of numpy's; None where there is none
    to be found.
    """
    try:
        found = ctypes.CDLL(None).memcmp
    except (OSError, TypeError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    found.restype = ctypes.c_int
    return cast(Callable[[int, int, int], int], found)


def same_bytes(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Whether two contiguous arrays of one type and shape hold the same bytes."""
    compare = _memcmp()
    if compare is None:
        return np.array_equal(first, second)
    return not compare(first.ctypes.data, second.ctypes.data, first.nbytes)


def _originals(obj: Any, original: Any) -> dict[int, torch.Tensor]:
    """The tensors of which those of a copy are copies, by the ids of these: in the same places, in memory
    of their own. Were their values others, the copy would count as changed after its first call.
    """
    pairs = list(zip(tensors(obj), tensors(original), strict=False))
    memory = {one.untyped_storage().data_ptr() for _, one in pairs}
    return {
        id(copy): one.detach()
        for copy, one in pairs
        if copy.dtype == one.dtype and copy.untyped_storage().data_ptr() not in memory
    }


def _container_entries(containers: list[Any]) -> Iterator[Any]:
    """What sequences hold, and the keys of mappings."""
    return itertools.chain.from_iterable(containers)


def _mapping_values(mappings: list[Any]) -> Iterator[Any]:
    return itertools.chain.from_iterable(map(VALUES, mappings))


def _marks(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a tensor is besides its values; the first five must be true of one that is kept.

    Writes through ``.data`` leave the version as it was, hence values are compared as well.
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
    """The size of its instances is that of every class written in Python, without slots, that
    extends no built-in one.
    """


@functools.cache
def _transparent(kind: type) -> bool:
    """Whether all that an instance holds is in its ``__dict__``, and no method keeps results in a
    cache of its own.
    """
    members = [member for base in kind.__mro__ for member in vars(base).values()]
    members += [
        inner
        for member in members
        for inner in (getattr(member, "fget", None), getattr(member, "__func__", None))
    ]
    cached = any(isinstance(member, CACHED) for member in members)
    return not cached and bool(kind.__dictoffset__) and kind.__basicsize__ == Plain.__basicsize__
