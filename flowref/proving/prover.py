"""Which statements of a target are proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flowref.loading import Recipe, recipe_of
from flowref.model import Target, Unsupported, draw
from flowref.model.graph import Branches, Graph
from flowref.proving.certificates import Certificate
from flowref.proving.identities import LAWS, Proof, identity, numbers_of
from flowref.proving.repairs import repairs

# Batches at which the graph is run beside the object, and whose paths are asked for.
BESIDE, DRAWN = 3, 8
# Numbers of points of a batch that is traced: one that no axis has.
ROWS = (3, 5, 7, 11, 13)
# Batches in train mode that an object has seen.
WARM = 2
# Operations of a round trip, and numbers in a run of residues, up to which an audit asks for proofs: a second or two; and up to
# which there are any: minutes.
OPERATIONS, NUMBERS = 2_000, 1_000_000
MOST_OPERATIONS, MOST_NUMBERS = 20_000, 100_000_000


@dataclass(frozen=True)
class Statement:
    """``words``: as a sentence; ``call``: which of a dialect's calls it is of; ``law``: of `LAWS`."""

    words: str
    call: str
    law: str


STATEMENTS = {
    "map/log-det": Statement(
        "the log-det that forward reports is log |det J_f(x)|", "forward", "log-det"
    ),
    "map/log-det[inverse]": Statement(
        "the log-det that the inverse reports is that of its Jacobian", "inverse", "log-det"
    ),
    "map/inverse": Statement("the inverse of f(x) is x", "both", "round-trip"),
}


def certified(
    target: Target, statements: Sequence[str] = tuple(STATEMENTS)
) -> Iterator[Certificate]:
    """A certificate for each statement, or why there is none. Raises `TargetError` and `SpecError` of the target."""
    recipe = recipe_of(target)
    for name in statements:
        statement = STATEMENTS[name]
        yield _certificate(recipe, str(target), name, statement)


def clause(target: Target, law: str) -> str:
    """For what a law of a target is proved, as a clause; empty where it is not, where it is none of `STATEMENTS`, or where
    that takes long.
    """
    recipe = _quick(target, law)
    if recipe is None:
        return ""
    return _certificate(recipe, str(target), law, STATEMENTS[law], NUMBERS).proof.clause


def mended(target: Target, law: str) -> tuple[str, ...]:
    """Edits of a target's code with which a law of log-dets is proved, in words, the smallest first; none where none is
    found, or where that takes long.
    """
    recipe = _quick(target, law)
    if recipe is None or STATEMENTS[law].law != "log-det":
        return ()
    try:
        call = _traced(recipe, STATEMENTS[law], NUMBERS)
    except Unsupported:
        return ()
    return tuple(map(str, repairs(call.graph, call.paths)))


def _quick(target: Target, law: str) -> Recipe | None:
    """How a target is made, where a law is one that is proved and calls are short."""
    recipe = recipe_of(target) if law in STATEMENTS else None
    return None if recipe is None or recipe.operations > OPERATIONS else recipe


def _certificate(
    recipe: Recipe, target: str, name: str, statement: Statement, most: int = MOST_NUMBERS
) -> Certificate:
    claim = partial(Certificate, target, name, statement.words, statement.law)
    try:
        call = _traced(recipe, statement, most)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    proof, taken = identity(call.graph, LAWS[statement.law], call.paths)
    refuted = statement.law == "log-det" and not proof.proved and most == MOST_NUMBERS
    edits = tuple(map(str, repairs(call.graph, call.paths))) if refuted else ()
    versions = dict(recipe.backend.versions())
    return claim(proof, call.graph, taken, 0, versions, call.weights, edits)


@dataclass(frozen=True)
class Call:
    """A call that was traced; ``paths``: that drawn points take; ``weights``: a digest."""

    graph: Graph
    paths: tuple[Branches, ...]
    weights: str


def _traced(recipe: Recipe, statement: Statement, most: int) -> Call:
    """Raises: `Unsupported` where there is no graph that is the object's, or where it takes more numbers than ``most``."""
    dialect, backend = recipe.dialect, recipe.backend
    if recipe.operations > MOST_OPERATIONS:
        raise Unsupported(f"its calls take {recipe.operations:,} operations")
    wanted = ("forward", "inverse") if statement.call == "both" else (statement.call,)
    if missing := [one for one in ("forward", *wanted) if getattr(dialect, one) is None]:
        raise Unsupported(f"it has no {missing[0]}")
    try:
        with backend.sandbox(0, recipe.dtype):
            obj, points, context = _prepared(recipe)
            forward: Any = dialect.forward
            if statement.call == "inverse":
                points = [_alone(forward(obj, one, context)[0]) for one in points]
            traced = backend.traced(obj, _call(dialect, statement.call), points[0], context)
            if not traced.agrees(points[1 : 1 + BESIDE]):
                raise Unsupported("what was traced is not what the object computes")
            graph = traced.graph()
            if (numbers := numbers_of(graph, LAWS[statement.law])) > most:
                raise Unsupported(f"a proof takes {numbers:,} numbers")
            paths = tuple(path for path in map(traced.path, points) if path is not None)
            return Call(graph, paths, backend.fingerprint(obj))
    except Unsupported:
        raise
    except Exception as error:  # which error is the laws' affair
        text = str(error).partition("\n")[0]
        raise Unsupported(f"it raised {type(error).__name__}: {text}") from error


def _prepared(recipe: Recipe) -> tuple[Any, list[Any], Any]:
    """An object in eval mode that has seen batches in train mode, batches of points, and a context."""
    backend, facts = recipe.backend, recipe.facts
    obj, rng = backend.cast(recipe.build(), recipe.dtype), np.random.default_rng(0)
    held = {
        size
        for shape in (*backend.state_shapes(obj), facts.event_shape, facts.context_shape or ())
        for size in shape
    }
    rows = next((count for count in ROWS if count not in held), ROWS[0])
    points = [
        backend.tensor(draw(facts.domain, (rows, *facts.event_shape), rng), recipe.dtype)
        for _ in range(DRAWN)
    ]
    context = None
    if facts.context_shape is not None:
        context = backend.tensor(rng.standard_normal((rows, *facts.context_shape)), recipe.dtype)
    backend.set_mode(obj, True)
    for batch in points[:WARM]:
        recipe.dialect.forward(obj, batch, context)  # type: ignore[misc]  # it has one
    backend.set_mode(obj, False)
    return obj, points, context


def _alone(value: Any) -> Any:
    """An array without the graph of its gradients, where a framework keeps one."""
    return value.detach() if hasattr(value, "detach") else value


def _call(dialect: Any, which: str) -> Any:
    if which == "both":
        return partial(there_and_back, forward=dialect.forward, inverse=dialect.inverse)
    return getattr(dialect, which)


def there_and_back(obj: Any, x: Any, context: Any, forward: Any, inverse: Any) -> Any:
    """The inverse of the map of points."""
    return inverse(obj, forward(obj, x, context)[0], context)[0]
