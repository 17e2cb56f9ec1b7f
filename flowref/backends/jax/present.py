"""From a builder to a subject: build, cast, move the arrays, and offer the abilities.

`play` is offered for objects that keep state and return it (`scenario.py`), as batch norms do;
nothing else has modes, or a state that a call could change. Not offered, without a counterpart in
JAX: `rounded_build`, `usual` (without 64-bit types everything is float32) and `walk`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from flowref.backends import build_seed
from flowref.backends.data import points_and_contexts
from flowref.backends.derivatives import directional_derivative
from flowref.backends.jax import derivatives, parts, scenario
from flowref.backends.jax.evaluation import evaluation, mannered
from flowref.backends.jax.jax_float32 import float32_findings
from flowref.backends.jax.jax_solver_steps import refined
from flowref.backends.jax.live import Live, noise
from flowref.backends.jax.observation import observe
from flowref.backends.jax.programs import POINTWISE, padded, programs_of, rows_per_stretch
from flowref.backends.jax.retraced_calls import retraced_call
from flowref.backends.jax.rules import has_rule_of_its_own
from flowref.backends.jax.sandbox import jax_sandbox
from flowref.backends.jax.stopped_gradients import Stopped
from flowref.backends.jax.training import trained_arrays
from flowref.backends.jax.trees import cast, leaves_and_tree, moved_leaf, moving
from flowref.backends.protocol import Blueprint
from flowref.backends.training import REACH
from flowref.model import Call, Condition, Dialect, Facts, Subject, derive, one_line

# The rows of test calls for tracing and row independence, and the tolerance of the latter.
ROWS, SAME = 3, 1e-9
UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.UnexpectedTracerError,
)


def present(made_of: Blueprint, condition: Condition) -> Subject:
    """Returns the subject of a built object in a condition."""
    name, dialect, facts = made_of.name, made_of.dialect, made_of.facts
    with jax_sandbox(build_seed(condition.seed), condition.dtype):
        obj = cast(made_of.build(), condition.dtype)
        leaves, tree = leaves_and_tree(obj)
        moves = [
            moves and not kept
            for moves, kept in zip(moving(obj), kept_of(obj, dialect, facts), strict=True)
        ]
        programs = programs_of(tree, leaves, dialect, not facts.built_here)
    live = Live(
        programs, leaves, dialect, facts, condition.dtype, condition.seed, moves, made_of.resolve,
        given=obj,
    )  # fmt: skip
    if not programs.traced:
        look(live)
    if any(programs.stopped):
        pairs = zip(live.moving, programs.stopped, strict=True)
        live.moving = [moves and not stopped for moves, stopped in pairs]
    scale = condition.scale
    if condition.history == "trained":
        scale, live = REACH, live.having(trained_arrays(live))
    elif scale and not facts.promises.get("fixed"):
        with live.calling():
            steps = live.directions(derive(condition.seed, 5))
            live = live.having(
                [moved_leaf(leaf, step, scale) for leaf, step in zip(leaves, steps, strict=True)]
            )
    if condition.part:
        name, live = parts.live_part(live, name, condition.part)
    subject = subject_of(live, name, condition, scale)
    # Refinement is offered only for maps without a stated accuracy.
    stated = facts.certainty.log_det and not facts.promises.get("assumed-accuracy")
    if condition.part or stated:
        return subject

    acts: list[bool] = []

    def finer(times: int) -> Subject | None:
        obj, turned = refined(live.object, times)
        if not turned:  # number literals in code are not searched
            return None
        leaves, tree = leaves_and_tree(obj)
        programs = programs_of(tree, leaves, dialect, True)
        programs.traced.update(live.programs.traced)
        solved = replace(live, programs=programs, leaves=leaves)
        if not acts:
            acts.append(differ(live, solved))
        if not acts[0]:  # the setting has no effect
            return None
        return subject_of(solved, name, condition, scale)

    return replace(subject, refined=finer)


def kept_of(obj: Any, dialect: Dialect, facts: Facts) -> list[bool]:
    """For each floating array of an object, whether a call in training changes it, as it does
    running averages: trained parameters are left to an optimizer.
    """
    before = leaves_and_tree(obj)[0]
    if dialect.trained is not None:
        x = 3 + 2 * np.random.default_rng(3).standard_normal((ROWS, *facts.event_shape))
        try:
            after = leaves_and_tree(dialect.trained(obj, jax.numpy.asarray(x), None)[2])[0]
        except Exception:  # exceptions are tested by the laws
            after = []
        if len(after) == len(before):
            pairs = zip(before, after, strict=True)
            return [not np.array_equal(one, other) for one, other in pairs]
    return [False] * len(before)


def look(live: Live) -> None:
    """Determines which calls can be traced, whether rows are independent, and for which arrays
    every call stops the gradient.
    """
    stopped = Stopped(len(live.leaves))
    for name in POINTWISE:
        if getattr(live.dialect, name) is None:
            continue
        x, context = ordinary_inputs(live, name)
        live.programs.traced[name] = ""
        with live.calling():
            try:
                trace = jax.make_jaxpr(live.programs.pair(name))(live.leaves, x, context)
                stopped.note(trace)
                live.programs.ruled[name] = has_rule_of_its_own(trace)
            except UNTRACEABLE as error:
                live.programs.traced[name] = one_line(error, 200)
            except Exception:  # exceptions at such points are tested by the laws
                continue
        if name == "forward" and not live.programs.traced[name]:
            live.programs.padded = forward_is_row_independent(live, x, context)
    live.programs.stopped = stopped.flags


def ordinary_inputs(live: Live, name: str) -> tuple[Any, Any]:
    """A few ordinary points ``(n, *event)`` and contexts of a call."""
    latents = name != "forward" and live.dialect.forward is not None
    given = points_and_contexts(live.facts, ROWS, np.random.default_rng(1), latents)
    x, context = (None if one is None else one.astype(live.dtype) for one in given)
    return x, context


def differ(one: Live, other: Live) -> bool:
    """Whether calls of two objects are different programs, or cannot be traced."""
    for name in POINTWISE:
        if getattr(one.dialect, name) is None:
            continue
        x, context = ordinary_inputs(one, name)
        try:
            with one.calling():
                traces = [
                    jax.make_jaxpr(live.programs.pair(name))(live.leaves, x, context)
                    for live in (one, other)
                ]
        except Exception:  # exceptions are tested by the laws
            return True
        consts = [
            np.array_equal(*both) for both in zip(*(one.consts for one in traces), strict=False)
        ]
        if str(traces[0]) != str(traces[1]) or not all(consts):
            return True
    return False


def forward_is_row_independent(live: Live, x: Any, context: Any) -> bool:
    """Whether forward's result for a row does not depend on other rows: the program runs with
    other padding rows, and without padding if it returns one number for all.
    """
    rows = rows_per_stretch(x)
    more: list[Any] = [padded(one, 0, rows) for one in (x, context)]
    others: list[Any] = [
        None if one is None else np.concatenate([one[:ROWS], one[ROWS:] * 0.5]) for one in more
    ]
    try:
        results = [live.evaluate("forward", *some) for some in (more, others)]
        if any(one is not None and not np.ndim(one) for one in results[0]):
            live.programs.padded = False
            results.append(live.evaluate("forward", x, context))
    except Exception:  # exceptions are tested by the laws
        return True
    size = SAME if live.dtype == "float64" else 1e-3
    first, *rest = [
        [np.atleast_1d(one)[:ROWS] for one in some if one is not None] for some in results
    ]
    return all(
        np.allclose(one, other, rtol=size, atol=size, equal_nan=True)
        for some in rest
        for one, other in zip(first, some, strict=True)
    )


def subject_of(live: Live, name: str, condition: Condition, scale: float) -> Subject:
    """Returns the subject of a live object with its abilities."""
    dialect = live.dialect
    maps, trained = dialect.forward is not None, any(live.moving)
    # Stochastic layers have no derivatives here.
    sure = dialect.push is None
    traceable = not any(live.programs.traced.values())
    part_names, part_maps = parts.part_names_and_maps(live)
    facts = live.facts
    if live.programs.ruled.get("inverse"):
        facts = replace(facts, promises={**facts.promises, "own-rule": True})

    def able(holds: object, ability: Any) -> Any:
        return partial(ability, live) if holds and traceable else None

    return Subject(
        name=name,
        facts=facts,
        dtype=condition.dtype,
        scale=scale,
        normalizing=dialect.normalizing,
        stateful=dialect.trained is not None,
        trainable=trained and traceable,
        calls={
            method: Call(
                method,
                evaluation(live, method),
                partial(mannered, live, method),
                partial(observe, live, method),
            )
            for method in dialect.offered
        },
        jacobian=able(maps, derivatives.jacobian),
        vjp=able(sure, derivatives.pull),
        along=able(sure and trained, derivatives.along),
        slope=able(sure and trained, partial(directional_derivative, derivatives)),
        play=able(dialect.trained, scenario.play),
        arrange=able((dialect.chain and dialect.parts and maps) or dialect.invert, parts.arrange),
        noise=able(True, noise),
        rounding=lambda: live.rounding is not None,
        keyed=dialect.sample is not None,
        own=able(not scale and live.given is not None, retraced_call),
        single=able(condition.dtype == "float64", float32_findings),
        parts=part_names,
        part_maps=part_maps,
    )
