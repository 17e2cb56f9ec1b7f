"""Log-dets that are power series, broken off after some terms, as those of invertible residual networks, found by calls
with more terms, and by derivatives that are taken along derivatives; and those that are estimated with random
probes, as Hutchinson's estimate of a trace is, of which the values of calls agree and the log-dets do not.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from flowref.adapters.user.conventions import method_calls
from flowref.adapters.user.solvers import steps_differ

# Numbers that may be those of terms, by how they are called and by how large they are.
NAMED = re.compile(r"term|series|power|order|trunc|trace|iter|deg", re.IGNORECASE)
FEWEST, MOST = 2, 200
# How many attributes are tried, and terms that are added until another one changes nothing.
TRIED, ADDED, SETTLED = 12, (10, 20, 40, 80), 1e-12
# Estimates of so many calls are compared with the first: a probe of two signs that all rows share has the
# same product as its negative, which is half of all there are of two entries.
CALLS = 24
# What a series is held to, whose terms can be added, and one of which a chain of so many derivatives
# tells.
HELD, CHAINED, SHORTEST = 1e-6, 1e-2, 2
ESTIMATE = "estimate"


@dataclass(frozen=True)
class Series:
    """A log-det that is a series of ``terms``: by the attribute ``name`` of the part at ``path``,
    judged with ``more``; or by no attribute, ``name`` empty.
    """

    terms: int
    path: str = ""
    name: str = ""
    more: int = 0

    @property
    def tolerance(self) -> float:
        """What its log-det is held to."""
        return HELD if self.name else CHAINED

    @property
    def words(self) -> str:
        """What it is, for a reader."""
        if self.name:
            return f"a series of {self.terms} terms ({self.name}), judged with {self.more}"
        return f"a series of {self.terms} terms, held to {CHAINED:g}"

    def of(self, call: Any) -> Any:
        """A call with more terms; None where there is none."""
        if call is None or not self.name:
            return call
        return partial(
            method_calls.with_attribute, call=call, path=self.path, name=self.name, value=self.more
        )


class Seen(NamedTuple):
    """What calls at the same points show: whether their log-dets differ, and the values do not, and how many
    derivatives one takes along the other.
    """

    drawn: bool
    steady: bool
    chain: int


def rule_of(obj: Any, x: Any, context: Any, call: Any, searched: bool) -> Series | str:
    """The series that the log-det of a call is, or `ESTIMATE`; empty of all else. ``obj``: a copy in eval mode.
    ``searched``: whether it may be a series.
    """
    try:
        seen = _observed_series(obj, call, x, context)
    except Exception:  # what it raises is the laws' affair
        return ""
    if seen.drawn or not searched:
        # Of an estimate any number moves the log-det less and less, by accident.
        return ESTIMATE if seen.drawn and seen.steady and seen.chain > 0 else ""
    for path, part in _modules_by_name(obj):
        numbers = [
            (name, value)
            for name, value in vars(part).items()
            if type(value) is int and FEWEST <= value <= MOST and NAMED.search(name)
        ]
        for name, value in numbers[:TRIED]:
            with contextlib.suppress(Exception):  # it is the number of something else
                if more := _converges(obj, call, (x, context), (path, name, value)):
                    return Series(value, path, name, more)
    return Series(seen.chain) if seen.chain >= SHORTEST else ""


def beside_nothing(obj: Any, x: Any, context: Any, dense: Any) -> Any:
    """A log-density as the log-det of a map of which nothing is known."""
    return x, dense(obj, x, context)


def _observed_series(obj: Any, call: Any, x: Any, context: Any) -> Seen:
    import torch

    before = torch.get_rng_state()
    (value, ladj), chain = _chained(partial(call, obj, x, context))
    # What draws nothing from the generator that probes come from is asked once more, and no oftener.
    times = 1 if torch.equal(torch.get_rng_state(), before) else CALLS
    for _ in range(times if ladj is not None else 0):
        other, again = call(obj, x, context)
        # What is no number in each call differs from none.
        if not bool(((ladj == again) | (ladj.isnan() & again.isnan())).all()):
            same = bool((value == other).all()) or _steps_differ(obj, (value, other), (ladj, again))
            return Seen(True, same, chain)
    return Seen(False, True, chain)


def _steps_differ(obj: Any, values: tuple[Any, Any], estimates: tuple[Any, Any]) -> bool:
    one, other, first, second = (each.detach().cpu().numpy() for each in (*values, *estimates))
    return steps_differ(obj, (one, other), (first, second))


def _modules_by_name(obj: Any) -> Iterator[tuple[str, Any]]:
    if callable(getattr(obj, "named_modules", None)):
        yield from obj.named_modules()
    elif hasattr(obj, "__dict__"):
        yield "", obj


def _converges(obj: Any, call: Any, point: tuple[Any, Any], place: tuple[str, str, int]) -> int:
    """With how many terms the log-det has settled, where more change it less and less and the value
    not at all; 0 where they do not.
    """
    path, name, value = place

    def told(terms: int) -> tuple[Any, Any]:
        out: tuple[Any, Any] = method_calls.with_attribute(
            obj, *point, call=call, path=path, name=name, value=terms
        )
        return out

    outs = [told(value + more) for more in range(4)]
    if any(ladj is None or not bool((z == outs[0][0]).all()) for z, ladj in outs):
        return 0
    steps = [
        float((one[1] - other[1]).abs().max())
        for one, other in zip(outs[1:], outs[:-1], strict=True)
    ]
    if not steps[0] > steps[1] > steps[2] > 0:
        return 0
    for more in ADDED:
        if float((told(value + more)[1] - told(value + more + 1)[1]).abs().max()) < SETTLED:
            return value + more
    return value + ADDED[-1]


def _chained(call: Any) -> tuple[Any, int]:
    """What a call returns, and how many derivatives it takes one along the other: of the last result, as the terms of a
    series of products with a Jacobian are.
    """
    import torch

    plain, lengths, kept = torch.autograd.grad, {0: 0}, []

    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *more: Any, **named: Any) -> Any:
        given = grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        length = 1 + max(lengths.get(id(one), 0) for one in given)
        made = plain(outputs, inputs, grad_outputs, *more, **named)
        kept.append(made)  # their ids stay theirs
        lengths.update((id(one), length) for one in made)
        return made

    torch.autograd.grad = grad
    try:
        out = call()
    finally:
        torch.autograd.grad = plain
    return out, max(lengths.values())
