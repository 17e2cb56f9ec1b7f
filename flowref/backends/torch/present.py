"""From a builder to a subject: build, cast, run two train-mode batches, move the parameters, and
offer the abilities.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from flowref.backends import build_seed, lives
from flowref.backends.data import points_and_contexts, side, toward_latents
from flowref.backends.derivatives import directional_derivative
from flowref.backends.protocol import Blueprint
from flowref.backends.torch import (
    derivatives,
    jacobian_pieces,
    manners,
    observation,
    parts,
    scenario,
)
from flowref.backends.torch.arrays import as_tensors
from flowref.backends.torch.construction_effects import BUILDING
from flowref.backends.torch.devices import DEVICES
from flowref.backends.torch.evaluation import evaluation
from flowref.backends.torch.found_knobs import Turning, find_step_knobs
from flowref.backends.torch.inflated_noise import wider_noise
from flowref.backends.torch.live import DTYPES, Live, allotted, noise, usual
from flowref.backends.torch.modes import mode_matters
from flowref.backends.torch.numbers import numbers_of
from flowref.backends.torch.parameter_cache import run_with_folding
from flowref.backends.torch.rounded_builds import Around, rounded_build, transplanted
from flowref.backends.torch.sandbox import torch_sandbox
from flowref.backends.torch.scenario import MODES
from flowref.backends.torch.scenario_inside import INSIDE
from flowref.backends.torch.scenario_state import STATE
from flowref.backends.torch.spectral import follow
from flowref.backends.torch.standards import has_standards, set_standards
from flowref.backends.torch.state import cast, duplicate, modules, move, set_mode, trainable
from flowref.backends.torch.training import Training, cached_training
from flowref.backends.torch.unregistered_parameters import UNREGISTERED
from flowref.backends.training import REACH
from flowref.model import Call, Condition, Dialect, Facts, Subject, derive

WARM_BATCH, WARM_SIZE = 16, 256
# The last object whose train-mode batches took hundreds of steps, with its builder: before its
# weights are moved it is the same in all conditions of a seed.
_WARMED: dict[Any, tuple[Callable[[], Any], Any]] = {}
ACTIONS = {**lives.ACTIONS, **MODES, **STATE, **INSIDE, **UNREGISTERED, **BUILDING, **DEVICES}


def present(made_of: Blueprint, condition: Condition) -> Subject:
    """Returns the subject of a built object in a condition."""
    name, build, dialect, facts = made_of.name, made_of.build, made_of.dialect, made_of.facts
    dtype = DTYPES[condition.dtype]
    key = (name, condition.seed, condition.dtype, condition.weights)

    def fresh(number: int) -> Any:
        with torch_sandbox(
            derive(condition.seed, made_of.rebuild_seed, *[number] * (number > 0)), dtype
        ):
            obj = cast(build(), dtype)
            set_mode(obj, False)
            return obj

    def lived(around: Around = contextlib.nullcontext) -> Any:
        with around():
            obj = cast(build(), dtype)
        if not facts.given:  # weights from a file are warm already
            with around():
                warm(obj, dialect, facts, dtype, condition.seed)
        return obj

    def warmed(around: Around) -> Any:
        if around is not contextlib.nullcontext or not _warms_slowly(dialect, facts):
            return lived(around)
        if _WARMED.get(key, (None,))[0] is not build:
            _WARMED.clear()
            _WARMED[key] = build, lived()
        return duplicate(_WARMED[key][1])

    def training() -> Training:
        with torch_sandbox(build_seed(condition.seed), dtype):
            return cached_training(key, build, lived, dialect, facts, dtype, condition.seed)

    def load(around: Around = contextlib.nullcontext) -> Any:
        if condition.history == "trained":
            obj = duplicate(training().obj)
            set_mode(obj, condition.mode == "train")
            return obj
        with torch_sandbox(build_seed(condition.seed), dtype):
            if condition.history == "warm":
                obj = warmed(around)
            else:
                with around():
                    obj = cast(build(), dtype)
            if condition.scale and not facts.promises.get("fixed"):
                move(obj, condition.scale, derive(condition.seed, 5))
                set_standards(obj, condition.scale, derive(condition.seed, 43))
                follow(obj)
                if dialect.repair is not None:
                    with torch.no_grad():
                        dialect.repair(obj)
            set_mode(obj, condition.mode == "train")
            return obj

    def within(around: Around) -> Any:
        if condition.history != "trained":
            return load(around)
        with torch_sandbox(build_seed(condition.seed), dtype):
            clean = lived()
        with torch_sandbox(build_seed(condition.seed), dtype):
            return transplanted(training().obj, clean, lived(around))

    with allotted("an object"):
        pristine = load()
    loaded = Live(
        pristine, dialect, facts, dtype, condition.seed, load, fresh, made_of.resolve, training
    )
    loaded.build, loaded.build_within, loaded.grad = build, within, condition.grad
    if condition.part:
        name, loaded = parts.live_part(loaded, name, condition.part)
    subject = subject_of(loaded, name, condition)
    # Refinement is offered only for maps without a stated accuracy; and, with moved weights, for
    # every map: a series that is long enough for the original weights may be too short for these.
    stated = facts.certainty.log_det and not facts.promises.get("assumed-accuracy")
    if not condition.scale and (stated or condition.part):
        return subject
    ways: list[Turning | None] = []

    def refined(times: int) -> Subject | None:
        with allotted("an object"):
            finer = duplicate(pristine)
        if not ways:  # searched once, only if a violation depends on it
            asked = _map_directions(pristine, dialect, facts, dtype, condition)
            ways.append(find_step_knobs(pristine, *asked, alike=condition.scale > 0))
        if ways[0] is None or not ways[0](finer, times):
            return None
        live = Live(
            finer, dialect, facts, dtype, condition.seed, load, fresh, made_of.resolve, training
        )
        live.grad = condition.grad
        if condition.part:
            _, live = parts.live_part(live, name, condition.part)
        return subject_of(live, name, condition)

    return replace(subject, refined=refined)


def _map_directions(
    pristine: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, condition: Condition
) -> list[Callable[[Any], torch.Tensor]]:
    """The calls of a map at ordinary points: forward, and inverse at its outputs."""
    run = partial(_ordinary_output, dialect, facts, dtype, condition)
    if dialect.forward is None or dialect.inverse is None:
        return [run]
    with contextlib.suppress(Exception):
        z = run(duplicate(pristine)).detach()
        back = replace(dialect, forward=dialect.inverse)
        return [run, partial(_ordinary_output, back, facts, dtype, condition, points=z)]
    return [run]


def _ordinary_output(
    dialect: Dialect,
    facts: Facts,
    dtype: torch.dtype,
    condition: Condition,
    obj: Any,
    points: torch.Tensor | None = None,
) -> torch.Tensor:
    """The output of an object at a few ordinary or given points, from a fixed random state."""
    rng = np.random.default_rng(derive(condition.seed, 11) % 2**32)
    x, context = as_tensors(points_and_contexts(facts, 3, rng), dtype)
    x = x if points is None else points
    function = dialect.forward or dialect.log_prob
    assert function is not None
    with torch_sandbox(build_seed(condition.seed), dtype):
        out = function(obj, x, context)
    value: torch.Tensor = out[0] if isinstance(out, tuple) else out
    return value


def _warms_slowly(dialect: Dialect, facts: Facts) -> bool:
    repeats = facts.cost.of(toward_latents(dialect)).repeats
    return math.prod(facts.event_shape) >= WARM_SIZE and repeats


def warm(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int) -> None:
    """Runs train-mode batches, so that running statistics and first-call state are as in use."""
    set_mode(obj, True)
    if not modules(obj):
        return
    which = toward_latents(dialect)
    function = getattr(dialect, which) or dialect.log_prob or dialect.push
    if function is None:
        return
    latents = which == "inverse"
    rng = np.random.default_rng(derive(seed, 7) % 2**32)
    # With many features few rows, once, and no graph: that of as many sequential steps takes
    # gigabytes.
    large = math.prod(side(facts, latents)[1]) >= WARM_SIZE
    rows, times = (2, 1) if large else (WARM_BATCH, 2)
    for _ in range(times):
        x, context = as_tensors(points_and_contexts(facts, rows, rng, latents), dtype)
        # Train mode may be rejected (for an inverse, say); the object is then audited without this
        # pass.
        run = partial(function, obj, x, context)
        with contextlib.suppress(Exception), torch.set_grad_enabled(not large):
            # Without a graph the weights of hundreds of steps are masked once.
            run_with_folding(obj, run) if large and facts.cost.of(which).repeats else run()


def subject_of(live: Live, name: str, condition: Condition) -> Subject:
    """Returns the subject of a live object with its abilities."""
    dialect, facts = live.dialect, live.facts
    maps = dialect.forward is not None
    part_names, part_maps = parts.part_names_and_maps(live)

    def able(offered: object, ability: Any) -> Any:
        return partial(ability, live) if offered else None

    return Subject(
        name=name,
        facts=facts,
        dtype=condition.dtype,
        device=condition.device,
        scale=REACH if condition.history == "trained" else condition.scale,
        normalizing=dialect.normalizing,
        stateful=bool(modules(live.pristine)),
        trainable=bool(trainable(live.pristine)),
        standards=has_standards(live.pristine),
        mode_matters=functools.cache(partial(mode_matters, live)),
        calls={name: live_call(live, name) for name in dialect.offered},
        jacobian=able(maps, derivatives.jacobian),
        vjp=partial(derivatives.pull, live),
        along=able(trainable(live.pristine), derivatives.along),
        slope=able(trainable(live.pristine), partial(directional_derivative, derivatives)),
        play=partial(scenario.play, live, ACTIONS),
        arrange=able((dialect.chain and dialect.parts and maps) or dialect.invert, parts.arrange),
        noise=partial(noise, live),
        rounding=lambda: live.rounding is not None,
        widened=partial(wider_noise, live),
        built=lambda: live.number,
        rounded_build=partial(rounded_build, live),
        usual=partial(usual, live),
        parts=part_names,
        part_maps=part_maps,
        numbers=partial(numbers_of, live.pristine),
        walk=able(maps, jacobian_pieces.walk),
    )


def live_call(live: Live, name: str) -> Call[Any]:
    """Returns one method of a live object."""
    return Call(
        name,
        evaluation(live, name),
        partial(manners.call, live, name),
        partial(observation.observe, live, name),
    )
