"""State of live torch objects: copying, casting, moving parameters, and the tensors they hold."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import functools
import hashlib
import inspect
import itertools
import types
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.distributions import ExpTransform

from flowref.backends.torch.host import ELSEWHERE
from flowref.backends.torch.own_generators import GLOBAL
from flowref.backends.torch.plain_tensors import loose
from flowref.backends.torch.reach import OPAQUE
from flowref.model.mode_switch import switches

# The class of a transform's `.inv`, which torch does not export.
INVERSE: Any = type(ExpTransform().inv)
# Types that copies share with the original.
ATOMS = frozenset(
    (bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Size)
)
CONTAINERS = frozenset((dict, OrderedDict, list, set))
# The flag of classes written in Python.
WRITTEN = 1 << 9
# Longer parameters move along a repeated block of so many numbers, since drawing them all takes
# longer than a step of a large model; a prime, so that blocks do not align with rows or channels.
BLOCK = 8_191
# Methods with which a class overrides copying field by field.
COPIED_BY = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__")


def duplicate(obj: Any) -> Any:
    """Returns an independent copy of a live object.

    Tensors cached from an earlier call are not leaves and reject ``deepcopy``: they are detached in
    the copy. Inverses of transforms, which lose their transform when torch copies them, keep it.
    Global generators are shared.
    """
    with _inverses_whole():
        try:
            return _deepcopy_value(obj, dict(GLOBAL))
        except RuntimeError as error:
            if "deepcopy protocol" not in str(error):
                raise
        memo: dict[int, Any] = dict(GLOBAL)
        for tensor in tensors(obj):
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                memo[id(tensor)] = tensor.detach().clone()
        return _deepcopy_value(obj, memo)


@contextlib.contextmanager
def _inverses_whole() -> Iterator[None]:
    """Inverses of transforms are copied with their transform. `Transform.__getstate__` drops it,
    as it must drop the weak reference that other transforms hold under the same name.
    """
    before = copyreg.dispatch_table.get(INVERSE)
    copyreg.dispatch_table[INVERSE] = _whole_inverse
    try:
        yield
    finally:
        if before is None:
            del copyreg.dispatch_table[INVERSE]
        else:
            copyreg.dispatch_table[INVERSE] = before


def _whole_inverse(inverse: Any) -> tuple[Any, ...]:
    """Made empty and filled later: with pyro imported a transform keeps its inverse in copies, so
    that each is copied while the other is.
    """
    return object.__new__, (INVERSE,), dict(vars(inverse))


def _deepcopy_value(value: Any, memo: dict[int, Any]) -> Any:
    """`copy.deepcopy`, faster for modules and dictionaries, since every call of a subject makes a
    copy.
    """
    kind: Any = type(value)
    if kind in ATOMS:
        return value
    if id(value) in memo:
        return memo[id(value)]
    if kind is dict or kind is OrderedDict:
        copied: dict[Any, Any] = kind()
        memo[id(value)] = copied
        for key, entry in value.items():
            at = key if type(key) in ATOMS else copy.deepcopy(key, memo)
            of: Any = type(entry)
            if of in ATOMS:
                copied[at] = entry
            elif of in CONTAINERS and not entry and id(entry) not in memo:
                copied[at] = memo[id(entry)] = of()  # a module has a dozen of them
            else:
                copied[at] = _deepcopy_value(entry, memo)
        return copied
    if kind is list:
        entries: list[Any] = []
        memo[id(value)] = entries
        entries.extend(_deepcopy_value(entry, memo) for entry in value)
        return entries
    if kind is tuple and all(type(entry) in ATOMS for entry in value):
        return value
    if kind is nn.Parameter and not vars(value):
        # As in its own __deepcopy__.
        parameter = nn.Parameter(value.data.clone(), value.requires_grad)
        memo[id(value)] = parameter
        return parameter
    if kind is torch.Tensor and (tensor := _copied_constant(value, memo)) is not None:
        memo[id(value)] = tensor
        return tensor
    if isinstance(value, nn.Module) and _copyable_by_dict(kind):
        module = kind.__new__(kind)
        memo[id(value)] = module
        vars(module).update(_deepcopy_value(vars(value), memo))
        return module
    if _reduced(kind):
        # As `copy.deepcopy` treats an instance, with the faster copy of its contents.
        make, arguments, *more = value.__reduce_ex__(4)
        if make is copyreg.__newobj__ and len(arguments) == 1 and not any(more[1:]):  # type: ignore[attr-defined]  # typeshed leaves it out
            return _instance(value, kind, more[0] if more else None, memo)
    made = copy.deepcopy(value, memo)
    if isinstance(value, nn.Module) and share_parameters(made, value):
        # Its own copying shares parameters, so it is copied field by field, as torch would.
        made = kind.__new__(kind)
        memo[id(value)] = made
        vars(made).update(_deepcopy_value(vars(value), {id(value): made}))
    return made


def _copied_constant(value: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor | None:
    """A copy of a constant tensor that is alone in its memory, recorded like one of its own
    `__deepcopy__`, so that views of the memory become views of the copy; None for other
    tensors.
    """
    if value.requires_grad or vars(value) or value.grad is not None or not value.is_cpu:
        return None
    if value.layout is not torch.strided or value.is_quantized or not value.is_contiguous():
        return None
    memory: Any = value.untyped_storage()
    copied = memo.setdefault("torch", {})  # type: ignore[call-overload]  # the key that torch takes
    if memory._cdata in copied or memory.nbytes() != value.nbytes or value.is_conj():
        return None
    made = value.clone()
    copied[memory._cdata] = made.untyped_storage()
    return made


def share_parameters(first: nn.Module, second: nn.Module) -> bool:
    """Whether two modules have trainable parameters in the same memory."""
    pointers = [
        {p.data_ptr() for p in one.parameters() if p.requires_grad and p.numel()}
        for one in (first, second)
    ]
    return bool(pointers[0] & pointers[1])


def _instance(value: Any, kind: Any, state: Any, memo: dict[int, Any]) -> Any:
    """An instance made without arguments, with a copy of the state."""
    made = kind.__new__(kind)
    memo[id(value)] = made
    # The state may be temporary, and its id must not be reused meanwhile.
    memo.setdefault(id(memo), []).append(state)
    if state is None:
        return made
    state = _deepcopy_value(state, memo)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return made
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if attributes:
        vars(made).update(attributes)
    for name, entry in (slots or {}).items():
        setattr(made, name, entry)
    return made


@functools.cache
def _reduced(kind: Any) -> bool:
    """Whether instances are copied by ``__reduce_ex__``: classes written in Python without their
    own copying.
    """
    usual = all(
        getattr(kind, name) is getattr(object, name) for name in ("__reduce__", "__reduce_ex__")
    )
    own = hasattr(kind, "__deepcopy__") or kind in copyreg.dispatch_table
    return usual and not own and not issubclass(kind, type) and bool(kind.__flags__ & WRITTEN)


@functools.cache
def _copyable_by_dict(kind: type) -> bool:
    """Whether ``__dict__`` holds everything of a module class's instances, and is copied
    as such.
    """
    ours = all(
        getattr(kind, name, None) is getattr(nn.Module, name, None)
        for name in (*COPIED_BY, "__setstate__")
    )
    return ours and not any(vars(base).get("__slots__") for base in kind.__mro__)


def tensor_entries(obj: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yields (container, key, tensor) for all tensors reachable through attributes, lists, tuples
    and dicts.
    """
    seen: set[int] = set()
    stack: list[Any] = [obj]
    while stack:
        item = stack.pop()
        if isinstance(item, OPAQUE) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            entries = list(item.items())
        elif isinstance(item, (list, tuple, set, frozenset)):
            entries = list(enumerate(item))
        elif isinstance(item, (types.MethodType,)):
            entries = [(None, item.__self__)]
        elif hasattr(item, "__dict__"):
            entries = list(vars(item).items())
        else:
            continue
        for key, value in entries:
            kind: Any = type(value)
            if kind in ATOMS or (kind in CONTAINERS and not value):
                continue  # most values of a module
            if isinstance(value, torch.Tensor):
                yield item, key, value
            else:
                stack.append(value)


def tensors(obj: Any) -> list[torch.Tensor]:
    """Every tensor reachable from an object."""
    return (
        [obj] if isinstance(obj, torch.Tensor) else [tensor for _, _, tensor in tensor_entries(obj)]
    )


def cast(obj: Any, dtype: torch.dtype) -> Any:
    """Casts an object in place to a floating dtype, plain tensor attributes included, and moves it
    to the CPU from a session's device; returns it. Half-precision tensors stay so next to
    float32: its calls need them.
    """
    kept = halves(obj) if dtype == torch.float32 else []
    for module in modules(obj):
        held = itertools.chain(module.parameters(), module.buffers())
        if any(one.device.type in ELSEWHERE for one in held):
            module.cpu()  # first, as not every device has all dtypes
        module_to(module, dtype)
    made: dict[int, torch.Tensor] = {}
    for container, key, tensor in list(tensor_entries(obj)):
        away = tensor.device.type in ELSEWHERE
        if not (away or (tensor.is_floating_point() and tensor.dtype != dtype)):
            continue
        moved = made.get(id(tensor))
        if moved is None:
            moved = tensor.detach().cpu() if away else tensor.detach()
            moved = moved.to(dtype) if tensor.is_floating_point() else moved
        if isinstance(tensor, nn.Parameter):  # outside of modules, or it would be cast
            tensor.data = moved
            continue
        # Values computed from parameters have gradients, but are not leaves.
        made[id(tensor)] = moved.requires_grad_(tensor.requires_grad and tensor.is_leaf)
        if isinstance(container, (dict, list)):
            container[key] = moved
        elif not isinstance(container, (tuple, set, frozenset)) and key is not None:
            object.__setattr__(container, key, moved)
    for module, name, half in kept:
        tensor = getattr(module, name)
        tensor.data = tensor.data.to(half)
    return obj


def halves(obj: Any) -> list[tuple[nn.Module, str, torch.dtype]]:
    """(module, name, dtype) of parameters and buffers in half precision."""
    owned = (module for root in modules(obj) for module in root.modules())
    return [
        (module, name, tensor.dtype)
        for module in owned
        for name, tensor in (*module._parameters.items(), *module._buffers.items())
        if tensor is not None and tensor.dtype in (torch.float16, torch.bfloat16)
    ]


def module_to(module: nn.Module, dtype: torch.dtype) -> None:
    """Casts a module as its users would; a module whose own ``to`` takes only devices, and might
    store the dtype as one, as torch would.
    """
    own = type(module).to
    if own is not nn.Module.to:
        taken = list(inspect.signature(own).parameters.values())[1:]
        if not any(one.kind is one.VAR_POSITIONAL or one.name == "dtype" for one in taken):
            nn.Module.to(module, dtype)
            return
    module.to(dtype)


def modules(obj: Any) -> list[nn.Module]:
    """The outermost modules of an object: itself, or those among its attributes."""
    if isinstance(obj, nn.Module):
        return [obj]
    outermost: list[nn.Module] = []
    seen: set[int] = set()
    stack = [obj]
    while stack:
        item = stack.pop()
        if isinstance(item, OPAQUE) or id(item) in seen or isinstance(item, torch.Tensor):
            continue
        seen.add(id(item))
        if isinstance(item, nn.Module):
            outermost.append(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(iter(item))  # some tuples raise if asked for their length
        elif hasattr(item, "__dict__"):
            stack.extend(vars(item).values())
    return outermost


def trainable(obj: Any) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of parameters that require a gradient, in a stable order; for an object that
    is no module, leaves outside of its modules too.

    Frozen parameters are excluded: some libraries keep permutations and wavelets in them.
    """
    named: list[tuple[str, torch.Tensor]] = []
    for index, module in enumerate(modules(obj)):
        prefix = "" if module is obj else f"{index}."
        named += [(prefix + name, p) for name, p in module.named_parameters() if p.requires_grad]
    named += [] if isinstance(obj, nn.Module) else loose(obj)
    return [(name, p) for name, p in named if p.is_floating_point()]


def move(obj: Any, scale: float, seed: int, only: str = "") -> None:
    """Adds ``scale`` times a seeded standard normal direction to every trainable parameter, in
    place, or to ``only`` one.
    """
    with torch.no_grad():
        for parameter, step in _random_directions(obj, seed, only):
            scaled, count = (scale * step).to(parameter.dtype), parameter.numel()
            if count > BLOCK and parameter.is_contiguous():  # a repeating direction is not expanded
                flat, whole = parameter.view(-1), count // BLOCK * BLOCK
                flat[:whole].view(-1, BLOCK).add_(scaled)
                flat[whole:].add_(scaled[: count - whole])
            else:
                parameter.add_(_repeated(scaled, parameter))


def parameter_directions(
    obj: Any, seed: int, only: str = ""
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields every trainable parameter with its part of a seeded standard normal direction, in
    float64; or ``only`` one.
    """
    for parameter, step in _random_directions(obj, seed, only):
        yield parameter, _repeated(step, parameter)


def _random_directions(
    obj: Any, seed: int, only: str
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yields every trainable parameter, or one, with its drawn direction: for large ones a block,
    which repeats.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in trainable(obj):
        count = min(parameter.numel(), BLOCK)
        step = torch.randn(count, generator=generator, dtype=torch.float64)
        if only in ("", name):
            yield parameter, step


def _repeated(step: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """The repeated block in the shape of a parameter."""
    count = parameter.numel()
    whole = step.repeat(-(-count // BLOCK))[:count] if count > BLOCK else step
    return whole.view(parameter.shape)


def set_mode(obj: Any, training: bool) -> None:
    """Puts every module of an object into train or eval mode.

    A flag with the name of the method hides it; it is then set directly, so that everything but the
    protocol of modes can still be judged. A training loop of that name is never called.
    """
    for module in modules(obj):
        inner = list(module.modules())
        hiding = [part for part in inner if not switches(part)]
        if not hiding:
            module.train(training)
            continue
        for part in inner:
            part.training = training
        for part in hiding:
            if isinstance(vars(part).get("train"), bool):
                vars(part)["train"] = training


def fingerprint(obj: Any) -> str:
    """A digest of the state of an object, equal for bitwise equal states."""
    digest = hashlib.sha256(type(obj).__qualname__.encode())
    for name, value in sorted(named_state(obj).items()):
        digest.update(name.encode())
        if isinstance(value, torch.Tensor):
            digest.update(f"{tuple(value.shape)} {value.dtype}".encode())
            digest.update(
                value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
            )
    return digest.hexdigest()


def named_state(obj: Any) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name; the tensor attributes of an object that is no module."""
    if isinstance(obj, nn.Module):
        return dict(obj.state_dict(keep_vars=True))
    named: dict[str, torch.Tensor] = {}
    for index, module in enumerate(modules(obj)):
        named |= {
            f"{index}.{name}": value for name, value in module.state_dict(keep_vars=True).items()
        }
    named |= dict(loose(obj)) if named else {}
    if not named:
        named = {
            f"{index}.{key}": tensor for index, (_, key, tensor) in enumerate(tensor_entries(obj))
        }
    return named
