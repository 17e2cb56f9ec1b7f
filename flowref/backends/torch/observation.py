"""Side effects and precision of one call: what it prints, draws, changes and writes to, and its
float32 arithmetic.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from flowref.backends.rounding import PROBE
from flowref.backends.torch.arrays import as_mapped, key_of
from flowref.backends.torch.call_cost import Measuring
from flowref.backends.torch.evaluation import input_tensors
from flowref.backends.torch.live import DTYPES, Live
from flowref.backends.torch.methods import dispatched, input_rows, method, unseeded_method
from flowref.backends.torch.sandbox import GENERATORS, random_state, torch_settings
from flowref.backends.torch.state import set_mode, trainable
from flowref.backends.torch.torch_float32 import Narrowing
from flowref.model import Observation, derive
from flowref.model.call import DRAWING

# Calls whose float32 arithmetic is not searched for: noise may be drawn in float32.
UNWATCHED = (*DRAWING, "loss", "bits_per_dim")


def observe(
    live: Live, name: str, inputs: tuple[Any, ...], default: str, training: bool = False
) -> Observation:
    """Returns the `Observation` of one call, cached, since several laws ask for it. The call runs
    under the dtype ``default``: users have float32, which shows constants of the default dtype.
    """
    if live.rounding is not None:
        return _observe_call(live, name, inputs, default, training)
    key = (name, tuple(_key(value) for value in inputs), default, training)
    if key not in live.observations:
        live.observations[key] = _observe_call(live, name, inputs, default, training)
    else:
        live.afford(name, input_rows(inputs))
    return live.observations[key]


def _key(value: Any) -> tuple[Any, ...]:
    return key_of(value) if value is None or isinstance(value, np.ndarray) else (value,)


@contextlib.contextmanager
def _lent(live: Live, training: bool) -> Iterator[Any]:
    """A copy for one call, in the given mode."""
    if training:
        obj = live.take()
        set_mode(obj, True)
        yield obj
    else:
        with live.lend() as obj:
            yield obj


def _observe_call(
    live: Live, name: str, inputs: tuple[Any, ...], default: str, training: bool
) -> Observation:
    function = unseeded_method(live, name)
    ready = input_tensors(live, inputs)
    arguments = [value for value in ready if isinstance(value, torch.Tensor)]
    copies = [tensor.clone() for tensor in arguments]
    with _lent(live, training) as obj, live.sandbox(17, DTYPES[default]) as printed:
        before, states = torch_settings(), random_state()
        with filters() as heard, Measuring() as counter:
            out = function(obj, *ready)
        ended = random_state()
        changed = tuple(name for name, value in torch_settings().items() if value != before[name])
        written = printed.getvalue()
        graded = tuple(name for name, tensor in trainable(obj) if tensor.grad is not None)
    # A library that the first call imports may set filters meanwhile.
    if heard and filtering(live, name, inputs, DTYPES[default], training):
        changed += ("warnings filters",)
    mutated: tuple[str, ...] = ()
    for argument, tensor, copy in zip(("x", "context"), arguments, copies, strict=False):
        if tensor._version > 0 or not torch.equal(*map(torch.nan_to_num, (tensor, copy))):
            mutated += (argument,)
        if tensor.requires_grad:
            mutated += (f"requires_grad of {argument}",)
        if tensor.is_leaf and tensor.grad is not None:
            mutated += (f"the gradient of {argument}",)
    watching = live.dtype == torch.float64 and name not in UNWATCHED and counter.single
    narrow = (False, False)
    if watching:
        narrow = feeds_float32(live, name, inputs, DTYPES[default], training)

    @functools.cache
    def reseeds() -> tuple[str, ...]:
        drew = ended != states
        return reseeded(live, name, inputs, DTYPES[default], ended, training) if drew else ()

    return Observation(
        printed=written,
        rng=ended != states,
        globals=changed,
        mutated=mutated,
        dtypes=tuple(
            str(v.dtype).removeprefix("torch.") if isinstance(v, torch.Tensor) else "number"
            for v in dispatched(out)
        ),
        float32=any(narrow),
        beside=narrow == (False, True),
        operations=counter.operations,
        graded=graded,
        written=counter.written,
        redrawn=counter.redrawn,
        half=counter.half,
        reseeds=reseeds,
    )


@contextlib.contextmanager
def filters() -> Iterator[list[bool]]:
    """Yields a list that is not empty afterwards if the filters of warnings were changed. Warnings
    are silenced without a filter that foreign code might set too.
    """
    heard: list[bool] = []
    with warnings.catch_warnings(record=True):
        warnings.resetwarnings()
        before = list(warnings.filters)
        yield heard
        if list(warnings.filters) != before:
            heard.append(True)


def filtering(
    live: Live, name: str, inputs: tuple[Any, ...], default: torch.dtype, training: bool
) -> bool:
    """Whether another call changes the filters of warnings."""
    with _lent(live, training) as obj, live.sandbox(17, default):
        with filters() as heard:
            unseeded_method(live, name)(obj, *input_tensors(live, inputs))
        return bool(heard)


def reseeded(
    live: Live,
    name: str,
    inputs: tuple[Any, ...],
    default: torch.dtype,
    ended: tuple[Any, ...],
    training: bool,
) -> tuple[str, ...]:
    """The generators that a call leaves in the same state from any start: it seeds them
    globally.
    """
    with _lent(live, training) as obj, live.sandbox(23, default):
        unseeded_method(live, name)(obj, *input_tensors(live, inputs))
        return tuple(
            f"the random state of {generator}"
            for generator, one, other in zip(GENERATORS, ended, random_state(), strict=True)
            if one == other
        )


def feeds_float32(
    live: Live, name: str, inputs: tuple[Any, ...], default: torch.dtype, training: bool = False
) -> tuple[bool, bool]:
    """Whether float32 arithmetic affects a float64 value, and a float64 log-det: perturb only
    float32 results, and compare the outputs. Log-dets declared to be summed in the default
    dtype are exempt if that is float32; those summed within a log-density are reported as
    log-dets.
    """
    value, ladj = _float32_moves_results(live, name, inputs, default, training)
    if value and name == "log_prob" and default != live.dtype:
        value = _float32_moves_results(live, name, inputs, default, training, sums=False)[0]
        return value, not value
    narrow = bool(live.facts.promises.get("narrow-log-det")) and default != live.dtype
    return value, not narrow and ladj


def _float32_moves_results(
    live: Live,
    name: str,
    inputs: tuple[Any, ...],
    default: torch.dtype,
    training: bool,
    sums: bool = True,
) -> tuple[bool, bool]:
    """Whether the value and the log-det of a call change when its float32 results are perturbed."""
    function = unseeded_method(live, name) if training else method(live, name)
    outcomes = []
    for magnitude in (0.0, PROBE):
        circumstances = live.sandbox(17, default)
        with (
            _lent(live, training) as obj,
            circumstances,
            Narrowing(magnitude, derive(live.seed, 19), sums, live.facts.single_precision) as mode,
        ):
            out = as_mapped(name, function(obj, *input_tensors(live, inputs)))
            if not mode.disturbed:
                return False, False
        outcomes.append(out)
    clean, moved = outcomes
    return _result_differs(clean.value, moved.value), _result_differs(clean.ladj, moved.ladj)


def _result_differs(clean: Any, moved: Any) -> bool:
    if clean is None:
        return False
    first, second = np.asarray(clean), np.asarray(moved)
    if first.dtype == np.float32 or first.shape != second.shape:
        return True
    return not bool(np.array_equal(first, second, equal_nan=True))
