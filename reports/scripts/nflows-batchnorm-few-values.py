"""The law normalisation/single-value-keeps-statistics does not hold in nflows:BatchNorm.

The law: A train-mode batch of one value per channel raises an error or leaves the running statistics finite.
Source: the unbiased variance of one value is 0/0

Recorded with weights as given, float64.

Seen: after one value per channel it holds nan or inf in its running var; at the weights as given
  off by 1, allowed 0

With Python 3.11.7, nflows 0.14, torch 2.13.0+cpu, numpy 2.4.6.

Run it with Python: it exits with 1 as long as the law is violated, with 0 once it holds, and with 2 where nothing
can be said. It needs the audited code, torch and numpy, and was written by flowref.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import nflows.transforms as of
import numpy as np
import random
import sys
import torch
import traceback
import warnings
from collections import namedtuple
from copy import deepcopy
from functools import partial
from typing import NamedTuple

# How the law is measured: flowref's code, as far as it is needed here.

def channels(subject):
    """The number of channels: the first axis of an event."""
    return int(subject.event_shape[0])


def single(x):
    """The nearest values that float32 holds, so that a batch is the same in either precision."""
    return np.asarray(x, dtype=np.float64).astype(np.float32).astype(np.float64)


def one_value(subject, seed):
    """A batch of one sample with one position."""
    shape = (1, channels(subject), *[1] * (len(subject.event_shape) - 1))
    return single(np.random.default_rng(seed).standard_normal(shape))


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


def play(subject, steps):
    """Play a scenario."""
    return subject.play(steps)


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


STATISTICS = ("running_mean", "running_var")


def spoilt(before, after):
    """The running statistics that hold what is not finite, and did not before."""
    found = []
    for name in STATISTICS:
        old, new = getattr(before, name), getattr(after, name)
        if new is not None and old is not None and np.isfinite(old).all() and not np.isfinite(new).all():
            found.append(name.replace("_", " "))
    return found


class Held(NamedTuple):
    """What a batch normaliser holds; None for what nothing plays."""

    weight: Array | None
    bias: Array | None
    running_mean: Array | None
    running_var: Array | None
    num_batches: float | None
    eps: float | None
    momentum: float | None


def held(roles):
    """The outcome of a step "roles", with tensors flattened to one number per channel."""
    tensors = [roles.get(role) for role in ("weight", "bias", "running_mean", "running_var")]
    numbers = [roles.get(role) for role in ("num_batches", "eps", "momentum")]
    flat = [None if t is None else np.asarray(t, dtype=np.float64).reshape(-1) for t in tensors]
    single = [None if n is None else float(np.asarray(n).reshape(-1)[0]) for n in numbers]
    return Held(flat[0], flat[1], flat[2], flat[3], single[0], single[1], single[2])


def listed(names):
    """A few names for a sentence."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def single_value_keeps_statistics(subject, batch):
    """A train-mode batch of one value per channel raises an error or leaves the running statistics finite."""
    steps = [("roles",), ("train",), ("normalise", one_value(subject, batch.seed)), ("roles",)]
    played, error = attempt(play, subject, steps)
    if error:
        return flags(False, 1)
    bad = spoilt(held(played[0]), held(played[3]))
    return flags(bool(bad), 1, f"after one value per channel it holds nan or inf in its {listed(bad)}")


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


def modules(obj):
    """The modules of an object, of which it is one."""
    return [obj]


def set_mode(obj, training):
    """Put the object into train or eval mode."""
    obj.train(training)


def _plain(obj, speak, x, context):
    return speak(obj, x, context)


def _train(obj, speak, x, context):
    set_mode(obj, True)
    return speak(obj, x, context)


MANNERS = {'plain': _plain, 'train': _train}
ROLES = ('weight', 'bias', 'running_mean', 'running_var', 'num_batches', 'eps', 'momentum')


class Stage:
    """The object on which a scenario is played, and how each step acts on it."""

    def __init__(self, live, fresh):
        self.live = live
        self.obj = live.fresh() if fresh else live.take()
        self.dtype = live.dtype

    def whole(self):
        """The object's modules; a scenario of modes needs one."""
        found = modules(self.obj)
        if not found:
            raise Unsupported("it holds no modules")
        return found

    def train(self):
        return self._mode(True)

    def eval(self):
        return self._mode(False)

    def _mode(self, training):
        returned, recursed, raised = True, True, ""
        for module in self.whole():
            try:
                answer = module.train() if training else module.eval()
            except TypeError as error:
                if all(callable(inner.train) for inner in module.modules()):
                    raise
                # A flag hides the method. The rest of the scenario is judged in the mode that was asked for.
                answer, raised = None, f"TypeError: {error}"
                set_mode(module, training)
            returned &= answer is module
            recursed &= all(inner.training is training for inner in module.modules())
        return {"returned_self": returned, "recursed": recursed, "raised": raised}

    def call(self, which, x, context=None, how="plain"):
        speak = self.live.speech(which)
        points, given = self.live.tensor(x, self.dtype), self.live.tensor(context, self.dtype)
        return mapped(which, MANNERS[how](self.obj, speak, points, given))

    def roles(self):
        return {role: self._role(role) for role in ROLES}

    def _role(self, role):
        owner, name = self._place(role)
        value = None if owner is None else getattr(owner, name)
        return array(value) if isinstance(value, torch.Tensor) else value

    def _place(self, role):
        """The object and the attribute that play a role; None where nothing does."""
        path = (self._normaliser().roles.get(role) or "").split(".")
        owner = self.obj
        for step in path[:-1]:
            owner = getattr(owner, step)
        return (owner, path[-1]) if path[-1] else (None, "")

    def _normaliser(self):
        found = self.live.facts.normaliser
        if found is None:
            raise Unsupported("it is no batch normaliser")
        return found

    def normalise(self, x, how="plain"):
        return self.call(self._normaliser().call, x, None, how).value

  # it was saved a line above, by this process


def derive(*parts):
    """A 63-bit seed from integers, the same in every process."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def _kind(steps, place):
    """How many steps of the same name came before: what keys a step's random state."""
    return sum(1 for step in steps[:place] if step[0] == steps[place][0])


def play_2(live, steps, fresh=False):
    """Play the steps in order on one private copy (``fresh``: on the object as built, before any history)."""
    stage = Stage(live, fresh)
    outcomes = []
    with live.calling("play"):
        for place, (name, *arguments) in enumerate(steps):
            action = getattr(stage, name)
            # Each step has its own fixed random state, so that two scenarios that differ earlier meet the same draws.
            torch.manual_seed(derive(live.seed, 29, _kind(steps, place)))
            np.random.seed(derive(live.seed, 31, _kind(steps, place)) % 2**32)
            outcomes.append(action(*arguments))
    return outcomes


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


def make(features=4):
    return of.BatchNorm(features)


def cast(obj, dtype):
    """Cast parameters and buffers."""
    return obj.to(dtype)


def draw(support, shape, rng):
    """Ordinary points of the real line."""
    return rng.standard_normal(shape)


WARM_SIZE = 256
WARM_BATCH = 16


def warm(obj, speak, support, shape, context_shape, dtype, seed):
    """Two batches in train mode, so that first-call and running state are what they are in use."""
    set_mode(obj, True)
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    large = np.prod(shape) >= WARM_SIZE
    rows = 2 if large else WARM_BATCH
    for _ in range(2):
        x = torch.from_numpy(draw(support, (rows, *shape), rng)).to(dtype)
        context = None
        if context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((rows, *context_shape))).to(dtype)
        with contextlib.suppress(Exception), torch.set_grad_enabled(not large):  # a train-mode pass may be refused
            speak(obj, x, context)


Batch = namedtuple("Batch", "x context seed")


# What is measured: the object in the condition that was recorded, and the points.

X = np.array([[0.0, 0.0, 0.0, -154.6797335592374]])
CONTEXT = None
SEED = 1
DTYPE = torch.float64
OBJECT_SEED = 0
ALLOWED = 0.0  # how far off rounding (or the law itself) lets the residual be
ROW = 0


def fresh():
    """The object as it is built, in eval mode."""
    with sandbox(derive(OBJECT_SEED, 3), DTYPE):
        obj = cast(make(), DTYPE)
        set_mode(obj, False)
        return obj


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
        Plain(forward=forward),
        Plain(event_shape=(4,), latent_shape=(4,), normaliser=Plain(call='forward', roles={'weight': 'weight', 'bias': 'bias', 'running_mean': 'running_mean', 'running_var': 'running_var', 'eps': 'eps', 'momentum': 'momentum'}, statistics='batch', declared={})),
        DTYPE,
        OBJECT_SEED,
        fresh,
        None,
    )
    subject = Plain(event_shape=(4,), forward=partial(evaluate, live, 'forward'), play=partial(play_2, live))
    print(
        "normalisation/single-value-keeps-statistics: A train-mode batch of one value per channel "
        "raises an error or leaves the running statistics finite."
    )
    print("target: nflows:BatchNorm, weights as given, float64")
    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")
    try:
        with np.errstate(all="ignore"):
            residual = single_value_keeps_statistics(subject, Batch(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))
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
        print(f"VIOLATED normalisation/single-value-keeps-statistics: off by {off:.6g}, allowed {allowed:.6g}")
        return 1
    print("the law holds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())

