"""The law hygiene/dtype-follow does not hold in nflows:LULinear[cache].

The law: A float64 object returns float64 values and log-dets for float64 inputs, and computes them in float64.
Source: constants and zeros made in the default dtype round a float64 computation to float32

Recorded with weights as given, float64.

Seen: under the float32 default dtype inverse raised RuntimeError: Expected b and A to have the same dtype, but
found b of type Float and A of type Double instead.; at the weights as given
  off by 1, allowed 0

With Python 3.11.7, nflows 0.14, torch 2.13.0+cpu, numpy 2.4.6.

Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing
can be said. It needs the audited code, torch and numpy, and was written by flowref.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import math
import nflows.transforms as of
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

def data(subject, batch):
    """Points on the data side, which densities and training steps take."""
    if subject.forward is None or subject.normalising == "forward" or subject.inverse is None:
        return batch.x
    return np.asarray(subject.forward(batch.x, batch.context).value)


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
    if subject.forward is not None:
        found.append(("forward", batch.x))
        if subject.inverse is not None:
            latents = np.asarray(subject.forward(batch.x, batch.context).value)
            asked.append(("inverse", subject.inverse, latents))
    if subject.log_prob is not None:
        asked.append(("log_prob", subject.log_prob, data(subject, batch)))
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


TORN = 1e-10


def torn(subject, batch):
    """How forward and inverse, or log-det and Jacobian, part ways under the float32 default dtype and only there."""
    if subject.forward is None or subject.usual is None:
        return ""
    with subject.usual():
        usual = _gap(subject, batch)
    if usual <= TORN or (plain := _gap(subject, batch)) >= TORN / 100:
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
    with live.calling(which):
        points = live.tensor(x)
        return mapped(which, speak(live.take(), points, live.tensor(context)))


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
    with live.calling(f"jacobian {which}"):
        pieces = []
        clean, ctx = live.tensor(x), live.tensor(context)
        for start in range(0, batch, step):
            rows = clean[start : start + step].repeat_interleave(outputs, 0).requires_grad_(True)
            given = None if ctx is None else ctx[start : start + step].repeat_interleave(outputs, 0)
            obj = live.take()
            value, _ = _graphed(live, obj, which, rows, given)
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


FLOATS = (torch.float64, torch.float32)
BLOCK = 2048
EXACT = frozenset(
    """
    _adaptive_avg_pool2d_copy _conj _local_scalar_dense _reshape_alias _reshape_copy _to_copy _unsafe_index
    _unsafe_view abs alias amax amin arange argmax argmin argsort as_strided as_strided_scatter bernoulli bernoulli_
    block_diag broadcast_to bucketize cat ceil clamp clamp_max clamp_min clone constant_pad_nd contiguous copy copy_
    copysign cummax cummin detach detach_ diag diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter
    embedding empty empty_like empty_permuted empty_strided equal expand eye fill fill_ flip floor fmax fmin fmod frac
    full full_like gather heaviside index index_copy index_fill index_put index_put_ _index_put_impl_ index_select
    isfinite isinf isnan item lift lift_fresh lift_fresh_copy linspace masked_fill masked_fill_
    masked_scatter masked_select max maximum median min minimum movedim multinomial nan_to_num narrow neg
    new_empty new_empty_strided new_full new_ones new_zeros nonzero normal_ one_hot ones ones_like permute pixel_shuffle
    pixel_unshuffle positive rand rand_like randint randn randn_like randperm relu relu_ remainder repeat
    repeat_interleave reshape resize_ roll rot90 round scalar_tensor scatter scatter_ searchsorted select
    select_backward select_scatter set_ sgn sign signbit slice slice_backward slice_scatter sort split
    split_with_sizes squeeze squeeze_ squeeze_copy stack swapaxes t take to topk transpose transpose_ tril tril_indices
    triu triu_indices trunc unbind unfold unfold_backward uniform_ unsqueeze unsqueeze_ view view_as view_copy where
    zero_ zeros zeros_like threshold threshold_backward hardtanh_backward clamp_ clamp_min_ clamp_max_ tril_ triu_ neg_
    abs_ sign_ index_fill_ exponential_ random_ random resolve_conj resolve_neg im2col pad reflection_pad2d
    replication_pad2d max_pool2d_with_indices upsample_nearest2d unique _unique2 is_same_size
    """.split()
)


@functools.cache
def _views(func):
    """Whether an operator gives back an argument's memory without writing to it."""
    return any(given.alias_info is not None and not given.alias_info.is_write for given in func._schema.returns)


INSIDE = frozenset(
    """
    sum mean mm bmm addmm baddbmm addmv mv dot vdot cumsum cumprod logcumsumexp prod var std var_mean std_mean norm
    linalg_vector_norm logsumexp native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    cudnn_batch_norm native_batch_norm_backward native_layer_norm native_layer_norm_backward native_group_norm
    convolution convolution_backward mkldnn_convolution einsum cdist _cdist_forward index_add scatter_add
    scatter_add_ polyval trace avg_pool2d _softmax _log_softmax
    """.split()
)
NORMWISE = frozenset(
    """
    linalg_lu_factor_ex linalg_lu linalg_inv_ex linalg_solve_triangular triangular_solve _linalg_solve_ex
    linalg_solve_ex _linalg_slogdet _linalg_det linalg_lu_solve linalg_householder_product linalg_qr _linalg_svd
    linalg_matrix_exp linalg_cholesky_ex cholesky_inverse cholesky_solve _linalg_eigh linalg_eig linalg_ldl_factor_ex
    lu_unpack _fft_r2c _fft_c2r _fft_c2c
    """.split()
)


def _flat(values):
    """The entries of nested lists and tuples."""
    found = []
    for value in values:
        found += _flat(value) if isinstance(value, (tuple, list)) else [value]
    return found


def _array(value):
    """The memory of a tensor as an array: on small tensors numpy is several times faster."""
    return (value.detach() if value.requires_grad else value).numpy()


NORMWISE_CONSTANT = 8.0
SPECIAL = frozenset("erfinv lgamma digamma polygamma special_ndtri special_log_ndtr igamma igammac i0 i1 erfc".split())
SPECIAL_CONSTANT = 8.0
SUMS = frozenset({"add", "sub", "rsub", "add_", "sub_"})


def _operand(value):
    """A number or a tensor as an array."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(float(value))
    return _array(value) if value.device.type == "cpu" and value.dtype != torch.bfloat16 else np.asarray(value.tolist())


PRODUCTS = frozenset({"mul", "mul_"})


def _power_of_two(value):
    """Where an entry is a power of two (or 0, which a product keeps as exactly)."""
    if value.dtype == np.float64:
        return value.view(np.int64) & 0xFFFFFFFFFFFFF == 0
    if value.dtype == np.float32:
        return value.view(np.int32) & 0x7FFFFF == 0
    return np.zeros((), dtype=bool)


QUOTIENTS = frozenset({"div", "div_"})


def _exact(name, args, out):
    """Where the operation has no rounding error at all; None if nowhere."""
    if name in SUMS and len(args) >= 2:
        first, second = _operand(args[0]), _operand(args[1])
        whole = (np.trunc(first) == first) & (np.trunc(second) == second) & (np.abs(out) < 2.0**24)
        return (first == 0) | (second == 0) | whole
    if name in PRODUCTS and len(args) >= 2:
        return _power_of_two(_operand(args[0])) | _power_of_two(_operand(args[1]))
    if name in QUOTIENTS and len(args) >= 2:
        return _power_of_two(_operand(args[1]))
    if name == "sum" and isinstance(args[0], torch.Tensor) and args[0].numel() and args[0].shape == out.shape:
        return np.ones(out.shape, dtype=bool)
    return None


BOUNDED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0)}


class RandomRounding(TorchDispatchMode):
    """Randomly round every floating-point operation dispatched under it.

    ``magnitude``: half-width of the relative error. ``only``: restrict the noise to results of one dtype. ``budget``: the
    number of operations after which `Undecidable` is raised (an iteration that does not settle under noise).
    ``operations`` counts what was dispatched, ``rounded`` what was noised.
    """

    def __init__(
        self, magnitude, seed, *, only=None, budget=None
    ):
        super().__init__()
        self.magnitude = magnitude
        self.only = only
        self.budget = budget
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.pool = np.empty(0)
        self.operations = 0
        self.rounded = 0
        # With ``only``: results of that dtype into which values of another floating dtype were narrowed, kept alive so that
        # their ids stay theirs. Constants that were never wider are exact as far as anybody can tell.
        self.narrowed = {}

    def concerns(self, value):
        """Whether a value is a floating tensor that this mode rounds."""
        return (
            isinstance(value, torch.Tensor)
            and value.dtype in FLOATS
            and (self.only is None or value.dtype == self.only)
            and value.numel() > 0
            and value.device.type == "cpu"
        )

    def uniform(self, like):
        """Uniform in [-1, 1], of the shape and dtype of an array; drawn in blocks, since most tensors are small."""
        size = math.prod(like.shape)
        if size > len(self.pool):
            self.pool = self.generator.random(max(size, BLOCK)) * 2 - 1
        drawn, self.pool = self.pool[:size], self.pool[size:]
        return drawn.reshape(like.shape).astype(like.dtype, copy=False)

    def __torch_dispatch__(
        self, func, types, args=(), kwargs=None
    ):
        self.operations += 1
        if self.budget is not None and self.operations > self.budget:
            raise Undecidable("an iteration did not settle under random rounding")
        name = func.overloadpacket.__name__
        if self.only is not None and self.magnitude:
            return self._narrowing(func, name, args, kwargs)
        if name in EXACT or self.magnitude == 0 or _views(func):
            return func(*args, **(kwargs or {}))
        if name in INSIDE:
            args = tuple(self._rounded_input(value) for value in args)
        elif name in NORMWISE:
            args = tuple(self._normwise(value) for value in args)
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            return self._rounded(name, args, out)
        if isinstance(out, (tuple, list)):
            return type(out)(self._rounded(name, args, value) for value in out)
        return out

    def _narrowing(self, func, name, args, kwargs):
        """Disturb the results of the one dtype that come from wider values, casts included."""
        given = [value for value in _flat(args) if isinstance(value, torch.Tensor) and value.is_floating_point()]
        wider = any(value.dtype != self.only or id(value) in self.narrowed for value in given)
        out = func(*args, **(kwargs or {}))
        if not wider:
            return out
        cast = name == "_to_copy" or (name == "copy_" and isinstance(out, torch.Tensor))
        results = []
        for value in _flat((out,)):
            if not self.concerns(value):
                results.append(value)
                continue
            if name not in EXACT or cast:
                self.rounded += 1
                if cast:
                    value = value.clone()  # a cast to the dtype that a value has already gives the value itself
                array = _array(value)
                array *= 1 + self.magnitude * self.uniform(array)
            self.narrowed[id(value)] = value
            results.append(value)
        return type(out)(results) if isinstance(out, (tuple, list)) else results[0]

    def _rounded_input(self, value):
        if not self.concerns(value):
            return value
        array = _array(value)
        return torch.from_numpy(array * (1 + self.magnitude * self.uniform(array)))

    def _normwise(self, value):
        if not self.concerns(value) or value.dim() < 2:
            return value
        array = _array(value)
        largest = np.abs(array).max(axis=(-2, -1), keepdims=True)
        return torch.from_numpy(array + NORMWISE_CONSTANT * self.magnitude * largest * self.uniform(array))

    def _rounded(self, name, args, out):
        """A result with its error. What is not exact writes to memory of its own, so the error is put in there."""
        if not self.concerns(out):
            return out
        self.rounded += 1
        array = _array(out)
        factor = self.uniform(array)
        factor = 1 + (self.magnitude * SPECIAL_CONSTANT if name in SPECIAL else self.magnitude) * factor
        # inf times a factor is inf, nan stays nan: noise never makes a finite value of either.
        exact = _exact(name, args, array)
        if exact is None:
            array *= factor
        else:
            np.multiply(array, factor, out=array, where=~exact)
        if name in ("softplus", "softplus_backward"):
            self._softplus(name, args, array)
        if name in ("_log_softmax", "log_sigmoid_forward"):
            array += self.magnitude * self.uniform(array)
        if name in BOUNDED:
            np.clip(array, *BOUNDED[name], out=array)
        return out

    def _softplus(self, name, args, array):
        # torch documents that softplus is replaced by the identity where beta * x > threshold: an error of e^-threshold
        # that no rounding explains. It is the same in every run, so it enters in full and not as a multiple of the noise.
        at = 0 if name == "softplus" else 1
        beta = float(args[at + 1]) if len(args) > at + 1 else 1.0
        threshold = float(args[at + 2]) if len(args) > at + 2 else 20.0
        unit = 2.0**-53 if array.dtype == np.float64 else 2.0**-24
        unsure = np.abs(self.uniform(array)) * (math.exp(-threshold) * self.magnitude / unit)
        linear = _array(args[at]) * beta > threshold
        array[...] = np.where(linear, array + unsure / beta if name == "softplus" else array * (1 - unsure), array)


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
        with (
            sandbox(derive(live.seed, 17), default),
            RandomRounding(magnitude, derive(live.seed, 19), only=torch.float32) as mode,
        ):
            out = mapped(which, speak(live.take(), live.tensor(x), live.tensor(context)))
            if not mode.rounded and magnitude:
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
    return torch.get_rng_state().numpy().tobytes(), str(np.random.get_state()), random.getstate()


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


def forward(obj, x, context=None):
    """Call a transform."""
    return obj(x, context)


def inverse(obj, y, context=None):
    """Call a transform backwards."""
    return obj.inverse(y, context)


def make(features=4):
    return of.LULinear(features, using_cache=True)


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
    """Two batches in train mode, so that first-call and running state are what they are in use."""
    set_mode(obj, True)
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    rows = WARM_BATCH if np.prod(shape) < WARM_SIZE else 2
    for _ in range(2):
        x = torch.from_numpy(draw(support, (rows, *shape), rng)).to(dtype)
        context = None
        if context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((rows, *context_shape))).to(dtype)
        with contextlib.suppress(Exception):  # a train-mode pass may be refused
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
        warm(obj, forward, None, (4,), None, DTYPE, OBJECT_SEED)
        set_mode(obj, False)
        return obj


def main():
    live = Live(
        build,
        Plain(forward=forward, inverse=inverse, normalising='forward'),
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
        normalising='forward',
        observe=partial(observe, live),
        usual=partial(usual, live),
    )
    print(
        "hygiene/dtype-follow: A float64 object returns float64 values and log-dets for float64 "
        "inputs, and computes them in float64."
    )
    print("target: nflows:LULinear[cache], weights as given, float64")
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

