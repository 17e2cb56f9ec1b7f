"""Which statements of a target are proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from flowref.loading import recipe_of
from flowref.model import SpecError, Target, Unsupported, one_line
from flowref.model.graph import Branches, Graph, Ref
from flowref.proving.boxes import Bound, Box, bounds, run_on
from flowref.proving.certificates import Certificate
from flowref.proving.compositions import POINT, Call, Calls, Composition, detached
from flowref.proving.criteria import LAWS
from flowref.proving.identities import WEIGHTS, Proof, identity, numbers_of
from flowref.proving.intervals import Intervals
from flowref.proving.refutations import differences, refutation
from flowref.proving.repairs import repairs

# Operations of a round trip, and numbers in a run of residues, up to which an audit asks for proofs: a second or two; and up to
# which there are any: minutes.
OPERATIONS, NUMBERS = 2_000, 2_000_000
MOST_OPERATIONS, MOST_NUMBERS = 20_000, 100_000_000


@dataclass(frozen=True)
class Most:
    """How much a proof may take: operations of a round trip, and numbers in a run of residues."""

    operations: int = OPERATIONS
    numbers: int = NUMBERS


@dataclass(frozen=True)
class Statement:
    """``words``: as a sentence; ``law``: of `LAWS`; ``needs``: which calls of a dialect; ``results``: that the law is of, of the
    calls; ``latents``: whether points are images of forward.
    """

    words: str
    law: str
    needs: tuple[str, ...]
    results: Callable[[Composition], tuple[Ref, Ref | None]]
    latents: bool = False


def _round_trip(of: Composition) -> tuple[Ref, Ref]:
    z, _ = of.call("forward")
    return of.call("inverse", z)[0], POINT


def _round_trip_of_latents(of: Composition) -> tuple[Ref, Ref]:
    x, _ = of.call("inverse")
    return of.call("forward", x)[0], POINT


def _opposite(of: Composition) -> tuple[Ref, Ref | None]:
    z, told = of.call("forward")
    return of.negative(of.call("inverse", z)[1]), told


def _densities(of: Composition) -> tuple[Ref, Ref]:
    z, told = of.call("forward")
    return of.call("log_prob")[0], of.sum(of.call("base_log_prob", z)[0], told)


BOTH = ("forward", "inverse")
STATEMENTS = {
    "map/log-det": Statement(
        "the log-det that forward reports is log |det J_f(x)|",
        "log-det",
        ("forward",),
        lambda of: of.call("forward"),
    ),
    "map/log-det[inverse]": Statement(
        "the log-det that the inverse reports is that of its Jacobian",
        "log-det",
        BOTH,
        lambda of: of.call("inverse"),
        latents=True,
    ),
    "map/inverse": Statement("the inverse of f(x) is x", "equal", BOTH, _round_trip),
    "map/inverse[latents]": Statement(
        "f of the inverse of z is z", "equal", BOTH, _round_trip_of_latents, latents=True
    ),
    "map/log-det[antisymmetry]": Statement(
        "the log-det of the inverse at f(x) is minus that of forward at x", "equal", BOTH, _opposite
    ),
    "density/change-of-variables": Statement(
        "the log-density is that of the base at f(x) plus the log-det",
        "equal",
        ("forward", "log_prob", "base_log_prob"),
        _densities,
    ),
}


def certified(
    target: Target,
    statements: Sequence[str] = tuple(STATEMENTS),
    *,
    quick: bool = False,
    box: str = "",
) -> Iterator[Certificate]:
    """A certificate for each statement, or why there is none, with edits that are proved to mend a log-det; ``quick``: where
    that takes seconds, as in an audit, and no more than that. Else with what is shown on a ``box``, as it is written, by
    default the domain where that is bounded, and with a box on which a log-det is wrong. Raises `TargetError` and `SpecError`
    of the target and of the box.
    """
    calls, most = calls_of(target), Most() if quick else Most(MOST_OPERATIONS, MOST_NUMBERS)
    place = Place(calls, box)
    for name in statements:
        found = certificate_of(calls, str(target), name, STATEMENTS[name], most, edits=True)
        yield found if quick else place.shown(found, STATEMENTS[name])


def clause(target: Target, law: str) -> str:
    """For what a law of a target is proved, as a clause; empty where it is not, where it is none of `STATEMENTS`, or where
    that takes long.
    """
    if law not in STATEMENTS:
        return ""
    return certificate_of(calls_of(target), str(target), law, STATEMENTS[law], Most()).proof.clause


def repairs_of(target: Target, law: str) -> tuple[str, ...]:
    """Edits of a target's code with which a law of log-dets is proved, in words, the smallest first; none where none is
    found, or where that takes long.
    """
    if law not in STATEMENTS or STATEMENTS[law].law != "log-det":
        return ()
    try:
        graph, paths = _traced(calls_of(target), STATEMENTS[law], Most())
    except Unsupported:
        return ()
    return tuple(map(str, repairs(graph, paths)))


class Place:
    """What is shown of the calls of a target on a box: that of its text, or the domain where none is given and it is bounded.
    Raises: `SpecError`.
    """

    def __init__(self, calls: Calls, text: str) -> None:
        facts = calls.recipe.facts
        entries = math.prod(facts.event_shape)
        self.calls, self.domain = calls, facts.domain
        told = Box.parse(text, entries) if text else Box.of(self.domain, entries)
        self.box = told and told.within(self.domain)
        if text and self.box is None:
            raise SpecError(
                f"--box was given as {text!r}, of which nothing is in the domain, {self.domain}; expected a part of it"
            )

    def shown(self, claim: Certificate, statement: Statement) -> Certificate:
        """A certificate with what is shown of its graph."""
        if claim.graph is None or statement.latents:
            return claim
        found: tuple[Bound, ...] = ()
        if self.box is not None:
            found = tuple(bounds(claim.graph, LAWS[claim.law], claim.proof, self.box))
            if any(one.box for one in found) and not self.holds_the_object:
                reason = "what the object computes is rounded otherwise than what its operators are taken apart into"
                found = tuple(Bound(one.kind, one.asked, reason=reason) for one in found)
        gap = None
        if not claim.proof.proved and statement.law == "log-det":
            context = self.calls.prepared[2]
            given = None if context is None else np.asarray(detached(context), float)
            measure = partial(self._measured, statement)
            gap = refutation(claim.graph, self._points(), self.domain, measure, given)
        return replace(claim, bounds=found, refutation=gap)

    @cached_property
    def holds_the_object(self) -> bool:
        """Whether what forward gives at points of the box is between the ends that intervals have there."""
        points = self._points()
        graph = self.calls.part("forward", self.calls.points).graph
        if graph.given is not None:
            return False
        values = run_on(graph, points, points, slopes=False)
        told = self._run(self.calls.call("forward"), points)
        for ref, number in zip(graph.outputs, told, strict=True):
            if ref is not None and isinstance(found := values[ref.name], Intervals):
                rows = found.shape and found.shape[0] == graph.points[1][0]
                low, high, fine = (
                    one[:, 0] if rows else one for one in (*found.ends, found.bounded)
                )
                if not (~fine | ((low <= number) & (number <= high))).all():
                    return False
        return True

    def _points(self) -> Any:
        """Points that are drawn: (count, entries), in the box where there is one."""
        if self.box is None:
            drawn = [np.asarray(detached(one), float) for one in self.calls.points]
            return np.concatenate(drawn).reshape(-1, math.prod(self.calls.recipe.facts.event_shape))
        low, high = np.array(self.box.low), np.array(self.box.high)
        return low + (high - low) * np.random.default_rng(0).random(
            (len(self.calls.points), len(low))
        )

    def _measured(self, statement: Statement, point: Any) -> tuple[float, float]:
        """The log-det that the object reports at a point, and that of the Jacobian of what it computes, by differences."""
        call = self.calls.call(statement.needs[0])
        return differences(lambda points: self._run(call, points), point)

    def _run(self, call: Call, points: Any) -> tuple[Any, Any]:
        """What a call gives at points, (count, entries)."""
        recipe, (obj, _, context) = self.calls.recipe, self.calls.prepared
        with recipe.backend.sandbox(0, recipe.dtype):
            batch = recipe.backend.tensor(
                points.reshape(-1, *recipe.facts.event_shape), recipe.dtype
            )
            given = context
            if context is not None:
                one = np.asarray(detached(context))[:1]
                given = recipe.backend.tensor(np.repeat(one, len(points), 0), recipe.dtype)
            value, told = call(obj, batch, given)
            return np.asarray(detached(value)), None if told is None else np.asarray(detached(told))


# The last one that was asked for.
_KEPT: list[Calls] = []


def calls_of(target: Target) -> Calls:
    """The calls of a target, whose graphs are kept for its next statement. Raises: `TargetError`, `SpecError`."""
    recipe = recipe_of(target)
    if not _KEPT or _KEPT[0].recipe is not recipe:
        _KEPT[:] = [Calls(recipe)]
    return _KEPT[0]


def certificate_of(
    calls: Calls, target: str, name: str, statement: Statement, most: Most, *, edits: bool = False
) -> Certificate:
    """What is found of one statement; ``edits``: with those that mend a log-det."""
    claim = partial(Certificate, target, name, statement.words, statement.law)
    try:
        graph, paths = _traced(calls, statement, most)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    proof, taken = identity(graph, LAWS[statement.law], paths)
    tried = edits and statement.law == "log-det" and proof.weights in ("", WEIGHTS[-1])
    found = tuple(map(str, repairs(graph, paths))) if tried else ()
    backend = calls.recipe.backend
    weights = backend.fingerprint(calls.prepared[0])
    return claim(proof, graph, taken, 0, dict(backend.versions()), weights, found)


def _traced(calls: Calls, statement: Statement, most: Most) -> tuple[Graph, tuple[Branches, ...]]:
    """The graph of what a statement compares, and the paths that drawn points take. Raises: `Unsupported` where there is none
    that is the object's, or where a proof takes more than ``most``.
    """
    for one in statement.needs:
        calls.call(one)
    recipe = calls.recipe
    if recipe.operations > most.operations:
        raise Unsupported(f"its calls take {recipe.operations:,} operations")
    with recipe.backend.sandbox(0, recipe.dtype):
        try:
            composition = Composition(calls, calls.latents if statement.latents else calls.points)
        except Exception as error:
            raise Unsupported(one_line(error, 300)) from error
        graph = composition.graph(statement.results(composition))
    if (numbers := numbers_of(graph, LAWS[statement.law])) > most.numbers:
        raise Unsupported(f"a proof takes {numbers:,} numbers")
    return graph, composition.paths()
