"""The law hygiene/input-not-mutated does not hold in normflows:transforms.Shift.

The law: No call writes to its input or to its context.
Source: a caller's tensor is the caller's; masks applied in place spoil the point that a density is asked about

Recorded with weights as given, float64.

Seen: it wrote to x (by forward), x (by inverse); at the weights as given
  off by 1, allowed 0

With Python 3.11.7, normflows 1.7.3, torch 2.13.0+cpu, numpy 2.4.6.

Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing
can be said. It needs the audited code, torch and numpy, and was written by flowref.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import normflows as nf
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


def conduct(subject, batch):
    """The observations alone; a subject that refuses to be watched is not judged by its conduct."""
    seen, error = watched(subject, batch)
    if not seen:
        raise Unsupported(f"it cannot be watched ({error})")
    return seen


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


def listed(names):
    """A few names for a sentence."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def input_not_mutated(subject, batch):
    """No call writes to its input or to its context."""
    seen = [f"{name} (by {which})" for which, seen in conduct(subject, batch) for name in seen.mutated]
    return flags(bool(seen), len(batch.x), f"it wrote to {listed(seen)}")


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


def observe(live, which, x, context=None, default="float32"):
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


def forward(obj, z, context=None):
    """Call a flow, from the latent side to the data side."""
    return obj.forward(z) if context is None else obj.forward(z, context)


def inverse(obj, x, context=None):
    """Call a flow's inverse, from data to latents."""
    return obj.inverse(x) if context is None else obj.inverse(x, context)


def make(features=4, shift=-0.5):
    return nf.transforms.Shift(shift)


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
        forward=partial(evaluate, live, 'forward'),
        inverse=partial(evaluate, live, 'inverse'),
        normalising='inverse',
        observe=partial(observe, live),
    )
    print("hygiene/input-not-mutated: No call writes to its input or to its context.")
    print("target: normflows:transforms.Shift, weights as given, float64")
    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")
    try:
        with np.errstate(all="ignore"):
            residual = input_not_mutated(subject, Batch(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))
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
        print(f"VIOLATED hygiene/input-not-mutated: off by {off:.6g}, allowed {allowed:.6g}")
        return 1
    print("the law holds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())

