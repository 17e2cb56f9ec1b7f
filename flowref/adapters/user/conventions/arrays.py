"""Objects that compute in numpy: they get arrays, and their results are converted to tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# Maximal number of entries searched in an object.
MOST = 5_000


def through_arrays(obj: Any, x: Any, context: Any, ask: Any) -> Any:
    """The result of a call with arrays in place of tensors."""
    if context is None:
        return as_tensors(ask(obj, x.detach().cpu().numpy(), None), x)
    return as_tensors(ask(obj, x.detach().cpu().numpy(), context.detach().cpu().numpy()), x)


def as_tensors(out: Any, like: Any) -> Any:
    """A result with numpy arrays and numbers converted to tensors; wider floats are rounded to the dtype of
    ``like``, since numpy computes in double precision whatever its input.
    """
    import torch

    if isinstance(out, np.ndarray) and out.dtype.names:
        return {name: as_tensors(out[name], like) for name in out.dtype.names}
    if isinstance(out, np.ndarray | np.generic):
        tensor = torch.as_tensor(out, device=like.device)
        wider = tensor.is_floating_point() and tensor.dtype.itemsize > like.dtype.itemsize
        return tensor.to(like.dtype) if wider else tensor
    if isinstance(out, tuple) and hasattr(out, "_fields"):
        return type(out)(*(as_tensors(part, like) for part in out))
    if isinstance(out, tuple | list):
        return type(out)(as_tensors(part, like) for part in out)
    if isinstance(out, Mapping):
        return {key: as_tensors(part, like) for key, part in out.items()}
    return out


def computes_in_arrays(obj: Any, call: Any, x: Any, context: Any) -> bool:
    """Whether a call takes and returns arrays, for an object that holds arrays but no tensors, rejects
    tensors, or returns arrays for them.
    """
    kinds = set(_kinds(obj))
    if "framework" in kinds:
        return False
    if "array" not in kinds:
        of_tensor = _answer(call, obj, x.clone(), context)
        if of_tensor is not None and not isinstance(_first_output(of_tensor), np.ndarray):
            return False
    given = None if context is None else context.detach().cpu().numpy()
    out = _answer(call, obj, x.detach().cpu().numpy().copy(), given)
    return isinstance(_first_output(out), np.ndarray)


def goes_back_in_arrays(obj: Any, call: Any, back: Any, x: Any, context: Any) -> bool:
    """Whether an inverse rejects tensors and takes arrays, while the map accepts both, as numpy functions
    do.
    """
    given = None if context is None else context.detach().cpu().numpy()
    z = _first_output(_answer(call, obj, x.detach().cpu().numpy().copy(), given))
    if not isinstance(z, np.ndarray):
        return False
    import torch

    refused = _answer(back, obj, torch.as_tensor(z.copy()).to(x), context) is None
    return refused and isinstance(_first_output(_answer(back, obj, z.copy(), given)), np.ndarray)


def _first_output(out: Any) -> Any:
    return out[0] if isinstance(out, tuple | list) and out else out


def _answer(call: Any, *inputs: Any) -> Any:
    try:
        return call(*inputs)
    except Exception:  # any class of exception
        return None


def _kinds(obj: Any) -> Iterator[str]:
    """The kinds of attributes of an object: "array", or a framework's; the object included."""
    seen: set[int] = set()
    stack = [obj]
    while stack and len(seen) < MOST:
        item = stack.pop()
        if id(item) in seen or isinstance(item, str | bytes | type):
            continue
        seen.add(id(item))
        if any(base.__module__.partition(".")[0] == "torch" for base in type(item).__mro__):
            yield "framework"
        elif isinstance(item, np.ndarray):
            yield "array"
        elif isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, list | tuple):
            stack += iter(item)  # some tuples raise if asked for their length
        elif hasattr(item, "__dict__") and not callable(item):
            stack += vars(item).values()
        elif item is obj:
            stack += getattr(item, "__dict__", {}).values()
