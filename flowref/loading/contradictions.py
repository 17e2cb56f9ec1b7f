"""What is declared, by an option or in `__flow__`, and calls contradict: said with what was seen and what to write."""

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

# How far apart two log-densities are that differ, and that are one, of the size of the numbers in them.
APART, ALIKE = 1e-3, 1e-6


class Contradicted(TargetError):
    """An option with which calls run, and that they contradict: what was ``seen``."""

    def __init__(self, target: Target, option: str, text: str, seen: str) -> None:
        super().__init__(f"{target}: {option} was given as {text}, and {seen}")
        self.option, self.seen = option, seen


def refuse_contradicted(instance: Instance, probed: Probed) -> None:
    """Raises: `Contradicted` for what was declared, runs, and gives something else."""
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
    told = None
    with contextlib.suppress(
        Exception
    ):  # what it raises, and numbers of another shape, are for the laws
        _, told = _asked(instance, probed, lambda one, *point: one.log_prob(*point))
    if told is None or hasattr(told, "shape"):
        return ""
    return f"it returns a {type(told).__name__}, and no log-density for each point"


def _other_direction(instance: Instance, probed: Probed, text: str) -> str:
    """Where the log-density is that of the base on the other way alone."""
    declared, backend = probed.dialect.normalizing, instance.backend

    def off(call: str) -> float:
        def both(one: Any, *point: Any) -> Any:
            obj, _, context = point
            y, ladj = getattr(one, call)(*point)
            return one.log_prob(*point), one.base_log_prob(obj, y, context), ladj

        rows, told = _asked(instance, probed, both)
        density, base, ladj = (np.asarray(backend.array(one)).reshape(rows) for one in told)
        return float(np.abs(density - base - ladj).max() / (1 + np.abs(density).max()))

    with contextlib.suppress(Exception):  # one of them is missing, or of another form
        if off(declared) > APART and off(OPPOSITE[declared]) < ALIKE:
            return f"its log-density is that of its base through {OPPOSITE[declared]}"
    return ""


def _asked(instance: Instance, probed: Probed, call: Callable[..., Any]) -> tuple[int, Any]:
    """How many points a call of a copy was given, and what it returned."""
    backend = instance.backend
    with backend.sandbox(0, instance.dtype):
        points, contexts = domain_points(probed.facts)
        given = None if contexts is None else backend.tensor(contexts, instance.dtype)
        x = backend.tensor(points, instance.dtype)
        return len(points), call(probed.dialect, instance.resting(), x, given)


def contradiction(
    target: Target, error: FlowrefError, made: Callable[[Target, frozenset[str]], Any]
) -> str:
    """What to say of a target whose declaration calls contradict; empty where that is not why it is refused.

    ``error``: what was said of it as declared; ``made(target, names)``: its recipe with these of its declaration left out.
    """
    # It says so itself, or is a base class, whose calls are those of others.
    aside = FLOW in str(error) or isinstance(error.__cause__, NotImplementedError)
    stated = {} if aside else _declaration_of_target(target)
    declared = {name: text for name, text in stated.items() if target.option(name) is None}
    if isinstance(error, Contradicted) and error.option not in declared:
        return ""  # it was typed
    ones = [error.option] if isinstance(error, Contradicted) else list(declared)
    # What is named was looked at when it was refused.
    ones.sort(key=lambda name: not str(error).startswith(f"{name} was given"))
    for names in dict.fromkeys((*((name,) for name in ones if name in declared), tuple(declared))):
        try:
            seen = made(target, frozenset(names)).recognized
        except Exception:  # that is not why
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
    """What a target declares; nothing where it cannot be built, which was said before."""
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
