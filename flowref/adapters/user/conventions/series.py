"""Log-dets that are truncated power series, as in invertible residual networks, found by calls with more
terms and by nested derivatives; and log-dets estimated with random probes, as by Hutchinson's trace
estimator, found by calls whose values agree and log-dets do not.
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

# Names and sizes of numbers of terms.
NAMED = re.compile(r"term|series|power|order|trunc|trace|iter|deg", re.IGNORECASE)
FEWEST, MOST = 2, 200
# Maximal number of attributes tried, terms added until nothing changes, and the tolerance.
TRIED, ADDED, SETTLED = 12, (10, 20, 40, 80), 1e-12
# Calls compared with the first: a random sign shared by all rows has the same quadratic form as its
# negative, half of all cases for two entries.
CALLS = 24
# Tolerances of a series whose terms can be added, and of one recognized by nested derivatives; the
# minimal nesting.
HELD, CHAINED, SHORTEST = 1e-6, 1e-2, 2
ESTIMATE = "estimate"


@dataclass(frozen=True)
class Series:
    """A log-det that is a series of ``terms`` terms: set by the attribute ``name`` of the part at ``path``
    and tested with ``more``; or not adjustable, with ``name`` empty.
    """

    terms: int
    path: str = ""
    name: str = ""
    more: int = 0

    @property
    def tolerance(self) -> float:
        """The tolerance of its log-det."""
        return HELD if self.name else CHAINED

    @property
    def words(self) -> str:
        """A description."""
        if self.name:
            return f"a series of {self.terms} terms ({self.name}), judged with {self.more}"
        return f"a series of {self.terms} terms, held to {CHAINED:g}"

    def of(self, call: Any) -> Any:
        """A call with more terms; None if they cannot be adjusted."""
        if call is None or not self.name:
            return call
        return partial(
            method_calls.with_attribute, call=call, path=self.path, name=self.name, value=self.more
        )


class Seen(NamedTuple):
    """Calls at the same points: whether log-dets differ, whether values agree, and the number of nested
    derivatives.
    """

    drawn: bool
    steady: bool
    chain: int


def rule_of(obj: Any, x: Any, context: Any, call: Any, searched: bool) -> Series | str:
    """The series of a call's log-det, or `ESTIMATE`; else empty. ``obj``: a copy in eval mode.
    ``searched``: whether to search for a series.
    """
    try:
        seen = _observed_series(obj, call, x, context)
    except Exception:  # exceptions are reported by laws
        return ""
    if seen.drawn or not searched:
        # Any number changes an estimate's log-det by decreasing amounts by accident.
        return ESTIMATE if seen.drawn and seen.steady and seen.chain > 0 else ""
    for path, part in _modules_by_name(obj):
        numbers = [
            (name, value)
            for name, value in vars(part).items()
            if type(value) is int and FEWEST <= value <= MOST and NAMED.search(name)
        ]
        for name, value in numbers[:TRIED]:
            with contextlib.suppress(Exception):  # a number of something else
                if more := _converges(obj, call, (x, context), (path, name, value)):
                    return Series(value, path, name, more)
    return Series(seen.chain) if seen.chain >= SHORTEST else ""


def density_as_log_det(obj: Any, x: Any, context: Any, dense: Any) -> Any:
    """A log-density as the log-det of an identity map."""
    return x, dense(obj, x, context)


def _observed_series(obj: Any, call: Any, x: Any, context: Any) -> Seen:
    import torch

    before = torch.get_rng_state()
    (value, ladj), chain = _chained(partial(call, obj, x, context))
    # A call that does not use the probe generator is repeated once only.
    times = 1 if torch.equal(torch.get_rng_state(), before) else CALLS
    for _ in range(times if ladj is not None else 0):
        other, again = call(obj, x, context)
        # NaN in every call counts as equal.
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
    """The number of terms at which the log-det has converged, if more terms change it less and less and the
    value not at all; else 0.
    """
    path, name, value = place

    def with_terms(terms: int) -> tuple[Any, Any]:
        out: tuple[Any, Any] = method_calls.with_attribute(
            obj, *point, call=call, path=path, name=name, value=terms
        )
        return out

    outs = [with_terms(value + more) for more in range(4)]
    if any(ladj is None or not bool((z == outs[0][0]).all()) for z, ladj in outs):
        return 0
    steps = [
        float((one[1] - other[1]).abs().max())
        for one, other in zip(outs[1:], outs[:-1], strict=True)
    ]
    if not steps[0] > steps[1] > steps[2] > 0:
        return 0
    for more in ADDED:
        if (
            float((with_terms(value + more)[1] - with_terms(value + more + 1)[1]).abs().max())
            < SETTLED
        ):
            return value + more
    return value + ADDED[-1]


def _chained(call: Any) -> tuple[Any, int]:
    """The result of a call, and its number of nested derivatives: of derivatives of the last result, as in
    a series of Jacobian products.
    """
    import torch

    plain, lengths, kept = torch.autograd.grad, {0: 0}, []

    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *more: Any, **named: Any) -> Any:
        given = grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        length = 1 + max(lengths.get(id(one), 0) for one in given)
        made = plain(outputs, inputs, grad_outputs, *more, **named)
        kept.append(made)  # keeps ids unique
        lengths.update((id(one), length) for one in made)
        return made

    torch.autograd.grad = grad
    try:
        out = call()
    finally:
        torch.autograd.grad = plain
    return out, max(lengths.values())
