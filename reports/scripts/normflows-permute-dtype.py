"""The law hygiene/dtype-follow does not hold in normflows:Permute[swap].

The law: A float64 object returns float64 values and log-dets for float64 inputs, and computes them in float64.
Source: constants and zeros made in the default dtype round a float64 computation to float32

Recorded with weights as given, float64.

Seen: the log-det of forward is float32, the log-det of inverse is float32; at the weights as given
  off by 1, allowed 0

With Python 3.11.7, normflows 1.7.3, torch 2.13.0+cpu, numpy 2.4.6.

Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing
can be said. It needs the audited code, torch and numpy, and was written by flowref.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import normflows.flows as of
import numpy as np
import os
import random
import sys
import torch
import traceback
import warnings
from collections import namedtuple
from copy import deepcopy
from functools import partial
from torch.utils._python_dispatch import TorchDispatchMode

# How the law is measured: flowref's code, as far as it is needed here.

class Unsupported(Exception):
    """The object cannot do what is asked of it, so that the law says nothing."""


class Undecidable(Exception):
    """What was measured cannot be judged."""


def attempt(run, *given, **named):
    """What a call returned and an empty string, or None and what it raised."""
    try:
        return run(*given, **named), ""
    except (Unsupported, Undecidable):
        raise
    except Exception as error:
        first = str(error).strip().splitlines()
        return None, f"{type(error).__name__}: {first[0] if first else ''}"


GIVE_UP = 6


def accepted(ability, points, context):
    """The points, with those that a call refuses replaced by one that it takes; None and the error if it takes none."""
    _, error = attempt(ability, points, context)
    if not error:
        return points, ""
    good = []
    for row in range(len(points)):
        index = np.array([row])
        if not attempt(ability, points[index], None if context is None else context[index])[1]:
            good.append(row)
        elif not good and row >= GIVE_UP:
            break
    if not good:
        return None, error
    replaced = np.repeat(points[good[:1]], len(points), 0)
    replaced[good] = points[good]
    return (None, error) if attempt(ability, replaced, context)[1] else (replaced, "")


def probes(subject, batch, complete=True):
    """The calls that a subject offers, each with points to make it at: an inverse is fed what ``forward`` produced."""
    found = []
    asked = []
    images = batch.x
    if subject.forward is not None:
        found.append(("forward", batch.x))
        if subject.inverse is not None:
            images = np.asarray(subject.forward(batch.x, batch.context).value)
            asked.append(("inverse", subject.inverse, images))
    if subject.log_prob is not None:
        asked.append(("log_prob", subject.log_prob, batch.x if subject.normalising == "forward" else images))
    for which, ability, points in asked:
        taken, error = accepted(ability, points, batch.context)
        if taken is not None:
            found.append((which, taken))
        elif complete:
            raise Undecidable(f"{which} raises {error}")
    if not found:
        raise Unsupported("it offers no call that can be made here")
    return found


def watched(subject, batch, **manner):
    """What each call that the subject offers does besides returning, and the error of a call that was refused."""
    seen = []
    errors = []
    for which, points in probes(subject, batch, complete=False):
        observation, error = attempt(subject.observe, which, points, batch.context, **manner)
        errors += [f"{which} raised {error}"] if error else []
        seen += [] if error else [(which, observation)]
    return seen, "; ".join(errors)


class Plain:
    """Named values; what was not given is None, and nothing is promised."""

    promises = {}

    def __init__(self, **values):
        self.__dict__.update(values)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)


class Residual(Plain):
    """What was measured, a row per point: `value` should be zero; the law says nothing in rows that are `silent`."""

    def __init__(self, value, scale=1.0, **others):
        super().__init__(value=value, scale=scale, **{"allowed": 0.0, "observed": {}, **others})

    def per_row(self):
        value = np.abs(np.asarray(self.value, dtype=np.float64))
        return value.reshape(len(value), -1).max(1) if value.size else np.zeros(len(value))

    @property
    def silent(self):
        silent = np.zeros(len(self.value), dtype=bool)
        if self.decidable is not None:
            silent |= ~np.asarray(self.decidable, dtype=bool)
        return silent if self.excused is None else silent | self.excused()


def flags(bad, rows, note="", **details):
    """An exact residual: 1 where something was seen that should not be, 0 elsewhere; one flag, or one per row."""
    value = np.broadcast_to(np.asarray(bad, dtype=np.float64), (rows,))
    return Residual(value.copy(), note=note if value.any() else "", **details)


NARROW = ("float32", "float16", "bfloat16")


def per_point(ladj, batch):
    """A returned log-det as one float64 number per point: trailing axes are summed, constants are repeated."""
    array = np.asarray(ladj, dtype=np.float64)
    if array.ndim == 0 or (array.shape[0] != batch and array.size == 1):
        return np.full(batch, float(array.reshape(-1)[0]))
    if array.shape[0] != batch:
        array = np.broadcast_to(array, (batch, *array.shape))
    return np.asarray(array.reshape(batch, -1).sum(1))


def _gap(subject, batch):
    """The typical error of the round trip and of the log-det at ordinary points."""
    x = batch.x if subject.domain.bounded else np.clip(batch.x, -2.0, 2.0)
    gaps = [0.0]
    with np.errstate(all="ignore"):
        out = subject.forward(x, batch.context)
        if subject.inverse is not None:
            back = subject.inverse(out.value + 0.0, batch.context).value
            gaps.append(float(np.median(np.abs(back - x).reshape(len(x), -1).max(1))) if back.shape == x.shape else 0.0)
        if subject.jacobian is not None and out.ladj is not None:
            try:
                truth = np.linalg.slogdet(subject.jacobian("forward", x, batch.context))[1]
                gaps.append(float(np.median(np.abs(per_point(out.ladj, len(x)) - truth))))
            except (Unsupported, np.linalg.LinAlgError):
                pass
    return max(gap for gap in gaps if np.isfinite(gap))


TORN = 1e-9


def torn(subject, batch):
    """How forward and inverse, or log-det and Jacobian, part ways under the float32 default dtype and only there."""
    if subject.forward is None or subject.usual is None:
        return ""
    with subject.usual():
        usual = _gap(subject, batch)
    if usual <= TORN or (plain := _gap(subject, batch)) >= TORN / 1e3:
        return ""
    return (
        f"under the float32 default dtype forward, inverse and log-det part ways by {usual:.1e}, as with a constant rounded in "
        f"one; under the float64 default dtype by {plain:.1e}"
    )


def listed(names):
    """A few names for a sentence."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def dtype_follow(subject, batch):
    """A float64 object returns float64 values and log-dets for float64 inputs, and computes them in float64."""
    names = ("value", "log-det")
    observations, error = watched(subject, batch)
    if "dtype" in error:
        return flags(True, len(batch.x), f"under the float32 default dtype {error}")
    seen = [
        f"the {name} of {which} is {dtype}"
        for which, observation in observations
        for name, dtype in zip(names, observation.dtypes, strict=False)
        if dtype in NARROW
    ]
    # Float32 inside a float64 result is shown by disturbing what was narrowed to float32, which moves it. Constants of the
    # default dtype are another matter: where all use the same rounded constant the map is another, and a sound one.
    inside = [] if seen else [which for which, observation in observations if observation.float32]
    seen += [f"float32 arithmetic feeds the float64 result of {which}" for which in inside]
    if not seen and (apart := torn(subject, batch)):
        seen.append(apart)
    return flags(bool(seen), len(batch.x), listed(seen))


class Support:
    """The points with every coordinate in (low, high), or a subset of them."""

    def __init__(self, kind, low, high):
        self.kind, self.low, self.high = kind, low, high

    @property
    def bounded(self):
        return bool(np.isfinite(self.low) or np.isfinite(self.high))


Mapped = namedtuple("Mapped", "value ladj")


def array(value):
    """A tensor as an array; Python numbers stay what they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    return value


def mapped(which, out):
    """The outcome of a call as plain values."""
    if which == "log_prob":
        return Mapped(array(out), None)
    value, ladj = out
    return Mapped(array(value), array(ladj))


def evaluate(live, which, x, context=None):
    """Call forward, inverse or log_prob on a fresh copy."""
    speak = live.speech(which)
    with live.lend() as obj, live.calling(which):
        points = live.tensor(x)
        return mapped(which, speak(obj, points, live.tensor(context)))


JACOBIAN_ROWS = 1024
JACOBIAN_SIZE = 262144


def _graphed(
    live, obj, which, x, context
):
    """Value and log-det of a call, with the graph kept. The caller keeps ``obj`` alive: some graphs refer to it weakly."""
    out = live.speech(which)(obj, x, context)
    return (out, None) if which == "log_prob" else (out[0], out[1])


def jacobian(live, which, x, context=None):
    """d value / d input per point, ``(batch, outputs, inputs)``, by autograd."""
    batch = len(x)
    shape = live.facts.latent_shape or live.facts.event_shape
    outputs = int(np.prod(shape if which == "forward" else live.facts.event_shape))
    step = max(1, min(JACOBIAN_ROWS, JACOBIAN_SIZE // max(1, outputs)) // max(1, outputs))
    with live.lend() as obj, live.calling(f"jacobian {which}"):
        pieces = []
        clean, ctx = live.tensor(x), live.tensor(context)
        for start in range(0, batch, step):
            rows = clean[start : start + step].repeat_interleave(outputs, 0).requires_grad_(True)
            given = None if ctx is None else ctx[start : start + step].repeat_interleave(outputs, 0)
            whole = obj if not pieces else live.take()  # each chunk is a call of its own
            value, _ = _graphed(live, whole, which, rows, given)
            if not value.requires_grad:
                raise Unsupported(f"{which} records no autograd graph")
            if value.reshape(len(rows), -1).shape[1] != outputs:
                raise Undecidable(f"{which} returned {tuple(value.shape[1:])} where {tuple(shape)} was expected")
            flat = value.reshape(len(rows) // outputs, outputs, outputs)
            diagonal = torch.diagonal(flat, dim1=1, dim2=2).sum()
            (gradient,) = torch.autograd.grad(diagonal, rows, allow_unused=True)
            if gradient is None:
                gradient = torch.zeros_like(rows)
            pieces.append(array(gradient).reshape(len(rows) // outputs, outputs, -1))
        return np.concatenate(pieces) if pieces else np.zeros((0, outputs, outputs))


PROBE = 2.0**-18


@contextlib.contextmanager
def sandbox(seed, dtype=None):
    """Fixed random states and a default dtype, put back afterwards; yields what is printed."""
    before, states, printed = torch.get_default_dtype(), (np.random.get_state(), random.getstate()), io.StringIO()
    with (
        torch.random.fork_rng(devices=[]),
        torch.enable_grad(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            torch.set_default_dtype(dtype or before)
            yield printed
        finally:
            torch.set_default_dtype(before)
            np.random.set_state(states[0])
            random.setstate(states[1])


def derive(*parts):
    """A 63-bit seed from integers, the same in every process."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


class Watching(TorchDispatchMode):
    """Count the operations dispatched under it, and change nothing."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(
        self, func, types, args=(), kwargs=None
    ):
        self.operations += 1
        return func(*args, **(kwargs or {}))


def _flat(values):
    """The entries of nested lists and tuples."""
    found = []
    for value in values:
        found += _flat(value) if isinstance(value, (tuple, list)) else [value]
    return found


EXACT = frozenset(['view_copy', 'sgn', 'diagonal_copy', 'amax', 'max', 'copysign', 'diag_embed', 'index_put', 'detach_', 'frac', 'as_strided_scatter', 'detach', 'randn_like', 'unsqueeze', 'index_copy', 'pixel_shuffle', 'maximum', 'reshape', 'masked_scatter', 'new_ones', 'scalar_tensor', 'transpose', 'lift_fresh', 'squeeze_', 'empty_strided', 'argmin', 'amin', 'positive', 'lift', 'randint', 'is_same_size', 'contiguous', 'index', 'fill_', 'swapaxes', 'unfold', '_local_scalar_dense', 'zero_', 'reflection_pad2d', 'narrow', 'ones', 'pixel_unshuffle', 'diagonal_scatter', 'triu_', 'remainder', 'sign', 'fmod', 'equal', '_adaptive_avg_pool2d_copy', '_conj', 'gather', 'isinf', 'arange', 'as_strided', 'roll', 'permute', '_index_put_impl_', 'clone', 'diag', 'threshold', 'slice', 'take', 'triu_indices', 'empty_like', 'eye', 'select_scatter', 'view_as', 'neg', 'index_fill', '_to_copy', 'minimum', 'rand_like', 'round', 'sort', 'split', 'unsqueeze_', 'randn', 'alias', 'max_pool2d_with_indices', 'abs_', 'flip', 'exponential_', 'stack', 'index_select', 'slice_backward', 'scatter', 'clamp_', 'masked_fill_', 'unfold_backward', 'isnan', 'expand', 'signbit', 'linspace', 'nonzero', 'resize_', 'searchsorted', 'empty_permuted', 'full_like', 'select_backward', 'resolve_conj', 'hardtanh_backward', 'squeeze_copy', 'scatter_', 'masked_fill', 'threshold_backward', 'cummax', 'im2col', 'clamp_max', 'tril_indices', 'clamp_max_', 'index_put_', '_reshape_copy', 'random_', 'ceil', 'multinomial', 'nan_to_num', 'fill', 'normal_', 'abs', 'argmax', 'unique', 'min', 'clamp_min_', 'block_diag', 'set_', 'resolve_neg', '_reshape_alias', 'tril_', 'slice_scatter', 'uniform_', 'floor', 'median', 'broadcast_to', 'argsort', 'unbind', 'masked_select', 'bernoulli', 'repeat', 'cat', 'new_zeros', 'bernoulli_', 'copy_', 'rot90', 'cummin', 'upsample_nearest2d', 'split_with_sizes', 'fmin', 'zeros_like', 'copy', 'neg_', 'diagonal_backward', 'lift_fresh_copy', 'embedding', 'new_empty_strided', 'random', 'new_full', 'isfinite', 'rand', 'relu', 'view', 'index_fill_', 'constant_pad_nd', '_unsafe_index', 'one_hot', 'clamp', 'squeeze', 'empty', 'movedim', 'diagonal', 'tril', 'new_empty', 'zeros', 'relu_', 't', 'transpose_', 'repeat_interleave', '_unsafe_view', 'where', 'clamp_min', 'heaviside', 'to', 'bucketize', 'randperm', '_unique2', 'ones_like', 'fmax', 'pad', 'sign_', 'trunc', 'triu', 'full', 'select', 'item', 'replication_pad2d', 'topk'])


class Narrowing(Watching):
    """Disturb float32 results that come from wider values, casts included, by a relative error of up to ``magnitude``.

    Constants that were never wider are exact as far as anybody can tell, and stay as they are. ``disturbed`` counts results.
    """

    def __init__(self, magnitude, seed):
        super().__init__()
        self.magnitude = magnitude
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.disturbed = 0
        # Float32 results into which wider values went, kept alive so that their ids stay theirs.
        self.narrowed = {}

    def __torch_dispatch__(
        self, func, types, args=(), kwargs=None
    ):
        out = super().__torch_dispatch__(func, types, args, kwargs)
        given = [value for value in _flat(args) if isinstance(value, torch.Tensor) and value.is_floating_point()]
        if not any(value.dtype != torch.float32 or id(value) in self.narrowed for value in given):
            return out
        name = func.overloadpacket.__name__
        cast = name == "_to_copy" or (name == "copy_" and isinstance(out, torch.Tensor))
        results = [self._disturbed(value, cast, name in EXACT) for value in _flat((out,))]
        return type(out)(results) if isinstance(out, (tuple, list)) else results[0]

    def _disturbed(self, value, cast, exact):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or value.device.type != "cpu":
            return value
        if (cast or not exact) and value.numel():
            self.disturbed += 1
            # A cast to the dtype that a value has already gives the value itself.
            value = value.clone() if cast else value
            array = value.detach().numpy()
            array *= 1 + self.magnitude * self.generator.uniform(-1.0, 1.0, array.shape).astype(np.float32)
        self.narrowed[id(value)] = value
        return value


def _moved(clean, moved):
    if clean is None:
        return False
    first, second = np.asarray(clean), np.asarray(moved)
    if first.dtype == np.float32 or first.shape != second.shape:
        return True
    return not bool(np.array_equal(first, second, equal_nan=True))


def feeds_float32(live, which, x, context, default):
    """Whether float32 arithmetic feeds a float64 output: disturb only float32 results, and see whether the output moves."""
    speak = live.speech(which)
    outcomes = []
    for magnitude in (0.0, PROBE):
        circumstances = sandbox(derive(live.seed, 17), default)
        with live.lend() as obj, circumstances, Narrowing(magnitude, derive(live.seed, 19)) as mode:
            out = mapped(which, speak(obj, live.tensor(x), live.tensor(context)))
            if not mode.disturbed:
                return False
        outcomes.append(out)
    clean, moved = outcomes
    return _moved(clean.value, moved.value) or _moved(clean.ladj, moved.ladj)


def settings():
    """The process-wide settings that foreign code could change."""
    return {
        "torch default dtype": torch.get_default_dtype(),
        "torch gradient mode": torch.is_grad_enabled(),
        "torch threads": torch.get_num_threads(),
        "torch anomaly detection": torch.is_anomaly_enabled(),
        "torch deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "numpy error state": tuple(sorted(np.geterr().items())),
        "working directory": os.getcwd(),
        "recursion limit": sys.getrecursionlimit(),
    }


def random_state():
    """A comparable fingerprint of the global random states."""
    name, keys, *rest = np.random.get_state(legacy=True)
    return torch.get_rng_state().numpy().tobytes(), name, np.asarray(keys).tobytes(), *rest, random.getstate()


Observation = namedtuple("Observation", "printed rng globals mutated dtypes float32")


def observe_conduct(live, which, x, context=None, default="float32"):
    """What one call does besides returning, under the float32 default dtype, as users have it."""
    speak, obj = live.speech(which), live.take()
    inputs = [tensor for tensor in (live.tensor(x), live.tensor(context)) if tensor is not None]
    copies = [tensor.clone() for tensor in inputs]
    with sandbox(derive(live.seed, 17), getattr(torch, default)) as printed:
        before, states = settings(), random_state()
        out = speak(obj, *inputs, *[None] * (2 - len(inputs)))
        consumed, spoken = random_state() != states, printed.getvalue()
        changed = tuple(name for name, value in settings().items() if value != before[name])
    mutated = tuple(
        name
        for name, tensor, clean in zip(("x", "context"), inputs, copies, strict=False)
        if tensor._version > 0 or not torch.equal(torch.nan_to_num(tensor), torch.nan_to_num(clean))
    )
    results = [out] if which == "log_prob" else list(out)
    dtypes = tuple(str(v.dtype).removeprefix("torch.") if isinstance(v, torch.Tensor) else "number" for v in results)
    return Observation(spoken, consumed, changed, mutated, dtypes, False)


def observe(live, which, x, context=None, default="float32"):
    """The same, with whether float32 arithmetic feeds a float64 result."""
    narrow = live.dtype == torch.float64 and feeds_float32(live, which, x, context, getattr(torch, default))
    return observe_conduct(live, which, x, context, default)._replace(float32=narrow)


@contextlib.contextmanager
def usual(live):
    """Call the subject under the float32 default dtype, as users have it."""
    before, live.default = live.default, torch.float32
    try:
        yield
    finally:
        live.default = before


class Live:
    """The object in the recorded condition; every call is made on a fresh copy of it, under fixed random states."""

    def __init__(self, rebuild, dialect, facts, dtype, seed, fresh, resolve):
        self.rebuild, self.dialect, self.facts, self.dtype, self.seed = rebuild, dialect, facts, dtype, seed
        self.fresh, self.resolve = fresh, resolve
        self.default, self.pristine = None, rebuild()

    def take(self):
        try:
            return deepcopy(self.pristine)
        except Exception:
            return self.rebuild()

    @contextlib.contextmanager
    def lend(self):
        yield self.take()

    def speech(self, which):
        speak = getattr(self.dialect, which)
        if speak is None:
            raise Unsupported(f"it offers no {which}")
        return speak

    def tensor(self, array, dtype=None):
        if array is None:
            return None
        return torch.from_numpy(np.array(array, dtype=np.float64, order="C", copy=True)).to(dtype or self.dtype)

    @contextlib.contextmanager
    def calling(self, what, dtype=None):
        with sandbox(derive(self.seed, 17), self.default or dtype or self.dtype):
            yield


def forward(obj, z, context=None):
    """Call a flow, from the latent side to the data side."""
    return obj.forward(z) if context is None else obj.forward(z, context)


def inverse(obj, x, context=None):
    """Call a flow's inverse, from data to latents."""
    return obj.inverse(x) if context is None else obj.inverse(x, context)


def make(features=4):
    return of.Permute(features, 'swap')


def cast(obj, dtype):
    """Cast parameters and buffers."""
    return obj.to(dtype)


def set_mode(obj, training):
    """Put the object into train or eval mode."""
    obj.train(training)


def draw(support, shape, rng):
    """Ordinary points of the real line."""
    return rng.standard_normal(shape)


WARM_SIZE = 256
WARM_BATCH = 16


def warm(obj, speak, support, shape, context_shape, dtype, seed):
    """Batches in train mode, so that first-call and running state are what they are in use."""
    set_mode(obj, True)
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    large = np.prod(shape) >= WARM_SIZE
    rows, times = (2, 1) if large else (WARM_BATCH, 2)
    for _ in range(times):
        x = torch.from_numpy(draw(support, (rows, *shape), rng)).to(dtype)
        context = None
        if context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((rows, *context_shape))).to(dtype)
        with contextlib.suppress(Exception), torch.set_grad_enabled(not large):  # a train-mode pass may be refused
            speak(obj, x, context)


Batch = namedtuple("Batch", "x context seed")


# What is measured: the object in the condition that was recorded, and the points.

X = np.array([[0.0, -0.08303141503038838, 0.0, 0.0]])
CONTEXT = None
SEED = 1
DTYPE = torch.float64
OBJECT_SEED = 0
ALLOWED = 0.0  # how far off rounding (or the law itself) lets the residual be
ROW = 0


def build():
    """The object after two train-mode batches, in eval mode."""
    with sandbox(derive(OBJECT_SEED, 3), DTYPE):
        obj = cast(make(), DTYPE)
        warm(obj, inverse, None, (4,), None, DTYPE, OBJECT_SEED)
        set_mode(obj, False)
        return obj


def main():
    live = Live(
        build,
        Plain(forward=forward, inverse=inverse, normalising='inverse'),
        Plain(event_shape=(4,), latent_shape=(4,)),
        DTYPE,
        OBJECT_SEED,
        build,
        None,
    )
    subject = Plain(
        domain=Support('real', float("-inf"), float("inf")),
        forward=partial(evaluate, live, 'forward'),
        inverse=partial(evaluate, live, 'inverse'),
        jacobian=partial(jacobian, live),
        normalising='inverse',
        observe=partial(observe, live),
        usual=partial(usual, live),
    )
    print(
        "hygiene/dtype-follow: A float64 object returns float64 values and log-dets for float64 "
        "inputs, and computes them in float64."
    )
    print("target: normflows:Permute[swap], weights as given, float64")
    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")
    try:
        with np.errstate(all="ignore"):
            residual = dtype_follow(subject, Batch(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))
    except (Unsupported, Undecidable) as reason:
        print(f"NOT MEASURED: {reason}")
        return 2
    except Exception as error:
        traceback.print_exc()
        print(f"RAISED {type(error).__name__}: {error}")
        return 1
    for name, values in residual.observed.items():
        print(f"{name}: {np.asarray(values)[ROW].tolist()}")
    if residual.note:
        print("note:", residual.note)
    off = float(residual.per_row()[ROW])
    allowed = ALLOWED
    print(f"off by {off!r}, allowed {allowed!r}")
    if residual.silent[ROW]:
        print("NOT MEASURED: the law says nothing at this point")
        return 2
    if not off <= allowed:
        print(f"VIOLATED hygiene/dtype-follow: off by {off:.6g}, allowed {allowed:.6g}")
        return 1
    print("the law holds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())

