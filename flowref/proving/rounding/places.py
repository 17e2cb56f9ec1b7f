"""Bounds for the calls of a target on a box."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from flowref.model import SpecError
from flowref.proving.certificates import Certificate
from flowref.proving.compositions import Call, Calls, detached
from flowref.proving.criteria import LAWS
from flowref.proving.rounding.boxes import Bound, Box, Promised, box_bounds, run_on
from flowref.proving.rounding.intervals import Intervals
from flowref.proving.rounding.refutations import compared_log_dets, refutation


class Place:
    """Bounds for the calls of a target on a box: the one in ``text``, or the domain if none is
    given and it is bounded. Raises `SpecError`.
    """

    def __init__(self, calls: Calls, text: str) -> None:
        facts = calls.recipe.facts
        entries = math.prod(facts.event_shape)
        self.calls, self.domain = calls, facts.domain
        box = Box.parse(text, entries) if text else Box.of(self.domain, entries)
        self.box = box and box.within(self.domain)
        if text and self.box is None:
            raise SpecError(
                f"--box was given as {text!r}, which does not meet the domain, {self.domain}; expected a part of it"
            )

    def shown(self, claim: Certificate) -> Certificate:
        """A certificate of forward, or of a composition that begins with it, with bounds for its
        graph.
        """
        if claim.graph is None:
            return claim
        found: tuple[Bound, ...] = ()
        if self.box is not None:
            law = LAWS[claim.law]
            found = tuple(box_bounds(claim.graph, law, claim.proof, self.box, self.promised))
            if any(one.box for one in found) and not self.holds_the_object:
                reason = (
                    "the object is rounded differently from the decompositions of its operators"
                )
                found = tuple(Bound(one.kind, one.asked, reason=reason) for one in found)
        gap, certainty = None, self.calls.recipe.facts.certainty
        # A declared estimate is not exact.
        exact = not certainty.estimate and not certainty.log_det
        if exact and not claim.proof.proved and claim.law == "log-det":
            context = self.calls.prepared[2]
            given = None if context is None else np.asarray(detached(context), float)
            gap = refutation(claim.graph, self._points(), self.domain, self._measured, given)
        return replace(claim, bounds=found, refutation=gap)

    @property
    def promised(self) -> Promised:
        """The declarations of its map, if the ends of the codomain are the same for all entries."""
        facts = self.calls.recipe.facts
        codomain = facts.codomain
        ends = (
            [] if codomain is None or codomain.joint else [np.unique(one) for one in codomain.ends]
        )
        known = bool(ends) and all(len(one) == 1 for one in ends) and np.isfinite(ends).any()
        return Promised(
            (float(ends[0][0]), float(ends[1][0])) if known else None,
            "contraction" in facts.promises and facts.latent_shape in (None, facts.event_shape),
        )

    @cached_property
    def holds_the_object(self) -> bool:
        """Whether forward's results at points of the box are in the intervals there."""
        points = self._points()
        graph = self.calls.part("forward", self.calls.points).graph
        if graph.given is not None:
            return False
        values = run_on(graph, points, points, slopes=False)
        results = self._run(self.calls.call("forward"), points)
        for ref, number in zip(graph.outputs, results, strict=True):
            if ref is not None and isinstance(found := values[ref.name], Intervals):
                rows = found.shape and found.shape[0] == graph.points[1][0]
                low, high, fine = (
                    one[:, 0] if rows else one for one in (*found.ends, found.bounded)
                )
                if not (~fine | ((low <= number) & (number <= high))).all():
                    return False
        return True

    def _points(self) -> Any:
        """Drawn points, (count, entries), in the box if there is one."""
        if self.box is None:
            drawn = [np.asarray(detached(one), float) for one in self.calls.points]
            return np.concatenate(drawn).reshape(-1, math.prod(self.calls.recipe.facts.event_shape))
        low, high = np.array(self.box.low), np.array(self.box.high)
        return low + (high - low) * np.random.default_rng(0).random(
            (len(self.calls.points), len(low))
        )

    def _measured(self, point: Any) -> tuple[float, float]:
        """The log-det that the object reports at a point, and that of the Jacobian of its values,
        by differences.
        """
        forward = self.calls.call("forward")
        return compared_log_dets(lambda points: self._run(forward, points), point)

    def _run(self, call: Call, points: Any) -> tuple[Any, Any]:
        """The results of a call at points, (count, entries)."""
        recipe, (obj, _, context) = self.calls.recipe, self.calls.prepared
        with recipe.backend.sandbox(0, recipe.dtype):
            batch = recipe.backend.tensor(
                points.reshape(-1, *recipe.facts.event_shape), recipe.dtype
            )
            given = context
            if context is not None:
                one = np.asarray(detached(context))[:1]
                given = recipe.backend.tensor(np.repeat(one, len(points), 0), recipe.dtype)
            value, ladj = call(obj, batch, given)
            return np.asarray(detached(value)), None if ladj is None else np.asarray(detached(ladj))
