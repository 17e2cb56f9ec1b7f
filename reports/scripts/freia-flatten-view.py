"""The law hygiene/strides-accepted does not hold in FrEIA:Flatten.

The law: An input that is not contiguous is not refused for that.
Source: Tensor.view asks for a contiguous tensor; reshape does not

Recorded with weights as given, float64.

Seen: forward of a transposed input, forward of a channels_last input raised that a view is not compatible with its
strides; at the weights as given
  off by 1, allowed 0

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
from torch import nn

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


LAYOUTS = ("transposed", "strided", "channels_last")


def layouts_of(points):
    """The layouts that make a difference to points of this shape."""
    return LAYOUTS if points.ndim == 4 else LAYOUTS[:2]


VIEW_ERROR = "view size is not compatible"


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


def strides_accepted(subject, batch):
    """An input that is not contiguous is not refused for that."""
    call, seen = subject.call, []
    for which, points in probes(subject, batch, complete=False):
        for layout in layouts_of(points):
            _, error = attempt(call, which, points, batch.context, layout=layout)
            if VIEW_ERROR in error:
                seen.append(f"{which} of a {layout} input")
    return flags(bool(seen), len(batch.x), f"{listed(seen)} raised that a view is not compatible with its strides")


DTYPES = {'float64': torch.float64, 'float32': torch.float32}
HOWS = ("plain", "train", "no_grad", "inference_mode", "checkpoint", "functional_call", "vmap", "compile")
LAYOUTS_2 = ("contiguous", "transposed", "expanded", "strided", "channels_last")


def cast(obj, dtype):
    """Cast parameters and buffers."""
    return obj.to(dtype)


def arranged(x, layout):
    """The same values in another memory layout."""
    if layout == "transposed":
        axes = tuple(range(x.dim()))[::-1]
        return x.permute(axes).contiguous().permute(axes)
    if layout == "expanded":
        return x[:1].expand(x.shape)
    if layout == "strided":
        wide = torch.full(
            (2 * x.shape[0], *x.shape[1:-1], 2 * x.shape[-1] if x.dim() > 1 else 1), torch.nan, dtype=x.dtype
        )
        view = wide[::2, ..., ::2] if x.dim() > 1 else wide[::2].reshape(x.shape)
        view.copy_(x)
        return view
    if layout == "channels_last" and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    return x


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


def _plain(obj, speak, x, context):
    return speak(obj, x, context)


def set_mode(obj, training):
    """Put the object into train or eval mode."""
    obj.train(training)


def _train(obj, speak, x, context):
    set_mode(obj, True)
    return speak(obj, x, context)


def _no_grad(obj, speak, x, context):
    with torch.no_grad():
        return speak(obj, x, context)


def _inference_mode(obj, speak, x, context):
    with torch.inference_mode():
        return speak(obj, x.clone(), None if context is None else context.clone())


def _checkpoint(obj, speak, x, context):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda points: speak(obj, points, context), x.requires_grad_(True), use_reentrant=False)


def modules(obj):
    """The modules of an object, of which it is one."""
    return [obj]


def _functional_call(obj, speak, x, context):
    """Run with the object's own parameters handed in from outside, its stored ones spoilt."""
    found = modules(obj)
    if not found:
        raise Unsupported("it holds no modules")

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = nn.ModuleList(found)

        def forward(self, points):
            return speak(obj, points, context)

    speaker = Speaker()
    speaker.train(found[0].training)
    values = {name: p.detach().clone() for name, p in speaker.named_parameters()}
    with torch.no_grad():
        for parameter in speaker.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    return torch.func.functional_call(speaker, values, (x,))


def _vmap(obj, speak, x, context):
    def single(point, *given):
        out = speak(obj, point[None], given[0][None] if given else None)
        return tuple(part[0] if isinstance(part, torch.Tensor) and part.dim() else part for part in out)

    inputs = (x,) if context is None else (x, context)
    return torch.func.vmap(single)(*inputs)


def _compile(obj, speak, x, context):
    torch.compiler.reset()
    return torch.compile(speak, backend="aot_eager")(obj, x, context)


MANNERS = {'plain': _plain, 'train': _train, 'no_grad': _no_grad, 'inference_mode': _inference_mode, 'checkpoint': _checkpoint, 'functional_call': _functional_call, 'vmap': _vmap, 'compile': _compile}


def call(
    live,
    which,
    x,
    context=None,
    *,
    how="plain",
    layout="contiguous",
    dtype=None,
):
    """Call forward, inverse or log_prob in the manner, memory layout and dtype asked for."""
    speak = live.speech(which)
    wanted = DTYPES[dtype] if dtype else live.dtype
    if how not in HOWS or layout not in LAYOUTS_2:
        raise ValueError(f'how={how!r}, layout={layout!r}; expected one of {HOWS} and one of {LAYOUTS_2}')
    with live.calling(f"{which} {how}", wanted):
        obj = live.take() if dtype is None else cast(live.take(), wanted)
        points = arranged(live.tensor(x, wanted), layout)
        given = live.tensor(context, wanted)
        return mapped(which, MANNERS[how](obj, speak, points, given))


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


IMAGE = (4, 4, 4)


def make_2():
    return fm.Flatten([IMAGE])


@functools.wraps(make_2)
def make(**options):
    import numpy as np

    state = np.random.get_state()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return make_2(**options)
    finally:
        np.random.set_state(state)


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

X = np.array(
    [[[[0.7839714219955509, -0.8671050008844432, 1.31730559025418, 0.16419368299431875], [-0.8102839498799884,
    0.17296196436903552, -0.2650464692618859, 0.4762767062509023], [0.634818224044761, 1.9629088239073493,
    0.8844784070250152, 0.8604742671833558], [0.44009310892910775, 0.6095346804448982, -1.0104062584084326,
    -1.2304780805462698]], [[0.27971764600608817, -0.5281504717359159, -0.6903356114035112, 0.18398475998298794],
    [0.2240464979293675, 0.8499722214544899, -0.299202015289242, -0.2532717230254756], [-1.3355221789180531,
    -0.6303776107528334, 1.0290375620760654, -0.17405333603396544], [1.9638711601784582, 0.5720570657109965,
    -0.9317901786194736, -0.42421748859030806]], [[0.8278762493709811, -0.5515193871554656, 0.0,
    -0.24890876723771738], [0.5788567314960498, -1.5724067568324276, -0.3423174778117321, -0.1106352009529265],
    [-0.7214655863961958, 0.4687433621368898, 0.3397263351351982, -0.0818562507784326], [-0.9902061249161321,
    1.5667031571712613, 0.4034314487481515, -0.5263950529080026]], [[-0.0658810915294688, -0.6878767856639055,
    -0.25942116032067963, 0.027594536862277922], [-0.5988808927951003, 0.4965919228377984, 1.3160197431721565,
    -0.3279672448029282], [0.0, -0.5493203219122142, -1.0159829068293136, -1.005213708920388],
    [1.1047209872733414, 1.3160717297045084, 0.5706252924115531, 0.26515121646797946]]]]
)
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
        warm(obj, forward, None, (4, 4, 4), None, DTYPE, OBJECT_SEED)
        set_mode(obj, False)
        return obj


def main():
    live = Live(
        build,
        Plain(forward=forward, inverse=inverse, normalising='forward'),
        Plain(event_shape=(4, 4, 4), latent_shape=(64,)),
        DTYPE,
        OBJECT_SEED,
        build,
        None,
    )
    subject = Plain(
        call=partial(call, live),
        forward=partial(evaluate, live, 'forward'),
        inverse=partial(evaluate, live, 'inverse'),
        normalising='forward',
    )
    print("hygiene/strides-accepted: An input that is not contiguous is not refused for that.")
    print("target: FrEIA:Flatten, weights as given, float64")
    print("x =", X.tolist(), "" if CONTEXT is None else f"context = {CONTEXT.tolist()}")
    try:
        with np.errstate(all="ignore"):
            residual = strides_accepted(subject, Batch(X.copy(), None if CONTEXT is None else CONTEXT.copy(), SEED))
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
        print(f"VIOLATED hygiene/strides-accepted: off by {off:.6g}, allowed {allowed:.6g}")
        return 1
    print("the law holds here")
    return 0


if __name__ == "__main__":
    sys.exit(main())

