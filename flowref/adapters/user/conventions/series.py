"""Log-dets that are power series, broken off after some terms, as those of invertible residual networks:
found by calls with more terms, and by derivatives that are taken along derivatives.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flowref.adapters.user.conventions import asking
from flowref.model import Dialect

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
        """What the target's line says of it."""
        if self.name:
            return f"log-det: a series of {self.terms} terms ({self.name}), judged with {self.more}"
        return f"log-det: a series of {self.terms} terms, held to {CHAINED:g}"

    def of(self, dialect: Dialect) -> Dialect:
        """The dialect whose calls take more terms."""
        if not self.name:
            return dialect
        calls = {"forward": dialect.forward, "inverse": dialect.inverse}
        more: dict[str, Any] = {
            key: partial(
                asking.with_attribute, call=call, path=self.path, name=self.name, value=self.more
            )
            for key, call in calls.items()
            if call is not None
        }
        return replace(dialect, **more)


def series_of(obj: Any, call: Any, x: Any, context: Any) -> Series | None:
    """The series that the log-det of a call is, or None. ``obj``: a copy in eval mode."""
    with contextlib.suppress(Exception):  # what it raises is the laws' affair
        if draws(obj, call, x, context):
            return None  # of an estimate any number moves the log-det less and less, by accident
    for path, part in _parts(obj):
        numbers = [
            (name, value)
            for name, value in vars(part).items()
            if type(value) is int and FEWEST <= value <= MOST and NAMED.search(name)
        ]
        for name, value in numbers[:TRIED]:
            with contextlib.suppress(Exception):  # it is the number of something else
                if more := _converges(obj, call, (x, context), (path, name, value)):
                    return Series(value, path, name, more)
    length = 0
    with contextlib.suppress(Exception):  # what it raises is the laws' affair
        length = longest_chain(partial(call, obj, x, context))
    return Series(length) if length >= SHORTEST else None


def draws(obj: Any, call: Any, x: Any, context: Any) -> bool:
    """Whether calls differ in their log-dets: an estimate, of which laws of its own speak."""
    import torch

    before = torch.get_rng_state()
    _, ladj = call(obj, x, context)
    # What draws nothing from the generator that probes come from is asked once more, and no oftener.
    times = 1 if torch.equal(torch.get_rng_state(), before) else CALLS
    others = (call(obj, x, context)[1] for _ in range(times if ladj is not None else 0))
    # What is no number in each call differs from none.
    return any(
        not bool(((ladj == other) | (ladj.isnan() & other.isnan())).all()) for other in others
    )


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
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
        out: tuple[Any, Any] = asking.with_attribute(
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


def longest_chain(call: Any) -> int:
    """How many derivatives a call takes one along the other: of the last result, as the terms of a
    series of products with a Jacobian are.
    """
    import torch

    plain, lengths, kept = torch.autograd.grad, {0: 0}, []

    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *more: Any, **named: Any) -> Any:
        given = grad_outputs if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        length = 1 + max(lengths.get(id(one), 0) for one in given)
        out = plain(outputs, inputs, grad_outputs, *more, **named)
        kept.append(out)  # their ids stay theirs
        lengths.update((id(one), length) for one in out)
        return out

    torch.autograd.grad = grad
    try:
        call()
    finally:
        torch.autograd.grad = plain
    return max(lengths.values())
