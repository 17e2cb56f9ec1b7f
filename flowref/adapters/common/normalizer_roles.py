"""Which attribute of a batch normalizer plays which role, and in which form: each is moved on a copy,
to see which measured number moves and how. Names break ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.common.batch_norms import NAMES
from flowref.adapters.common.normalizer_calls import (
    MANY,
    Played,
    lines,
)
from flowref.model import Array
from flowref.model.structure.forms import FORMS, Form
from flowref.model.structure.lines import NARROW, by_channel, scale

# How near a measured number must come to that of an attribute, relative to it, and how far it must
# move to have moved; what float32 allows.
NEAR, MOVED, COARSE = 1e-6, 1e-4, 2e-3
# By how much a count of what was seen is made larger.
SEEN = 7
# The numbers that are measured, by role.
AFFINE, STATISTICS = ("weight", "bias"), ("running_mean", "running_var")


class Numbers(NamedTuple):
    """What calls show of a batch normalizer, per channel: weight and bias; the mean and, with eps,
    the variance that eval mode normalizes by (None where it has none of its own); eps.
    """

    weight: Array
    bias: Array
    mean: Array | None
    inside: Array | None
    eps: float

    def of(self, role: str) -> Array | None:
        """The number of a role."""
        named = dict(
            zip(
                (*AFFINE, *STATISTICS),
                (self.weight, self.bias, self.mean, self.inside),
                strict=True,
            )
        )
        return named[role]


def numbers(played: Played, channel: tuple[int, ...], tracks: bool, obj: Any = None) -> Numbers:
    """Measure an object, or another like it, on copies."""
    whole = played.copied(played.obj if obj is None else obj)

    z = np.random.default_rng(7).standard_normal((MANY, *played.shape))
    shown = scale(lambda x: played.life((True, x), obj=played.copied(whole))[0], z, channel)
    weight, bias = shown.weight, shown.bias
    eps = float(f"{shown.eps:.3g}") if shown.eps > 1e-2 * NARROW**2 else 0.0
    if not tracks:
        return Numbers(weight, bias, None, None, eps)
    fixed = lines(z, played.life((False, z), obj=played.copied(whole))[0], channel)
    with np.errstate(all="ignore"):
        mean, inside = (bias - fixed.level) / fixed.slope, (weight / fixed.slope) ** 2
    return Numbers(weight, bias, mean, inside, eps)


class Part(NamedTuple):
    """A tensor, or a row of one, that holds a number per channel."""

    name: str
    row: int | None
    values: Array


def parts(played: Played, obj: Any, count: int) -> Iterator[Part]:
    """What an object holds per channel."""
    for name, held in played.held(obj).items():
        values = held.values
        if not held.floating:
            continue
        if values.size == count:
            yield Part(name, None, values)
        elif values.ndim and values.shape[0] in (2, 3, 4) and values.size == count * len(values):
            yield from (Part(name, row, values[row]) for row in range(len(values)))


def moved(played: Played, obj: Any, part: Part, seed: int) -> Any:
    """A copy of an object in which what a part holds is another."""
    rng = np.random.default_rng(seed)
    values = part.values * rng.uniform(1.1, 1.6, part.values.shape) + rng.uniform(
        0.05, 0.3, part.values.shape
    )
    return played.having(obj, part.name, part.row, values), values


def away(played: Played, count: int) -> Any:
    """A copy whose numbers per channel are away from those of a new layer, so that no two forms agree,
    and a factor shows on a bias that is zero as built.
    """
    start = played.copied(played.obj)
    for seed, part in enumerate(list(parts(played, start, count)), 11):
        start, _ = moved(played, start, part, seed)
    return start


def gap(one: Array, other: Array) -> float:
    """How far two measured numbers are apart, relative to their size."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(one), np.abs(other)).max() + 1e-3
        return float(np.nan_to_num(np.abs(one - other).max() / size, nan=np.inf))


def found(
    played: Played, channel: tuple[int, ...], tracks: bool
) -> tuple[dict[str, str], dict[str, Form], Numbers]:
    """Role -> attribute and role -> form, as far as calls tell, and what was measured."""
    count = int(np.prod([played.shape[axis] for axis in channel]))
    coarse = played.coarse
    start = away(played, count)
    before = numbers(played, channel, tracks, start)
    roles: dict[str, str] = {}
    forms: dict[str, Form] = {}
    for part in parts(played, start, count):
        live, values = moved(played, start, part, 3)
        after = numbers(played, channel, tracks, live)
        role = single(changed(played, before, after))
        if role is None or (role in roles and not preferred(role, part.name, roles[role])):
            continue
        form = form_of(part, values, before, after, role, COARSE if coarse else NEAR)
        if form is not None:
            roles[role] = part.name
            forms[role] = form
    plain = {role: form for role, form in forms.items() if form != Form()}
    return roles, plain, before


def modulated(
    played: Played, channel: tuple[int, ...], tracks: bool, before: Numbers
) -> frozenset[str]:
    """The roles that no attribute plays alone: weight or bias, where something else that is learned has a
    part in them and is not held per channel, as one factor for all; and the running variance, where
    a count of what was seen divides it and not the mean: then a sum of squares is held.
    """
    count = int(np.prod([played.shape[axis] for axis in channel]))
    start = away(played, count)
    each = {part.name for part in parts(played, start, count)}
    touched = set[str]()
    for name, held in played.held(start).items():
        if name in each or not held.size:
            continue
        if held.trained and held.floating:
            live, _ = moved(played, start, Part(name, None, held.values), 5)
            touched |= changed(played, before, numbers(played, channel, tracks, live)) & {*AFFINE}
        elif tracks and held.size == 1 and not held.trained and held.values.dtype.kind in "iuf":
            live = played.having(start, name, None, held.values + SEEN)
            acts = changed(played, before, numbers(played, channel, tracks, live))
            touched |= acts & {"running_var"} if "running_mean" not in acts else set()
    return frozenset(touched)


def changed(played: Played, before: Numbers, after: Numbers) -> set[str]:
    """The roles of which the measured number moved."""
    allowed = COARSE if played.coarse else MOVED
    return {
        role
        for role in (*AFFINE, *STATISTICS)
        if (one := before.of(role)) is not None
        and (two := after.of(role)) is not None
        and gap(one, two) > allowed
    }


def single(roles: set[str]) -> str | None:
    """The one role that an attribute plays of which several numbers moved; None where that is not
    told.
    """
    return next(iter(roles)) if len(roles) == 1 else None


def preferred(role: str, name: str, other: str) -> bool:
    """Whether a name is likelier than another for a role."""
    known = NAMES[role]
    ranks = [
        known.index(last) if (last := one.rpartition(".")[2]) in known else len(known)
        for one in (name, other)
    ]
    return ranks[0] < ranks[1]


def form_of(
    part: Part, values: Array, before: Numbers, after: Numbers, role: str, allowed: float
) -> Form | None:
    """The form in which a part tells the number of a role, seen at two of its values."""
    one, two = before.of(role), after.of(role)
    assert one is not None and two is not None
    # What eval mode divides by is the root of the variance with eps, which may be in it as held.
    insides = (before.eps, 0.0) if role == "running_var" else (0.0,)
    for kind, function in FORMS.items():
        with np.errstate(all="ignore"):
            told = [function.number(np.asarray(v).reshape(-1)) for v in (part.values, values)]
        gaps = [max(gap(told[0] + eps, one), gap(told[1] + eps, two)) for eps in insides]
        best = int(np.argmin(gaps))
        if gaps[best] < allowed:
            return Form(kind, insides[best] - insides[0], part.row)
    return None


def weight_of_fixed(played: Played, channel: tuple[int, ...], name: str) -> Form | None:
    """The form in which an attribute tells the weight of the map of eval mode, up to what its averages
    divide by: of a layer that normalizes by these in train mode as well. None where no form does.
    """
    count = int(np.prod([played.shape[axis] for axis in channel]))
    start = away(played, count)
    part = next((one for one in parts(played, start, count) if one.name == name), None)
    if part is None:
        return None
    live, values = moved(played, start, part, 3)
    z = played.draw(7, MANY, 1.0)
    slopes = [
        lines(z, played.life((False, z), obj=played.copied(obj))[0], channel).slope
        for obj in (start, live)
    ]
    for kind, function in FORMS.items():
        with np.errstate(all="ignore"):
            told = [function.number(np.asarray(v).reshape(-1)) for v in (part.values, values)]
            near = gap(slopes[0] / told[0], slopes[1] / told[1])
        if near < (COARSE if played.coarse else NEAR):
            return Form(kind, 0.0, part.row)
    return None


def constants(
    played: Played, channel: tuple[int, ...], measured: Numbers, fraction: float | None
) -> dict[str, str]:
    """Numbers of an object that play the roles of eps and of momentum, whatever their names: what
    is measured moves with them.
    """
    roles: dict[str, str] = {}
    wanted: Mapping[str, tuple[float, ...]] = {
        "eps": (measured.eps,) if measured.eps else (),
        "momentum": () if fraction is None else (fraction, 1 - fraction),
    }
    for name, value in played.constants():
        for role, likely in wanted.items():
            close = any(abs(value - one) <= 0.02 * abs(one) for one in likely)
            if role not in roles and close and _acts(played, channel, name, role, value):
                roles[role] = name
    counter = counted(played)
    return roles if counter is None else {**roles, "num_batches": counter}


def counted(played: Played) -> str | None:
    """The one tensor of a single whole number that each train-mode batch makes larger by one."""
    before = played.held()
    after = played.held(played.after(played.draw(8, 5), played.draw(9, 6)))
    found = [
        name
        for name, one in after.items()
        if one.size == 1
        and one.values.dtype.kind in "iu"
        and name in before
        and int(one.values.reshape(())) - int(before[name].values.reshape(())) == 2
    ]
    return found[0] if len(found) == 1 else None


def _acts(played: Played, channel: tuple[int, ...], name: str, role: str, value: float) -> bool:
    live = played.with_constant(name, 0.5 * value)
    if role == "eps":
        return abs(numbers(played, channel, False, live).eps / value - 0.5) < 0.05
    other = fraction(played, channel, live)
    return other is not None and min(abs(other - 0.5 * value), abs(1 - other - 0.5 * value)) < 0.02


def fraction(played: Played, channel: tuple[int, ...], obj: Any = None) -> float | None:
    """The fraction with which a train-mode batch enters the mean that eval mode takes away; None
    where that is not seen.
    """
    live = played.copied(played.obj if obj is None else obj)
    x, z = played.draw(8, 16), played.draw(9, 16, 1.0)
    before, _, after = played.life((False, z), (True, x), (False, z), obj=live)
    one, two = lines(z, before, channel), lines(z, after, channel)
    # Where the line crosses a level that no batch moves: the bias.
    bias = by_channel(played.life((True, x), obj=played.copied(played.obj))[0], channel).mean(1)
    with np.errstate(all="ignore"):
        old, new = (bias - one.level) / one.slope, (bias - two.level) / two.slope
        way = by_channel(x, channel).mean(1) - old
        found = float(((new - old) * way).sum() / (way**2).sum())
    return found if np.isfinite(found) and 1e-4 < found < 1 - 1e-4 else None
