"""Declarations, by an option or in `__flow__`, that calls contradict: the error says what was seen and what
to write.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from flowref.loading.call_probes import Probed
from flowref.loading.declaration import stated_as
from flowref.loading.draft import domain_points
from flowref.loading.instance import Instance, instance_of
from flowref.loading.options import parse_shape
from flowref.loading.source import source_of
from flowref.model import OPPOSITE, FlowrefError, Target, TargetError, one_line, user_code_location
from flowref.model.declaration import FLOW

# Relative differences from which two log-densities are different, and up to which they are equal.
APART, ALIKE = 1e-3, 1e-6


class Contradicted(TargetError):
    """A declared option with which calls run, but return something else; ``seen`` says what."""

    def __init__(self, target: Target, option: str, text: str, seen: str) -> None:
        super().__init__(f"{target}: {option} was given as {text}, and {seen}")
        self.option, self.seen = option, seen


def refuse_contradicted(instance: Instance, probed: Probed) -> None:
    """Raise `Contradicted` for the first declared option with which calls run but return something else."""
    options, target = instance.source.options, instance.source.target
    for option, seen in (
        ("latent", _other_latent),
        ("log_prob", _no_density),
        ("normalizing", _other_direction),
    ):
        if option in options and (found := seen(instance, probed, options[option])):
            raise Contradicted(target, option, options[option], found)


def _other_latent(instance: Instance, probed: Probed, text: str) -> str:
    shape, size = probed.facts.latent_shape or (), math.prod(parse_shape(text, "latent"))
    # Coordinates of a simplex or a manifold are fewer than the entries of its points.
    simplex = instance.source.options.get("codomain") == "simplex"
    charted = simplex or probed.facts.surface is not None
    alike = probed.dialect.forward is None or charted or size == math.prod(shape)
    return "" if alike else f"forward returns values of shape {shape}"


def _no_density(instance: Instance, probed: Probed, text: str) -> str:
    returned = None
    with contextlib.suppress(Exception):  # exceptions and wrong shapes are reported by laws
        _, returned = _asked(instance, probed, lambda one, *point: one.log_prob(*point))
    if returned is None or hasattr(returned, "shape"):
        return ""
    return f"it returns a {type(returned).__name__}, and no log-density for each point"


def _other_direction(instance: Instance, probed: Probed, text: str) -> str:
    """What to say if the log-density equals base + log-det of the opposite direction; else empty."""
    declared, backend = probed.dialect.normalizing, instance.backend

    def off(call: str) -> float:
        def both(one: Any, *point: Any) -> Any:
            obj, _, context = point
            y, ladj = getattr(one, call)(*point)
            return one.log_prob(*point), one.base_log_prob(obj, y, context), ladj

        rows, returned = _asked(instance, probed, both)
        density, base, ladj = (np.asarray(backend.array(one)).reshape(rows) for one in returned)
        return float(np.abs(density - base - ladj).max() / (1 + np.abs(density).max()))

    with contextlib.suppress(Exception):  # one of them is missing, or of another form
        if off(declared) > APART and off(OPPOSITE[declared]) < ALIKE:
            return f"its log-density is that of its base through {OPPOSITE[declared]}"
    return ""


def _asked(instance: Instance, probed: Probed, call: Callable[..., Any]) -> tuple[int, Any]:
    """The number of points passed to a call of a copy, and what it returned."""
    backend = instance.backend
    with backend.sandbox(0, instance.dtype):
        points, contexts = domain_points(probed.facts)
        given = None if contexts is None else backend.tensor(contexts, instance.dtype)
        x = backend.tensor(points, instance.dtype)
        return len(points), call(probed.dialect, instance.resting(), x, given)


def contradiction(
    target: Target, error: FlowrefError, made: Callable[[Target, frozenset[str]], Any]
) -> str:
    """What to say of a target whose declaration is contradicted by its calls; empty if the refusal has
    another cause.

    ``error``: the refusal with the declaration; ``made(target, names)``: its recipe without these declared
    names.
    """
    # The error names the declaration already, or the object is an abstract base class.
    aside = FLOW in str(error) or isinstance(error.__cause__, NotImplementedError)
    stated = {} if aside else _declaration_of_target(target)
    declared = {name: text for name, text in stated.items() if target.option(name) is None}
    if isinstance(error, Contradicted) and error.option not in declared:
        return ""  # typed as an option
    ones = [error.option] if isinstance(error, Contradicted) else list(declared)
    # Names in the error come last: they were checked when it was raised.
    ones.sort(key=lambda name: not str(error).startswith(f"{name} was given"))
    for names in dict.fromkeys((*((name,) for name in ones if name in declared), tuple(declared))):
        try:
            seen = made(target, frozenset(names)).recognized
        except Exception:  # not the cause
            continue
        said, shape = _said(names, declared), seen.event_shape
        fix = f"write 'event': {shape}" if names == ("event",) else "correct it"
        return (
            f"{target}: its {FLOW} says {said}, and {_reason(target, error)}; without that it is read as {seen.kind}, on "
            f"events of shape {shape}: {fix}, or leave it out"
        )
    said = _said(tuple(declared), declared)
    return f"{target}: its {FLOW} says {said}, and {_reason(target, error)}" if declared else ""


def _said(names: tuple[str, ...], declared: Mapping[str, str]) -> str:
    return ", ".join(stated_as(name, declared[name]) for name in names)


def _declaration_of_target(target: Target) -> dict[str, str]:
    """Options declared by a target; empty if it cannot be built, which is reported elsewhere."""
    for dtype in ("float64", "float32"):
        with contextlib.suppress(Exception):
            return dict(instance_of(source_of(target), dtype).source.declared)
    return {}


def _reason(target: Target, error: FlowrefError) -> str:
    if isinstance(error, Contradicted):
        return error.seen
    cause = error.__cause__
    if cause is None or isinstance(cause, FlowrefError):
        return str(error).removeprefix(f"{target}: ")
    return f"calls raise {one_line(cause, 200)}{user_code_location(cause)}"
