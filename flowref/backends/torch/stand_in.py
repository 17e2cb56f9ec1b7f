"""A simulated device: tensors that claim to be on another device, compute on the CPU and reject
what a GPU rejects.

A tensor on it is a wrapper around a tensor on the CPU. torch treats it as one of its lazy devices,
which have no kernels and whose backward passes run in the calling thread: so all code for a device,
``x.new_zeros``, ``torch.arange(n, device=x.device)`` or a formula of autograd, reaches `StandIn`.
What is requested on a GPU by name is made here, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from flowref.backends.process import standing_in
from flowref.backends.torch.dispatch import Dispatch
from flowref.backends.torch.host import ELSEWHERE
from flowref.model import running_user_line

DEVICE = torch.device("lazy", 0)
TWO = (
    "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)
INDEXED = "indices should be either on cpu or on the same device as the indexed tensor (cpu)"
NUMPY = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
GENERATED = "Expected a 'cuda' device type for generator but found 'cpu'"

aten = torch.ops.aten
# Operators that copy from one device to another.
COPYING = {aten.copy_, aten._foreach_copy_, aten._to_copy, aten._copy_from}
# Operators of indices, which may be on the CPU.
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_, aten._unsafe_index,
            aten._unsafe_index_put}  # fmt: skip
# Operators with tensors that must be on the CPU: lengths and numbers of pieces.
SPLIT = {aten._pack_padded_sequence, aten._pad_packed_sequence, aten.tensor_split}
# Operators that reject a CPU scalar. Elementwise ones accept it, and so may others: torch's own
# `torch._subclasses.fake_tensor` lets all do so.
NO_SCALARS = {aten.stack, aten.cat, aten.equal, aten.index_select, aten.gather, aten.scatter, aten.scatter_,
              aten.scatter_add, aten.scatter_add_, aten.embedding}  # fmt: skip
# Functions that make a tensor from a list.
FROM_LISTS = {torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor}


class Misplaced(RuntimeError):
    """A GPU's error about the device of a tensor. ``made``: the line of user code that made the
    tensor on the CPU, ``flow.py:12``, or "".
    """

    made = ""


class NotHost(Misplaced, TypeError):
    """The same, where torch raises a `TypeError`."""


class Distant(torch.Tensor):
    """A tensor on the device. ``near``: the CPU tensor that it wraps."""

    near: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # as torch's own

    @staticmethod
    def __new__(cls, near: torch.Tensor) -> Distant:
        """A wrapper with the shape, strides and dtype of ``near``."""
        self: Distant = torch.Tensor._make_wrapper_subclass(
            cls,
            near.shape,
            strides=near.stride(),
            storage_offset=near.storage_offset(),
            dtype=near.dtype,
            device=DEVICE,
        )
        self.near = near
        return self

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]  # a property there, too
        """Whether it is on a GPU, as code asks."""
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        made: torch.Tensor = Distant(self.near.clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            made = torch.nn.Parameter(made, self.requires_grad)
        memo[id(self)] = made
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # untyped there
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return operation(func, args, dict(kwargs or {}))


class StandIn(Dispatch):
    """Makes the device available: tensors on it are wrappers. ``made``: tensors on the CPU, and the
    lines of user code that made them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: Any = WeakTensorKeyDictionary()

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """See `operation`. A tensor computed from tensors on the CPU was made where they were."""
        given = [one for one in tree_iter((args, named)) if isinstance(one, torch.Tensor)]
        line = next(filter(None, map(self.made.get, given)), "")
        try:
            out = operation(func, args, named)
        except Misplaced as error:
            error.made = line
            raise
        if not given or line:
            line = line or running_user_line()
            on_cpu = (one for one in tree_iter(out) if isinstance(one, torch.Tensor))
            self.made.update({one: line for one in on_cpu if not isinstance(one, Distant)})
        return out


def operation(func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Runs an operator, on the device of its inputs, or on the requested one. Raises `Misplaced`
    where a GPU rejects inputs on two devices.
    """
    given = [one for one in tree_iter((args, named)) if isinstance(one, torch.Tensor)]
    far = [one for one in given if isinstance(one, Distant)]
    device = named.get("device")
    there = bool(far)
    if device is not None:
        there = device.type == DEVICE.type
        named["device"] = torch.device("cpu") if there else device
    packet = func.overloadpacket
    if packet is aten._efficientzerotensor and there:  # has no memory for other operators to read
        func = aten.zeros.default
    if packet in COPYING:
        there = isinstance(args[0], Distant) if device is None else there
    elif far and len(far) < len(given):
        _check_devices(packet, args, given)
    generator = named.get("generator")
    if there and generator is not None and generator.device.type == "cpu":
        raise Misplaced(GENERATED)
    if not (there or far):
        return func(*args, **named)
    own = {id(one.near): one for one in far}
    out = func(*tree_map(_unwrapped, args), **tree_map(_unwrapped, named))

    def placed(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        if id(one) in own:
            return _same_shape(own[id(one)])
        return Distant(one) if there else one

    return tree_map(placed, out)


def _unwrapped(one: Any) -> Any:
    return one.near if isinstance(one, Distant) else one


def _same_shape(one: Distant) -> Distant:
    """Returns a tensor written in place; raises if its shape changed, which a wrapper cannot
    represent.
    """
    if one.shape != one.near.shape or one.stride() != one.near.stride():
        raise NotImplementedError(
            "a tensor on the stand-in device does not change its shape in place"
        )
    return one


def _check_devices(packet: Any, args: tuple[Any, ...], given: list[torch.Tensor]) -> None:
    """Checks an operator on tensors of two devices, by the rules of
    torch/_subclasses/fake_tensor.py.
    """
    if packet in SPLIT:
        return
    if packet in INDEXING:
        if not isinstance(args[0], Distant):
            raise Misplaced(INDEXED if any(isinstance(i, Distant) for i in args[1]) else TWO)
        given = [one for one in (args[0], *args[2:3]) if isinstance(one, torch.Tensor)]
    scalars = packet not in NO_SCALARS
    if any(not (isinstance(one, Distant) or (scalars and one.dim() == 0)) for one in given):
        raise Misplaced(f"{TWO} (in {packet})")


class ByName(TorchFunctionMode):
    """Requests for a GPU by name go to the stand-in device."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(DEVICE)
        if func is torch.Tensor.numpy and isinstance(args[0], Distant):
            raise NotHost(NUMPY)
        if func is torch.Tensor.tolist and isinstance(args[0], Distant):
            return args[0].cpu().tolist()
        if func is torch.Tensor.data.__set__ and Distant in map(type, args):  # type: ignore[attr-defined]  # a slot
            return _set_data(*args)
        if func is torch.Tensor.to:
            args = (args[0], *map(_on_stand_in, args[1:]))
        if func in FROM_LISTS and not isinstance(args[-1], torch.Tensor):  # read on the CPU
            args = (
                tree_map(_unwrapped, args[-1:])
                if len(args) == 1
                else (args[0], *tree_map(_unwrapped, args[1:]))
            )
        if named.get("device") is not None:
            named["device"] = _on_stand_in(named["device"])
        return func(*args, **named)


def _on_stand_in(value: Any) -> Any:
    """Replaces other devices, as name or object, by the stand-in; other values are unchanged."""
    kind = value.type if isinstance(value, torch.device) else value
    elsewhere = isinstance(kind, str) and kind.partition(":")[0] in ELSEWHERE
    return DEVICE if elsewhere else value


def _set_data(owner: torch.Tensor, value: torch.Tensor) -> None:
    """``owner.data = value``: the same tensor on another device."""
    if isinstance(owner, Distant) and isinstance(value, Distant):
        torch.Tensor.data.__set__(owner, value)  # type: ignore[attr-defined]  # a slot
        owner.near = value.near
        return
    made = value.detach()
    if isinstance(owner, torch.nn.Parameter):
        made = torch.nn.Parameter(made, owner.requires_grad)
    _swap(owner, made)


def _swap(one: Any, other: Any) -> None:
    """`torch.utils.swap_tensors` for tensors in use by an earlier graph too: that of a module
    which makes a new one with its next call.
    """
    one.__class__, other.__class__ = other.__class__, one.__class__
    one.__dict__, other.__dict__ = {**one.__dict__, **other.__dict__}, one.__dict__
    torch._C._swap_tensor_impl(one, other)


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Inside, the device exists, and modules that are moved to it keep their parameter objects, as
    with ``p.data = ...``.
    """
    future: Any = torch.__future__
    swapping = future.get_swap_module_params_on_conversion()
    lifting = torch._C._only_lift_cpu_tensors()
    future.set_swap_module_params_on_conversion(True)
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with standing_in(torch.utils, swap_tensors=_swap), StandIn(), ByName():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(lifting)
        future.set_swap_module_params_on_conversion(swapping)
