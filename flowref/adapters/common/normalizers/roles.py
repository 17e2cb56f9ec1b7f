"""Roles of a batch normalizer's attributes, and their parametrizations: each attribute is moved on a copy,
to see which measured number moves and how. Names decide between ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.common.normalizers.probe import (
    EVAL,
    MANY,
    TRAIN,
    Probe,
    channel_lines,
    counters,
)
from flowref.adapters.common.normalizers.spellings import NAMES, STATISTICS
from flowref.model import Array
from flowref.model.structure.forms import FORMS, Form
from flowref.model.structure.line_fits import (
    NARROW,
    by_channel,
    line_statistics,
    measure_constants,
    update_fraction,
)

# Tolerance for a measured number, threshold of its movement, tolerance in float32, and tolerance of
# a statistic, since eval mode adds eps.
NEAR, MOVED, COARSE, LOOSE = 1e-6, 1e-4, 2e-3, 1e-2
# Increment of a counter of samples.
SEEN = 7
AFFINE = ("weight", "bias")


class Numbers(NamedTuple):
    """Measured numbers of a batch normalizer by role, ``(channels,)`` each: weight, bias, mean and variance
    plus eps of eval mode, unless it has no own statistics; and eps.
    """

    by_role: Mapping[str, Array]
    eps: float


class ChannelArray(NamedTuple):
    """An array, or a row of one, with a number per channel."""

    name: str
    row: int | None
    values: Array


class Layer(NamedTuple):
    """A measured batch normalizer: its probe, its channel axes, and whether eval mode has its own
    statistics.
    """

    probe: Probe
    channel: tuple[int, ...]
    tracks: bool

    @property
    def channels(self) -> int:
        """The number of channels."""
        return int(np.prod([self.probe.shape[axis] for axis in self.channel]))

    def numbers(self, obj: Any = None) -> Numbers:
        """The measured numbers of the object, or of a modified copy."""
        probe, channel = self.probe, self.channel
        z = np.random.default_rng(7).standard_normal((MANY, *probe.shape))
        shown = measure_constants(lambda x: probe.life((TRAIN, x), obj=obj)[0], z, channel)
        eps = float(f"{shown.eps:.3g}") if shown.eps > 1e-2 * NARROW**2 else 0.0
        by_role = {"weight": shown.weight, "bias": shown.bias}
        if self.tracks:
            fixed = channel_lines(z, probe.life((EVAL, z), obj=obj)[0], channel)
            by_role |= zip(
                STATISTICS, line_statistics(fixed.slope, fixed.level, shown), strict=True
            )
        return Numbers(by_role, eps)

    def fraction(self, obj: Any = None) -> float | None:
        """The fraction with which a train-mode batch updates the eval-mode mean; None if not visible."""
        probe, channel = self.probe, self.channel
        x, z = probe.draw(8, 16), probe.draw(9, 16, 1.0)
        before, y, after = probe.life((EVAL, z), (TRAIN, x), (EVAL, z), obj=obj)
        # The bias is the output level that no batch changes.
        bias = by_channel(y, channel).mean(1)
        with np.errstate(all="ignore"):
            old, new = (
                (bias - one.level) / one.slope
                for one in (channel_lines(z, shown, channel) for shown in (before, after))
            )
        found = update_fraction(by_channel(x, channel).mean(1), old, new)
        return found if np.isfinite(found) and 1e-4 < found < 1 - 1e-4 else None

    def parts(self, obj: Any) -> Iterator[ChannelArray]:
        """The parts of an object with a number per channel."""
        for name, held in self.probe.held(obj).items():
            values = held.values
            if held.floating and values.size == self.channels:
                yield ChannelArray(name, None, values)
            elif (
                held.floating
                and values.ndim
                and values.shape[0] in (2, 3, 4)
                and values.size == self.channels * len(values)
            ):
                yield from (ChannelArray(name, row, values[row]) for row in range(len(values)))

    def moved(self, obj: Any, part: ChannelArray, seed: int) -> tuple[Any, Array]:
        """A copy of the object with a part replaced, and the new values."""
        rng = np.random.default_rng(seed)
        values = part.values * rng.uniform(1.1, 1.6, part.values.shape)
        values = values + rng.uniform(0.05, 0.3, part.values.shape)
        whole = values
        if part.row is not None:
            whole = np.array(self.probe.held(obj)[part.name].values)
            whole[part.row] = values
        return self.probe.having(obj, part.name, whole), values

    def away(self) -> Any:
        """A copy with per-channel numbers away from their initial values, so that parametrizations differ
        and a factor shows on a bias of zero.
        """
        start = self.probe.obj
        for seed, part in enumerate(list(self.parts(start)), 11):
            start, _ = self.moved(start, part, seed)
        return start

    @property
    def tolerance(self) -> float:
        """The tolerance for equal numbers."""
        return COARSE if self.probe.coarse else NEAR

    def changed(self, before: Numbers, after: Numbers) -> set[str]:
        """The roles whose measured number moved."""
        allowed = COARSE if self.probe.coarse else MOVED
        return {
            role
            for role, number in before.by_role.items()
            if relative_gap(number, after.by_role[role]) > allowed
        }

    def roles(self, named: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Form]]:
        """Role -> attribute, and role -> parametrization if it is not the identity: by calls first, then
        constants, then names if calls do not contradict.
        """
        roles, forms, shared, eps = self.per_channel()
        kept = {
            role: path
            for role, path in named.items()
            if path not in roles.values() and role not in shared
        }
        constants = self.constants(eps) if self.tracks else {}
        return {**constants, **kept, **roles}, forms

    def per_channel(self) -> tuple[dict[str, str], dict[str, Form], set[str], float]:
        """Roles of arrays by calls, with parametrizations; roles that several attributes determine jointly;
        eps.
        """
        start = self.away()
        before = self.numbers(start)
        names, forms, shared = dict[str, str](), dict[str, Form](), set[str]()
        parts = list(self.parts(start))
        for part in parts:
            live, values = self.moved(start, part, 3)
            after = self.numbers(live)
            roles = self.changed(before, after)
            role = roles.pop() if len(roles) == 1 else ""
            if not role or (role in names and not likelier(role, part.name, names[role])):
                continue
            # The eval-mode divisor is sqrt(variance + eps), and the held number may include eps.
            eps = before.eps if role == "running_var" else 0.0
            shown = [each.by_role[role] - eps for each in (before, after)]
            form = form_of(part.row, (part.values, values), shown, self.tolerance, (0.0, -eps))
            if form is not None:
                names[role], forms[role] = part.name, form
        for name, held in self.probe.held(start).items():
            if name not in {part.name for part in parts} and held.size:
                shared |= self._acting(start, before, name)
        kept = [
            role
            for role in names
            if role not in shared and self.stays(role, names[role], forms[role])
        ]
        names = {role: names[role] for role in kept}
        return (
            names,
            {role: forms[role] for role in kept if forms[role] != Form()},
            shared,
            before.eps,
        )

    def _acting(self, start: Any, before: Numbers, name: str) -> set[str]:
        """Roles that depend on something that is not held per channel: weight or bias on a learned common
        factor; the running variance on a counter that divides it but not the mean, since a sum of squares
        is held.
        """
        held = self.probe.held(start)[name]
        if held.trained and held.floating:
            live, _ = self.moved(start, ChannelArray(name, None, held.values), 5)
            return self.changed(before, self.numbers(live)) & {*AFFINE}
        if self.tracks and held.size == 1 and not held.trained and held.values.dtype.kind in "iuf":
            live = self.probe.having(start, name, held.values + SEEN)
            roles = self.changed(before, self.numbers(live))
            return roles & {"running_var"} if "running_mean" not in roles else set()
        return set()

    def stays(self, role: str, name: str, form: Form) -> bool:
        """Whether an array is a running statistic after training, too, rather than one divided by the total
        weight of batches (bias correction).
        """
        if role not in STATISTICS:
            return True
        late = self.probe.after(self.probe.draw(31, 9, 3.0) + 2)
        after = self.numbers(late).by_role[role]
        return (
            relative_gap(after, form.number(self.probe.held(late)[name].values).reshape(-1)) < LOOSE
        )

    def constants(self, eps: float) -> dict[str, str]:
        """Role -> Python number, confirmed by calls with half of it; and the counter."""
        fraction = self.fraction()
        likely: Mapping[str, Sequence[float]] = {
            "eps": (eps,) if eps else (),
            "momentum": () if fraction is None else (fraction, 1 - fraction),
        }
        roles = dict[str, str]()
        for name, value in self.probe.constants():
            for role, numbers in likely.items():
                close = any(abs(value - one) <= 0.02 * abs(one) for one in numbers)
                if role not in roles and close and self._sets(role, name, value):
                    roles[role] = name
        held = self.probe.held()
        counts = [name for name in counters(self.probe) if held[name].values.dtype.kind in "iu"]
        return {**roles, "num_batches": counts[0]} if len(counts) == 1 else roles

    def _sets(self, role: str, name: str, value: float) -> bool:
        """Whether halving a constant halves the measured number."""
        live, half = self.probe.with_constant(name, 0.5 * value), 0.5 * value
        if role == "eps":
            return abs(self._replace(tracks=False).numbers(live).eps / value - 0.5) < 0.05
        other = self.fraction(live)
        return other is not None and min(abs(other - half), abs(1 - other - half)) < 0.02

    def fixed_weight(self, name: str) -> Form | None:
        """The parametrization of the eval-mode weight, up to the divisor of averages, for a layer that uses
        these in train mode as well; None if none fits.
        """
        start = self.away()
        part = next((one for one in self.parts(start) if one.name == name), None)
        if part is None:
            return None
        live, values = self.moved(start, part, 3)
        z = self.probe.draw(7, MANY, 1.0)
        slopes = [
            channel_lines(z, self.probe.life((EVAL, z), obj=obj)[0], self.channel).slope
            for obj in (start, live)
        ]
        return form_of(part.row, (part.values, values), slopes, self.tolerance, ratio=True)


def relative_gap(one: Array, other: Array) -> float:
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(one), np.abs(other)).max() + 1e-3
        return float(np.nan_to_num(np.abs(one - other).max() / size, nan=np.inf))


def likelier(role: str, name: str, other: str) -> bool:
    """Whether a name fits a role better than another one."""
    known = NAMES[role]
    ranks = [
        known.index(last) if (last := one.rpartition(".")[2]) in known else len(known)
        for one in (name, other)
    ]
    return ranks[0] < ranks[1]


def form_of(
    row: int | None,
    held: Sequence[Array],
    shown: Sequence[Array],
    allowed: float,
    offsets: Sequence[float] = (0.0,),
    ratio: bool = False,
) -> Form | None:
    """The parametrization of a number, from two held values and the numbers shown for them, ``(channels,)``
    each; ``ratio``: up to a factor. None if none fits.
    """
    for kind, function in FORMS.items():
        with np.errstate(all="ignore"):
            numbers = [function.number(np.asarray(each).reshape(-1)) for each in held]
            want = shown
            if ratio:
                numbers, want = [numbers[1] / numbers[0]], [shown[1] / shown[0]]
        gaps = [
            max(relative_gap(one + offset, other) for one, other in zip(numbers, want, strict=True))
            for offset in offsets
        ]
        best = int(np.argmin(gaps))
        if gaps[best] < allowed:
            return Form(kind, offsets[best], row)
    return None
