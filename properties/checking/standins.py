"""A law and a subject of a few lines, in numpy: what the judging room is tried on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flowref.checking.judgement import Judgement
from flowref.checking.measurement import DOUBLE, Measurement, Precision, measure
from flowref.checking.tolerance import judge
from flowref.model import (
    REAL,
    ROUNDING,
    Batch,
    Condition,
    Facts,
    Law,
    Residual,
    Subject,
    Support,
    law,
)
from flowref.model.abilities import Flow

UNIT = DOUBLE.unit
# How far noise moves the residual of a stand-in, in units of the noise.
RESPONSE = 3.0


@dataclass
class Standin:
    """A law whose residual is a function of the batch alone, and a subject that is nothing but
    noise, which moves that residual.

    ``residual(batch)`` is ``(rows,)``; ``details`` are those of the law, ``more`` those of what it
    measures. ``seeds`` are those of the noise that was asked for, ``measured`` the batches that the
    law was measured on.
    """

    residual: Callable[[Batch], Any]
    features: int = 4
    support: Support = REAL
    response: Callable[[float], float] = lambda magnitude: RESPONSE * magnitude
    details: dict[str, Any] = field(default_factory=dict)
    more: Callable[[Batch], dict[str, Any]] = lambda batch: {}
    seeds: list[int] = field(default_factory=list)
    measured: list[Batch] = field(default_factory=list)
    level: float = 0.0

    @property
    def subject(self) -> Subject:
        """The subject."""
        facts = Facts((self.features,), domain=self.support)
        return Subject(name="stand-in", facts=facts, noise=self.noise)

    @property
    def law(self) -> Law:
        """The law."""
        stated = law("test/stand-in", tolerance=ROUNDING)(self.measure)
        return replace(stated, **self.details)

    @contextlib.contextmanager
    def noise(self, seed: int, magnitude: float) -> Iterator[None]:
        """Noise that moves every residual alike, up or down as the seed says."""
        self.seeds.append(seed)
        sign = np.random.default_rng(seed % 2**63).choice((-1.0, 1.0))
        self.level = float(sign * self.response(magnitude))
        try:
            yield
        finally:
            self.level = 0.0

    def measure(self, flow: Flow, batch: Batch) -> Residual:
        """What the law measures."""
        self.measured.append(batch)
        return Residual(self.residual(batch) + self.level, **{"scale": 1.0, **self.more(batch)})

    def measurement(
        self,
        x: Any,
        *,
        context: Any = None,
        precision: Precision = DOUBLE,
        condition: Condition | None = None,
    ) -> Measurement:
        """The law measured on points, ``(rows, features)`` or what becomes that."""
        points = np.asarray(x, dtype=np.float64).reshape(-1, self.features)
        batch = Batch(points, None if context is None else np.asarray(context, float), 5)
        residual = measure(self.law, self.subject, batch)
        return Measurement(
            self.law, self.subject, batch, residual, precision, 0, condition or Condition()
        )

    def judged(self, x: Any, **details: Any) -> Judgement:
        """The judgement on points."""
        return judge(self.measurement(x, **details))


def allowed(response: float = RESPONSE) -> float:
    """What the stated formula allows a point of scale one: k (s / M + u / 4), with s = M u times
    the response.
    """
    return DOUBLE.factor * (response * UNIT + UNIT / 4)
