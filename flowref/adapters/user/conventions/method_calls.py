"""Elementary calls of conventions: module-level functions, which dialects combine by partial application
and proofs inline. ``ask(obj, x, context)`` makes a call and returns its result; ``value(out)`` and
``ladj(out)`` extract value and log-det (see `return_forms`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from flowref.adapters.user.conventions import return_forms

# Number of points called one by one; more are called at once if possible.
SEVERAL = 16


def call_with_log_det(obj: Any, x: Any, context: Any, ask: Any, value: Any, ladj: Any) -> Any:
    """The value ``(n, *latent)`` and the log-det ``(n,)`` of a call, by the given readings."""
    out = ask(obj, x, context)
    return value(out), ladj(out)


def call_running_log_det(
    obj: Any, x: Any, context: Any, ask: Any, sign: str, column: bool = False
) -> Any:
    """A call with a running log-det: the returned one minus the given one, negated for the sign "subtract";
    None for "none", if the call returns its argument unchanged.
    """
    import torch

    before = running_numbers(x, column)
    out = ask(obj, x, context, torch.clone(before))
    if sign == "none":
        return out[0], None
    return out[0], before - out[1] if sign == "subtract" else out[1] - before


def running_numbers(x: Any, column: bool) -> Any:
    """Running log-dets for a call: distinct and nonzero, ``(n,)`` or ``(n, 1)``."""
    import torch

    places = torch.arange(len(x), dtype=x.dtype, device=x.device)
    numbers = torch.cos(3.0 + 7.0 * places)
    return numbers.unsqueeze(1) if column else numbers


def call_with_columns(obj: Any, x: Any, context: Any, ask: Any) -> Any:
    """A call with points as columns."""
    rows = len(x)

    def as_rows(part: Any) -> Any:
        columns = getattr(part, "ndim", 0) == 2 and part.shape[1] == rows
        return part.T if columns else part

    out = ask(obj, x.T, context)
    return tuple(map(as_rows, out)) if isinstance(out, (tuple, list)) else as_rows(out)


def ended(obj: Any, x: Any, context: Any, ask: Any) -> Any:
    """The last of the states stacked over time, and likewise of stacked log-dets."""
    out = ask(obj, x, context)
    value = out[0] if isinstance(out, (tuple, list)) else out
    lead = (len(value), len(x))

    def last_of_all(part: Any) -> Any:
        return part[-1] if tuple(getattr(part, "shape", ()))[:2] == lead else part

    return tuple(map(last_of_all, out)) if isinstance(out, (tuple, list)) else last_of_all(out)


def padded(obj: Any, x: Any, context: Any, *before: Any, ask: Any, axis: int) -> Any:
    """A call of sequences with one more position, which its mask leaves out; the result without it."""
    import torch

    size = x.shape[axis]
    out = ask(obj, torch.cat([x, torch.zeros_like(x.narrow(axis, 0, 1))], axis), context, *before)
    parts = out if isinstance(out, (tuple, list)) else (out,)
    kept = [
        one.narrow(axis, 0, size) if one.shape[axis : axis + 1] > (size,) else one for one in parts
    ]
    return kept if isinstance(out, (tuple, list)) else kept[0]


def call_with_halves(obj: Any, x: Any, context: Any, *before: Any, ask: Any) -> Any:
    """A call that takes points as a tuple of halves along the first event axis and returns such a tuple,
    alone or with further results.
    """
    import torch

    out = ask(obj, tuple(x.chunk(2, 1)), context, *before)
    if isinstance(out[0], (tuple, list)):
        return torch.cat(list(out[0]), 1), *out[1:]
    return torch.cat(list(out), 1)


# Calls of methods.


def call_method(obj: Any, x: Any, context: Any, method: str = "", given: Any = ()) -> Any:
    """Call a method, or the object itself, with fixed keywords."""
    run = getattr(obj, method) if method else obj
    return run(x, **dict(given)) if context is None else run(x, context, **dict(given))


def called_with(
    obj: Any,
    x: Any,
    context: Any,
    method: str = "",
    given: Any = (),
    bound: Any = (),
    keyword: str = "",
) -> Any:
    """Call a method with an argument besides points: a mask of ones, or a label; ``keyword``: its name if
    passed by name.
    """
    run = getattr(obj, method) if method else obj
    named = dict(given) | {name: constant(kind, x) for name, kind in bound}
    if keyword and context is not None:
        named, context = {**named, keyword: context}, None
    return run(x, **named) if context is None else run(x, context, **named)


def called_masking(
    obj: Any,
    x: Any,
    context: Any,
    method: str = "",
    given: Any = (),
    keyword: str = "",
    axes: Any = (),
    true: bool = False,
    named: str = "",
) -> Any:
    """Call a method with a mask that leaves out the last position. ``axes``: of the batch that the mask
    has, None for length one; ``true``: boolean; ``named``: the name of a context.
    """
    import torch

    run = getattr(obj, method) if method else obj
    sizes = [1 if axis is None else x.shape[axis] for axis in axes]
    places = max(place for place, axis in enumerate(axes) if axis)
    given = (*given, (named, context)) if named and context is not None else given
    inputs = (x,) if named or context is None else (x, context)
    counted = torch.ones(sizes, dtype=torch.long, device=x.device).cumsum(places)
    mask = (counted < x.shape[axes[places]]).to(torch.bool if true else x.dtype)
    return run(*inputs, **dict(given), **{keyword: mask})


# Time intervals, forward and inverse.
SPANS = {"span": (0.0, 1.0), "span back": (1.0, 0.0)}
# Prefix of other time points.
TIMES = "times "


def constant(kind: str, x: Any) -> Any:
    """A constant for a batch: a label per point, a mask of a given shape, None, or a time interval."""
    import torch

    if kind == "none":
        return None
    if kind in SPANS:
        return x.new_tensor(SPANS[kind])
    if kind.startswith(TIMES):
        return x.new_tensor([float(time) for time in kind.split()[1:]])
    if kind == "label":
        return x.new_ones(len(x), dtype=torch.long)
    shapes = {
        "each position": (len(x), 1, *x.shape[2:]),
        "each position, last": (*x.shape[:-1], 1),
        "each place": x.shape[:2],
        "each entry": x.shape,
    }
    return x.new_ones(shapes[kind])


def called_running(
    obj: Any,
    x: Any,
    context: Any,
    before: Any,
    method: str = "",
    given: Any = (),
    nothing: Any = (),
    keyword: str = "",
    named: str = "",
) -> Any:
    """Call a method with a running log-det as second argument, or under ``keyword``. ``nothing``:
    parameters that get None without a context; ``named``: a context parameter passed by name.
    """
    run = getattr(obj, method) if method else obj
    if named and context is not None:
        given, context = (*given, (named, context)), None
    if keyword:
        inputs = (x,) if context is None else (x, context)
        return run(*inputs, **dict(given), **{keyword: before})
    if context is None:
        return run(x, before, **dict(given), **dict.fromkeys(nothing))
    return run(x, before, context, **dict(given))


def called_triple(
    obj: Any, x: Any, context: Any, before: Any, method: str = "", given: Any = ()
) -> Any:
    """Call a method that takes and returns (value, running log-det, context)."""
    run = getattr(obj, method) if method else obj
    return run((x, before, context), **dict(given))


def called_couple(
    obj: Any, x: Any, context: Any, before: Any, method: str = "", given: Any = ()
) -> Any:
    """Call a method that takes and returns (value, running log-det)."""
    run = getattr(obj, method) if method else obj
    return run((x, before), **dict(given))


def called_state(
    obj: Any, x: Any, context: Any, before: Any, keys: Any, method: str = "", given: Any = ()
) -> Any:
    """Call a method that takes and returns a dictionary of value and running log-det, under ``keys``."""
    run = getattr(obj, method) if method else obj
    out = run({keys[0]: x, keys[1]: before}, **dict(given))
    return out[keys[0]], out[keys[1]]


def called_on_parts(
    obj: Any, z: Any, context: Any, shapes: Any, method: str = "", given: Any = ()
) -> Any:
    """Call a method that takes latents as a list of tensors of ``shapes``."""
    run = getattr(obj, method) if method else obj
    parts = unflattened_latents(z, shapes)
    return run(parts, **dict(given)) if context is None else run(parts, context, **dict(given))


def called_on_several(
    obj: Any, x: Any, context: Any, sizes: Any, method: str = "", given: Any = ()
) -> Any:
    """Call a method that takes several tensors, of ``sizes`` features."""
    run = getattr(obj, method) if method else obj
    return run(*x.split(list(sizes), -1), **dict(given))


def called_on_named(
    obj: Any,
    x: Any,
    context: Any,
    names: Sequence[str],
    sizes: Sequence[int],
    form: str = "named",
    method: str = "",
    given: Any = (),
) -> Any:
    """Call a method that takes a dictionary of arrays, a structured array of numpy, or arrays by keyword, under
    ``names``. ``sizes``: features of each array ``(B, size)``; 0 for an array ``(B,)``. ``form``: "named",
    "structured" or "keywords".
    """
    run = getattr(obj, method) if method else obj
    point = named_arrays(x, names, sizes)
    if form == "keywords":
        return run(**point, **dict(given))
    if form == "structured":
        shapes = [(size,) if size else () for size in sizes]
        rows = np.empty(
            len(x), [(name, x.dtype, shape) for name, shape in zip(names, shapes, strict=True)]
        )
        for name, part in point.items():
            rows[name] = part
        point = rows
    return run(point, **dict(given)) if context is None else run(point, context, **dict(given))


def named_arrays(x: Any, names: Sequence[str], sizes: Sequence[int]) -> Any:
    """The features of ``x (B, d)`` as a dictionary of arrays ``(B, size)``, or ``(B,)`` for a size of 0; of one
    point ``(d,)`` without the axis B.
    """
    ends = list(accumulate(size or 1 for size in sizes))
    if x.ndim > 2 or x.shape[-1] != ends[-1]:
        raise ValueError(
            f"expected {ends[-1]} features for {', '.join(names)}; got {tuple(x.shape)}"
        )
    return {
        name: x[..., end - size : end] if size else x[..., end - 1]
        for name, size, end in zip(names, sizes, ends, strict=True)
    }


def called_on_tuple(obj: Any, x: Any, context: Any, method: str = "", given: Any = ()) -> Any:
    """Call a method that takes a tuple of one tensor, and contexts as a list."""
    run = getattr(obj, method) if method else obj
    return run((x,), **dict(given)) if context is None else run((x,), [context], **dict(given))


def called_at(obj: Any, x: Any, context: Any, index: int) -> Any:
    """Call one of a pair of functions."""
    return obj[index](x) if context is None else obj[index](x, context)


def called_on_array(obj: Any, x: Any, context: Any, method: str) -> Any:
    """Call a method that takes and returns numpy arrays."""
    import torch

    return torch.as_tensor(getattr(obj, method)(x.detach().cpu().numpy()), device=x.device)


def called_on_inverse(obj: Any, z: Any, context: Any, attribute: str) -> Any:
    """Call the inverse object in an attribute, for value and log-det or the value alone."""
    inverse = getattr(obj, attribute)
    inputs = (z,) if context is None else (z, context)
    both = getattr(inverse, "call_and_ladj", None)
    return (inverse(*inputs), None) if both is None else both(*inputs)


def called_with_log_det(obj: Any, x: Any, context: Any, method: str, log_det: str) -> Any:
    """The value by one method, and its log-det by another one of the same input."""
    return getattr(obj, method)(x), getattr(obj, log_det)(x)


def call_with_separate_log_det(
    obj: Any,
    x: Any,
    context: Any,
    ask: Any,
    value: Any,
    log_det: str,
    arity: int,
    back: bool = False,
) -> Any:
    """The value of a call, with the log-det ``(n,)`` of a separate method of ``arity`` arguments (input, or
    input and value), or of an attribute or method of the last call for arity 0. ``back``: the inverse,
    whose log-det is negated.
    """
    out = value(ask(obj, x, context))
    ends = (out, x) if back else (x, out)
    ladj = log_det_value(obj, log_det, ends[:arity])
    return out, -ladj if back else ladj


def negated(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """A call with negated log-det."""
    value, ladj = call(obj, x, context)
    return value, ladj if ladj is None else -ladj


def log_det_value(obj: Any, name: str, inputs: Any) -> Any:
    """The value of a log-det method at ``inputs``, or of an attribute."""
    stated = getattr(obj, name)
    return stated(*inputs) if callable(stated) else stated


def in_form(obj: Any, x: Any, context: Any, call: Any, form: str) -> Any:
    """A call with its log-det converted to one number per point from ``form``: broadcast over entries,
    counted once, per batch, per member of a set, mean over entries, or determinants.
    """
    import torch

    value, ladj = call(obj, x, context)
    if ladj is None:
        return value, None
    ladj = ladj if isinstance(ladj, torch.Tensor) else value.new_tensor(ladj)
    rows = len(x)
    match form:
        case "stretched":
            return value, ladj.expand(x.shape).reshape(rows, -1).sum(1)
        case "once":
            count = rows if ladj.dim() and len(ladj) == rows else 1
            numbers = ladj.reshape(count, -1).sum(1)
            return value, numbers.expand(rows)
        case "batch":
            contexts = [None if context is None else context[row : row + 1] for row in range(rows)]
            each = [call(obj, x[row : row + 1], contexts[row])[1] for row in range(rows)]
            return value, torch.stack([one.reshape(()) for one in each])
        case "members":  # members along the first axis of an event
            count = rows if ladj.dim() and len(ladj) == rows else 1
            numbers = ladj.reshape(count, -1)
            wide = numbers.expand(count, x.shape[1]) if numbers.shape[1] == 1 else numbers
            return value, wide.sum(1).expand(rows)
        case "mean":
            return value, ladj * x[0].numel()
    return value, ladj.abs().log()


def with_attribute(
    obj: Any, x: Any, context: Any, call: Any, path: str, name: str, value: Any
) -> Any:
    """A call with a temporarily changed number in an attribute of a part."""
    part = obj.get_submodule(path) if path else obj
    before = getattr(part, name)
    setattr(part, name, value)
    try:
        return call(obj, x, context)
    finally:
        setattr(part, name, before)


def without_offset(obj: Any, x: Any, context: Any, call: Any, offset: float) -> Any:
    """A call without a declared constant in its log-det."""
    value, ladj = call(obj, x, context)
    return value, None if ladj is None else ladj - offset


def density_without(obj: Any, x: Any, context: Any, call: Any, offset: float) -> Any:
    """Log-densities ``(n,)`` without a declared constant."""
    return call(obj, x, context) - offset


def unflattened_latents(z: Any, shapes: Any) -> Any:
    """Flat latents, of a batch or of one event, as a list of arrays of ``shapes``."""
    import math

    parts, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        parts.append(z[..., start:end].reshape(*z.shape[:-1], *shape))
        start = end
    return parts


def zeros(obj: Any, x: Any, context: Any, ask: Any, value: Any) -> Any:
    """A value with log-dets zero ``(n,)``, for a map declared to preserve volume."""
    return value(ask(obj, x, context)), x.new_zeros(len(x))


# Densities.


def log_prob_by(obj: Any, x: Any, context: Any, ask: Any, entries: Any) -> Any:
    """Log-densities ``(n,)`` as sums of entries of a result; one number for the batch if an entry is one."""
    out = ask(obj, x, context)
    parts = [out[index] for index in entries]
    if any(part.numel() < len(x) for part in parts):
        return sum(part.sum() for part in parts)
    return sum(part.reshape(len(x)) for part in parts)


def each_row(obj: Any, x: Any, context: Any, call: Any) -> Any:
    """Log-densities ``(n,)`` from a method that sums or averages over its batch, called for each point."""
    import torch

    def single(*given: Any) -> Any:
        rows = [one.unsqueeze(0) for one in given]
        return call(obj, rows[0], rows[1] if len(rows) > 1 else None).reshape(())

    given = (x,) if context is None else (x, context)
    if len(x) > SEVERAL and not getattr(obj, "training", False):  # which may write to the object
        with contextlib.suppress(Exception):  # code with branches on values is called row by row
            return torch.func.vmap(single)(*given)
    found = [single(*row) for row in zip(*given, strict=True)]
    return torch.stack(found) if found else x.new_zeros(0)


def log_prob_column(obj: Any, x: Any, context: Any, method: str) -> Any:
    """Log-densities returned as ``(n, 1)`` or ``(1, n)``, flattened."""
    out = call_method(obj, x, context, method)
    return out.reshape(len(x))


def sample_of_points(obj: Any, n: int, context: Any, draw: Any) -> Any:
    """Samples ``(n, *event)`` of a sampler that drops the axis of points for one of them."""
    out = draw(obj, n, context)
    return out[None] if n == 1 else out


def sample_named(obj: Any, n: int, context: Any, draw: Any, names: Any) -> Any:
    """Samples ``(n, d)`` of a sampler that returns named arrays."""
    return return_forms.named_columns(draw(obj, n, context), names)


def of_single_points(obj: Any, x: Any, context: Any, ask: Any) -> Any:
    """Log-densities ``(n,)`` of a method that drops the axis of points for one of them."""
    out = ask(obj, x, context)
    return out.reshape(1) if len(x) == 1 and tuple(getattr(out, "shape", (1,))) == () else out


def sample_of(
    obj: Any,
    n: int,
    context: Any,
    shape: bool = False,
    at: Any = None,
    squeezed: Any = None,
    method: str = "sample",
) -> Any:
    """Draw points ``(n, *event)`` by a number or a shape; ``at``: the entry of the result; ``squeezed``: an
    axis to drop.
    """
    count, draw = (n,) if shape else n, getattr(obj, method)
    out = draw(count) if context is None else draw(count, context)
    out = out if at is None else out[at]
    return out if squeezed is None else out.squeeze(squeezed)


def sample_naming(obj: Any, n: int, context: Any, method: str, count: str, given: str = "") -> Any:
    """Draw points ``(n, *event)`` by a method that takes the number, and a context, by keyword."""
    named = {count: n} if context is None else {count: n, given: context}
    return getattr(obj, method)(**named)


def sampled_with_log_prob_each(
    obj: Any, n: int, context: Any, method: str, shape: bool = False, first: bool = True
) -> Any:
    """Draw points ``(n, *event)`` per context with their log-densities, by a number or a shape; the context
    axis of the result is ``first`` or after that of draws.
    """
    count = n // len(context)
    points, beside = getattr(obj, method)((count,) if shape else count, context)
    if not first:
        points, beside = points.transpose(0, 1), beside.transpose(0, 1)
    return points.reshape(n, *points.shape[2:]), beside.reshape(n)


def sampled_with_log_prob(obj: Any, n: int, context: Any, method: str, shape: bool = False) -> Any:
    """Draw points ``(n, *event)`` with their log-densities, by a number or a shape."""
    return getattr(obj, method)((n,) if shape else n)


def sample_at(obj: Any, n: int, context: Any, method: str = "sample") -> Any:
    """Draw one point per context, ``(n, *event)``, by a method that takes contexts alone."""
    draw = getattr(obj, method)
    return draw(context if len(context) == n else context.expand(n, *context.shape[1:]))


def sample_of_each(obj: Any, n: int, context: Any, draw: Any) -> Any:
    """Samples for contexts from a method that returns the axis of draws before that of contexts."""
    out = draw(obj, n, context)
    return out if context is None else out.transpose(0, 1)


def of_sets(obj: Any, x: Any, context: Any = None, *, name: str, another: bool = True) -> Any:
    """The images of sets ``(n, members, ...)``, called as rows with the number of their set.

    ``another``: a smaller set follows, whose images are left out, since sets of one size hide what depends
    on the sizes of others.
    """
    import torch

    rows = x.flatten(0, 1)
    sets = torch.arange(len(x), device=x.device).repeat_interleave(x.shape[1])
    if another:
        one = rows.new_ones(rows.shape[1:])
        pair = torch.stack([one, -one])
        rows, sets = torch.cat([rows, pair]), torch.cat([sets, sets.new_full((2,), len(x))])
    return obj(rows, **{name: sets})[: x.shape[0] * x.shape[1]].reshape(x.shape), None
