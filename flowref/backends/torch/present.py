"""From a builder to a subject: build, cast, live two batches, move the parameters, and offer the
abilities.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from flowref.backends.torch import calls, methods, sampling, scenario
from flowref.backends.torch import live as life
from flowref.backends.torch.live import DTYPES, Live, derive
from flowref.backends.torch.sandbox import sandbox
from flowref.backends.torch.scenario import MODES
from flowref.backends.torch.scenario_inside import INSIDE
from flowref.backends.torch.scenario_state import STATE
from flowref.backends.torch.state import cast, duplicate, modules, move, set_mode, trainable
from flowref.model import (
    REAL,
    Array,
    Call,
    Condition,
    Dialect,
    Facts,
    Mapped,
    Subject,
    TargetError,
    Unsupported,
    draw,
)

WARM_BATCH, WARM_SIZE = 16, 256
ACTIONS = {**MODES, **STATE, **INSIDE}


def present(
    name: str,
    build: Callable[[], Any],
    dialect: Dialect,
    facts: Facts,
    condition: Condition,
    resolve: Callable[[Any], Dialect | None] = lambda _: None,
    rebuild_seed: int = 3,
) -> Subject:
    """The subject of a built object in the given condition. ``resolve`` finds the dialect of a
    sub-component.

    ``rebuild_seed`` fixes the random state in which objects are built anew for laws of state. User
    code is built anew in another one: what it draws while it is built, and does not save, is lost
    when it is loaded in another process.
    """
    dtype = DTYPES[condition.dtype]

    def fresh() -> Any:
        with sandbox(derive(condition.seed, rebuild_seed), dtype):
            obj = cast(build(), dtype)
            set_mode(obj, False)
            return obj

    def load() -> Any:
        with sandbox(derive(condition.seed, 3), dtype):
            obj = cast(build(), dtype)
            if condition.history != "fresh":
                warm(obj, dialect, facts, dtype, condition.seed)
            if condition.scale and not facts.promises.get("fixed"):
                move(obj, condition.scale, derive(condition.seed, 5))
                if dialect.repair is not None:
                    with torch.no_grad():
                        dialect.repair(obj)
            set_mode(obj, condition.history == "train")
            return obj

    pristine = load()
    found = Live(pristine, dialect, facts, dtype, condition.seed, load, fresh, resolve)
    if condition.part:
        return part_subject(found, name, condition)
    return subject_of(found, name, condition)


def warm(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int) -> None:
    """Train-mode batches, so that first-call and running state are what they are in use."""
    set_mode(obj, True)
    if not modules(obj):
        return
    which = (
        dialect.normalizing
        if dialect.inverse is not None or dialect.normalizing == "forward"
        else "forward"
    )
    speak = getattr(dialect, which) or dialect.log_prob
    if speak is None:
        return
    forwards = which == "forward"
    support = facts.domain if forwards else (facts.codomain or REAL)
    shape = facts.event_shape if forwards else (facts.latent_shape or facts.event_shape)
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    # For many features few rows, once, and no graph: that of as many sequential steps takes
    # gigabytes.
    large = math.prod(shape) >= WARM_SIZE
    rows, times = (2, 1) if large else (WARM_BATCH, 2)
    for _ in range(times):
        x = torch.from_numpy(draw(support, (rows, *shape), rng)).to(dtype)
        context = None
        if facts.context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((rows, *facts.context_shape))).to(dtype)
        # A train-mode pass may be refused (an inverse in train mode, say); the object is then
        # audited without one.
        with contextlib.suppress(Exception), torch.set_grad_enabled(not large):
            speak(obj, x, context)


def subject_of(live: Live, name: str, condition: Condition) -> Subject:
    """The abilities of a loaded object."""
    dialect, facts = live.dialect, live.facts
    maps = dialect.forward is not None
    names, part_maps = parts_of(live)

    def able(offered: object, ability: Any) -> Any:
        return partial(ability, live) if offered else None

    return Subject(
        name=name,
        facts=facts,
        dtype=condition.dtype,
        scale=condition.scale,
        normalizing=dialect.normalizing,
        stateful=bool(modules(live.pristine)),
        trainable=bool(trainable(live.pristine)),
        calls={name: call_of(live, name) for name in methods.offered(dialect)},
        jacobian=able(maps, life.jacobian),
        vjp=partial(life.vjp, live),
        curvature=partial(life.curvature, live),
        along=able(trainable(live.pristine), life.along),
        slope=able(trainable(live.pristine), life.slope),
        play=partial(scenario.play, live, ACTIONS),
        arrange=able((dialect.chain and dialect.parts and maps) or dialect.invert, arrange),
        noise=partial(life.noise, live),
        usual=partial(life.usual, live),
        parts=names,
        part_maps=part_maps,
    )


# How a user gets the outcome of each method; the others run as `sampling` makes them.
RUNS: dict[str, Callable[..., Any]] = {
    "log_prob": life.evaluate_log_prob,
    "sample": life.draw_samples,
    "base_log_prob": life.evaluate_base,
    "base_sample": sampling.draw_base,
    "cdf": sampling.evaluate_cdf,
    "icdf": sampling.evaluate_icdf,
    "estimate": sampling.evaluate_estimate,
    "rescaled": sampling.evaluate_rescaled,
    "bits_per_dim": sampling.evaluate_bits_per_dim,
    "loss": sampling.evaluate_loss,
    "dequantize": sampling.dequantize,
}


def call_of(live: Live, name: str) -> Call[Any]:
    """One method of a live object."""
    run = partial(RUNS[name], live) if name in RUNS else partial(life.evaluate, live, name)
    return Call(name, run, partial(calls.call, live, name), partial(calls.observe, live, name))


def listed_parts(obj: Any, dialect: Dialect) -> Sequence[tuple[str, Any]]:
    """The parts of a composite, or nothing where it cannot be taken apart."""
    if dialect.parts is None:
        return ()
    try:
        found = list(dialect.parts(obj))
    except Exception:
        return ()
    return found if len(found) > 1 else ()


def parts_of(live: Live) -> tuple[tuple[str, ...], tuple[Callable[..., Mapped], ...]]:
    """Names and maps of a composite's parts."""
    found = listed_parts(live.pristine, live.dialect)
    dialects = [live.resolve(part) or live.dialect for _, part in found]
    names = tuple(label for label, _ in found)
    return names, tuple(
        partial(part_map, live, place, speech) for place, speech in enumerate(dialects)
    )


def part_map(
    live: Live,
    place: int,
    dialect: Dialect,
    x: Array,
    context: Array | None = None,
    which: str = "forward",
) -> Mapped:
    """One part of a composite, on a fresh copy of the whole."""
    assert live.dialect.parts is not None
    with live.lend() as obj, live.calling(f"part {place}"):
        _, part = live.dialect.parts(obj)[place]
        return life.mapped(
            which, getattr(dialect, which)(part, live.tensor(x), live.tensor(context, jitter=1))
        )


def arrange(
    live: Live, expression: Any, x: Array, context: Array | None = None, which: str = "forward"
) -> Mapped:
    """The library's own composition of a subject's parts, called in one direction."""
    with live.calling("arrange"):
        obj = live.take()
        parts = [part for _, part in listed_parts(obj, live.dialect)]
        built = arranged(expression, obj, parts, live.dialect)
        speech = live.resolve(built) or live.dialect
        return life.mapped(
            which, getattr(speech, which)(built, live.tensor(x), live.tensor(context, jitter=1))
        )


def arranged(expression: Any, obj: Any, parts: Sequence[Any], dialect: Dialect) -> Any:
    """The object that an expression denotes: a part's index, "self", ("chain", ...) or ("inverse",
    e).
    """
    if expression == "self":
        return obj
    if isinstance(expression, int):
        return parts[expression]
    kind, *operands = expression
    built = [arranged(operand, obj, parts, dialect) for operand in operands]
    combine = dialect.chain if kind == "chain" else dialect.invert
    if combine is None:
        raise Unsupported(f"its library offers no {kind}")
    return combine(built) if kind == "chain" else combine(built[0])


def part_subject(live: Live, name: str, condition: Condition) -> Subject:
    """The subject of one part of a composite, loaded and moved within the whole."""
    obj, dialect, facts = live.pristine, live.dialect, live.facts
    labels = []
    for place in condition.part:
        found = listed_parts(obj, dialect)
        if place >= len(found):
            raise TargetError(f"{name} has {len(found)} parts; part {place} was asked for")
        label, obj = found[place]
        labels.append(label)
        dialect = live.resolve(obj) or dialect

    def again() -> Any:
        whole, speech = live.rebuild(), live.dialect
        for place in condition.part:
            _, whole = listed_parts(whole, speech)[place]
            speech = live.resolve(whole) or speech
        return whole

    inner = Live(
        duplicate(obj), dialect, facts, live.dtype, condition.seed, again, again, live.resolve
    )
    return subject_of(inner, f"{name}/{'/'.join(labels)}", condition)
