"""A record of a call, function by function: which tensors depend on the points, and which are
still needed.

Where the values still needed have as many entries as an event, everything later depends on them
alone: the call can be cut there, and the part between two cuts is a map of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import torch
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from flowref.backends.torch.call_cost import Measuring


class Done(NamedTuple):
    """A recorded function call: the numbers of the values that it read and made, and its work
    without that of dispatching operations.
    """

    read: tuple[int, ...]
    made: tuple[int, ...]
    bulk: float
    dispatched: float


class Cut(NamedTuple):
    """A moment: the number of calls made until then, and the numbers of the values that are still
    needed.
    """

    after: int
    values: tuple[int, ...]


@dataclass
class Ends:
    """A cut of a repeated call: the outputs there, and the leaves from which it continues."""

    sinks: list[torch.Tensor]
    sources: list[torch.Tensor]


class Tape(TorchFunctionMode):
    """Records a call on a tensor with a graph; at each of the ``cuts``, the needed values are
    replaced by new leaves, each with a graph of its own.
    """

    def __init__(
        self, x: torch.Tensor, cuts: Sequence[Cut] = (), measuring: Measuring | None = None
    ) -> None:
        super().__init__()
        self.cuts = {cut.after: cut for cut in cuts}
        self.measuring = measuring
        self.done: list[Done] = []
        self.ends: list[Ends] = []
        self.holders: list[torch.Tensor] = []  # the tensor of each value, kept alive
        self.replaced: list[torch.Tensor] = []
        self.number: dict[int, int] = {}
        self.origin: dict[int, int] = {}
        self.instead: dict[int, torch.Tensor] = {}
        self._new(x)

    def __enter__(self) -> Self:
        """Records custom autograd functions too, by wrapping their `apply`."""
        self.apply = apply = vars(Function)["apply"]

        def seen(kind: type[Function], *args: Any, **kwargs: Any) -> Any:
            return self.__torch_function__(partial(apply.__func__, kind), (), args, kwargs)

        Function.apply = classmethod(seen)  # type: ignore[method-assign,assignment]  # as torch's own is
        super().__enter__()  # type: ignore[no-untyped-call]  # torch's class is untyped
        return self

    def __exit__(self, *raised: Any) -> None:
        Function.apply = self.apply  # type: ignore[method-assign]  # what it was
        super().__exit__(*raised)  # type: ignore[no-untyped-call]  # torch's class is untyped

    def _work_so_far(self) -> tuple[float, float]:
        if self.measuring is None:
            return 0.0, 0.0
        dispatched = self.measuring.dispatched
        return self.measuring.work - dispatched, dispatched

    def _key(self, tensor: torch.Tensor) -> int:
        return self.origin.get(id(tensor), id(tensor))

    def _new(self, tensor: torch.Tensor) -> int:
        self.holders.append(tensor)
        self.number[self._key(tensor)] = len(self.holders) - 1
        return len(self.holders) - 1

    def value(self, tensor: torch.Tensor) -> int | None:
        """The number of a tensor's current value; None if it does not depend on the points."""
        return self.number.get(self._key(tensor))

    def current(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor that replaces another since the last cut."""
        return self.instead.get(self._key(tensor), tensor)

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = [one for one in leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        read = [self.number[self._key(one)] for one in given if self._key(one) in self.number]
        if self.instead and read:
            args, kwargs = self._with_replaced_tensors(args), self._with_replaced_tensors(kwargs)
            given = [self.current(one) for one in given]
        versions, before = [one._version for one in given], self._work_so_far()
        out = func(*args, **kwargs)
        made = [
            self._new(one)
            for one in leaves(out)
            if isinstance(one, torch.Tensor)
            and one.requires_grad
            and self._key(one) not in self.number
        ]
        for one, version in zip(given, versions, strict=True):
            if one._version != version and one.requires_grad:
                old, new = self._after_write(one)
                read, made = read + old, made + new
        if made and read:
            took = [now - then for now, then in zip(self._work_so_far(), before, strict=True)]
            self.done.append(Done(tuple(dict.fromkeys(read)), tuple(made), *took))
            cut = self.cuts.get(len(self.done))
            if cut is not None:
                self._cut(cut)
        return out

    def _after_write(self, tensor: torch.Tensor) -> tuple[list[int], list[int]]:
        """The numbers, before and after, of values that share memory with a tensor that was
        written to.
        """
        where, before = tensor.untyped_storage().data_ptr(), []
        holders = {self._key(tensor): tensor}
        for key, number in self.number.items():
            if self.holders[number].untyped_storage().data_ptr() == where:
                holders[key] = self.holders[number]
                before.append(number)
        return before, [self._new(holder) for holder in holders.values()]

    def _with_replaced_tensors(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.current(value)
        if isinstance(value, dict):
            return {name: self._with_replaced_tensors(one) for name, one in value.items()}
        if type(value) in (tuple, list):
            return type(value)(self._with_replaced_tensors(one) for one in value)
        return value

    def _cut(self, cut: Cut) -> None:
        ends = Ends([], [])
        for number in cut.values:
            holder = self.holders[number]
            now, key = self.current(holder), self._key(holder)
            leaf = now.detach().clone().requires_grad_(True)
            new = leaf.clone()  # writable, unlike a leaf
            self.origin[id(new)], self.instead[key], self.holders[number] = key, new, new
            self.replaced.append(holder)
            ends.sinks.append(now)
            ends.sources.append(leaf)
        self.ends.append(ends)


def leaves(value: Any) -> Iterator[Any]:
    """Yields the entries of containers, at any depth."""
    if isinstance(value, dict):
        for one in value.values():
            yield from leaves(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from leaves(one)
    else:
        yield value
