"""The law bijection/log-det does not hold in FrEIA:AllInOneBlock{'permute_soft': True}.

The law: The log-det returned by forward is log|det ∂f / ∂x|, as autograd and differences measure it.
Source: change of variables; Rezende and Mohamed, Variational Inference with Normalizing Flows (arXiv:1505.05770)

Recorded with weights as given, float64.

Seen: at the weights as given
  reported: 0.1975744355441535
  autograd: 0.1975744650667037
  differences: 0.19757446506692378
  differences' error: 1.8561987823576666e-10
  disagrees: 'reported'
  off by 2.95226e-08, allowed 3.81652e-14

With Python 3.11.7, FrEIA 0.2, torch 2.13.0+cpu, numpy 2.4.6.

Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing
can be said. It needs the audited code, torch and numpy, and was written by flowref.
"""

from __future__ import annotations

import FrEIA.modules as fm
import contextlib
import functools
import hashlib
import io
import numpy as np
import random
import sys
import torch
import traceback
import warnings
from collections import namedtuple
from copy import deepcopy
from functools import partial

# How the law is measured: flowref's code, as far as it is needed here.

class Unsupported(Exception):
    """The object cannot do what is asked of it, so that the law says nothing."""


def per_point(ladj, batch):
    """A returned log-det as one float64 number per point: trailing axes are summed, constants are repeated."""
    array = np.asarray(ladj, dtype=np.float64)
    if array.ndim == 0 or (array.shape[0] != batch and array.size == 1):
        return np.full(batch, float(array.reshape(-1)[0]))
    if array.shape[0] != batch:
        array = np.broadcast_to(array, (batch, *array.shape))
    return np.asarray(array.reshape(batch, -1).sum(1))


def reported(subject, out, batch):
    """The log-det that a call returned, one number per point, as the log-det of the call itself."""
    if out.ladj is None:
        raise Unsupported("it returns no log-det")
    sign = -1.0 if subject.promises.get("ladj") == "inverse" else 1.0
    return sign * per_point(out.ladj, batch)


def square(jacobian):
    """A Jacobian as extended-precision square matrices."""
    if jacobian.shape[1] != jacobian.shape[2]:
        raise Unsupported("its Jacobian is not square")
    return jacobian.astype(np.longdouble)


EXTENDED_SIZE = 96


def log_abs_det(jacobian):
    """log|det| of each matrix, ``(batch,)``: Gaussian elimination with complete pivoting in extended precision."""
    count, size = jacobian.shape[0], jacobian.shape[1]
    if size > EXTENDED_SIZE:
        return np.asarray(np.linalg.slogdet(jacobian.astype(np.float64))[1])
    work = square(jacobian)
    broken = ~np.isfinite(work).all((1, 2))
    work[broken] = np.eye(size)
    total = np.zeros(count, dtype=np.longdouble)
    every = np.arange(count)
    for step in range(size):
        block = np.abs(work[:, step:, step:]).reshape(count, -1)
        place = block.argmax(1)
        row, column = step + place // (size - step), step + place % (size - step)
        work[every, step], work[every, row] = work[every, row].copy(), work[every, step].copy()
        work[every, :, step], work[every, :, column] = work[every, :, column].copy(), work[every, :, step].copy()
        pivot = work[:, step, step].copy()
        total += np.log(np.abs(pivot))
        if step + 1 < size:
            safe = np.where(pivot == 0, 1, pivot)
            factor = work[:, step + 1 :, step] / safe[:, None]
            work[:, step + 1 :, step + 1 :] -= factor[:, :, None] * work[:, None, step, step + 1 :]
    total[broken] = np.nan
    return total.astype(np.float64)


def finite_rows(*values):
    """Where every entry of a point is finite in all the given arrays, ``(batch,)``."""
    every = [np.isfinite(np.asarray(v, float).reshape(len(v), -1)).all(1) for v in values]
    return np.asarray(np.logical_and.reduce(every))


TINY = 1e-280


def resolvable(jacobian, log_det):
    """Where a log-det can be compared: a finite, regular Jacobian with no entry near the subnormal range, ``(batch,)``."""
    size = np.abs(jacobian.reshape(len(jacobian), -1))
    smallest = np.where(size > 0, size, np.inf).min(1)
    with np.errstate(all="ignore"):
        cancelled = np.log(np.abs(jacobian).max(2)).sum(1) - log_det
    return np.asarray(np.isfinite(log_det) & (smallest > TINY) & (cancelled < 24.0))


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


def compared(subject, which, x, context):
    """Reported minus autograd's log|det J| of one call."""
    call = getattr(subject, which)
    out = call(x, context)
    claimed = reported(subject, out, len(x))
    matrices = subject.jacobian(which, x, context)
    square(matrices[:0])
    truth = log_abs_det(matrices)
    decidable = finite_rows(out.value) & resolvable(matrices, truth)
    return Residual(
        np.where(decidable, claimed - np.where(decidable, truth, 0.0), 0.0),
        scale=4 + np.where(np.isfinite(truth), np.abs(truth), 0.0),
        decidable=decidable,
        observed={"reported": claimed, "autograd": truth},
    )


def log_det(subject, batch):
    r"""The log-det returned by forward is $\log|\det \partial f / \partial x|$, as autograd and differences measure it."""
    return compared(subject, "forward", batch.x, batch.context)


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


class Undecidable(Exception):
    """What was measured cannot be judged."""


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
    conditions = {} if context is None else {"c": [context]}
    y, ladj = obj([x], rev=False, jac=True, **conditions)
    return y if hasattr(y, "shape") else y[0], ladj


def inverse(obj, y, context=None):
    conditions = {} if context is None else {"c": [context]}
    x, ladj = obj([y], rev=True, jac=True, **conditions)
    return x if hasattr(x, "shape") else x[0], ladj


def dense(hidden):
    """The constructor of a subnetwork with one hidden layer."""
    from torch import nn

    return lambda inputs, outputs: nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def make_2(features=4, hidden=16):
    return fm.AllInOneBlock([(features,)], subnet_constructor=dense(hidden), permute_soft=True)


@functools.wraps(make_2)
def make(**options):
    import numpy as np

    state = np.random.get_state()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return make_2(**options)
    finally:
        np.random.set_state(state)


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

X = np.array([[1.8009840650098639, 0.0, 0.0, 0.0]])
CONTEXT = None
SEED = 1
DTYPE = torch.float64
OBJECT_SEED = 0
# Rounding explains 3.82e-14 of the 2.95e-08 that were seen. How it acts on mended code is not
# measured here, so that a 32nd of what was seen counts as mended.
ALLOWED = 9.225796940640074e-10
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
        Plain(forward=forward, inverse=inverse),
        Plain(event_shape=(4,), latent_shape=(4,)),
        DTYPE,
        OBJECT_SEED,
        build,
        None,
    )
    subject = Plain(forward=partial(evaluate, live, 'forward'), jacobian=partial(jacobian, live), promises={})
    print(
        "bijection/log-det: The log-det returned by forward is log|det ∂f / ∂x|, as autograd and "
        "differences measure it."
    )
    print("target: FrEIA:AllInOneBlock{'permute_soft': True}, weights as given, float64")
    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")
    try:
        with np.errstate(all="ignore"):
            residual = log_det(subject, Batch(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))
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
        print(f"VIOLATED bijection/log-det: off by {off:.6g}, allowed {allowed:.6g}")
        return 1
    print("the law holds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())

