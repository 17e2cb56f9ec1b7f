"""Which statements of a target are proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flowref.loading import Recipe, recipe_of
from flowref.model import Target, Unsupported, draw
from flowref.model.graph import Branches, Graph
from flowref.proving.certificates import Certificate
from flowref.proving.criteria import LAWS
from flowref.proving.identities import WEIGHTS, Proof, identity, numbers_of
from flowref.proving.repairs import repairs

# Batches at which the graph is run beside the object, and whose paths are asked for.
BESIDE, DRAWN = 3, 8
# Numbers of points of a batch that is traced: one that no axis has.
ROWS = (3, 5, 7, 11, 13)
# Batches in train mode that an object has seen.
WARM = 2
# Operations of a round trip, and numbers in a run of residues, up to which an audit asks for proofs: a second or two; and up to
# which there are any: minutes.
OPERATIONS, NUMBERS = 2_000, 2_000_000
MOST_OPERATIONS, MOST_NUMBERS = 20_000, 100_000_000


@dataclass(frozen=True)
class Statement:
    """``words``: as a sentence; ``law``: of `LAWS`; ``needs``: which calls of a dialect; ``call``: what is traced, of the
    dialect, an object, points and a context; ``latents``: whether points are images of forward.
    """

    words: str
    law: str
    needs: tuple[str, ...]
    call: Callable[..., Any]
    latents: bool = False


def after(first: Any, obj: Any, x: Any, context: Any, second: Any) -> Any:
    """A call of what another one gave. Between them the first is made at other points, and what it gave is copied: what an
    object keeps of a call, by whatever name, is then of no use to the next.
    """
    value = copied(first(obj, x, context)[0])
    first(obj, turned(x), context)
    return second(obj, value, context)


def _opposite(dialect: Any, obj: Any, x: Any, context: Any) -> Any:
    _, told = dialect.forward(obj, x, context)
    _, back = after(dialect.forward, obj, x, context, dialect.inverse)
    if told is None or back is None:
        raise Unsupported("it returns no log-det")
    return told, -back


def _densities(dialect: Any, obj: Any, x: Any, context: Any) -> Any:
    normalize = getattr(dialect, dialect.normalizing)  # from data to latents
    if normalize is None:
        raise Unsupported(f"it has no {dialect.normalizing}")
    z, told = normalize(obj, x, context)
    if told is None:
        raise Unsupported("it returns no log-det")
    base = dialect.base_log_prob(obj, z, context)
    normalize(obj, turned(x), context)
    return dialect.log_prob(obj, copied(x), context), base + told


def _round_trip(dialect: Any, obj: Any, x: Any, context: Any) -> Any:
    return after(dialect.forward, obj, x, context, dialect.inverse)[0], x


def _round_trip_of_latents(dialect: Any, obj: Any, z: Any, context: Any) -> Any:
    return after(dialect.inverse, obj, z, context, dialect.forward)[0], z


BOTH = ("forward", "inverse")
STATEMENTS = {
    "map/log-det": Statement(
        "the log-det that forward reports is log |det J_f(x)|",
        "log-det",
        ("forward",),
        lambda dialect, *given: dialect.forward(*given),
    ),
    "map/log-det[inverse]": Statement(
        "the log-det that the inverse reports is that of its Jacobian",
        "log-det",
        BOTH,
        lambda dialect, *given: dialect.inverse(*given),
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
        "the log-density is that of the base at the latents of x plus the log-det",
        "equal",
        ("forward", "log_prob", "base_log_prob"),
        _densities,
    ),
}


def certified(
    target: Target, statements: Sequence[str] = tuple(STATEMENTS), *, quick: bool = False
) -> Iterator[Certificate]:
    """A certificate for each statement, or why there is none, with edits that are proved to mend a log-det; ``quick``: where
    that takes seconds, as in an audit. Raises `TargetError` and `SpecError` of the target.
    """
    recipe = recipe_of(target)
    for name in statements:
        most = (OPERATIONS, NUMBERS) if quick else (MOST_OPERATIONS, MOST_NUMBERS)
        yield certificate_of(recipe, str(target), name, STATEMENTS[name], most, edits=True)


def clause(target: Target, law: str) -> str:
    """For what a law of a target is proved, as a clause; empty where it is not, where it is none of `STATEMENTS`, or where
    that takes long.
    """
    if law not in STATEMENTS:
        return ""
    claim = certificate_of(
        recipe_of(target), str(target), law, STATEMENTS[law], (OPERATIONS, NUMBERS)
    )
    return claim.proof.clause


def repairs_of(target: Target, law: str) -> tuple[str, ...]:
    """Edits of a target's code with which a law of log-dets is proved, in words, the smallest first; none where none is
    found, or where that takes long.
    """
    if law not in STATEMENTS or STATEMENTS[law].law != "log-det":
        return ()
    try:
        call = _traced(recipe_of(target), STATEMENTS[law], (OPERATIONS, NUMBERS))
    except Unsupported:
        return ()
    return tuple(map(str, repairs(call.graph, call.paths)))


def certificate_of(
    recipe: Recipe,
    target: str,
    name: str,
    statement: Statement,
    most: tuple[int, int] = (MOST_OPERATIONS, MOST_NUMBERS),
    *,
    edits: bool = False,
) -> Certificate:
    """What is found of one statement; ``most``: operations and numbers up to which it is tried; ``edits``: with those that
    mend a log-det.
    """
    claim = partial(Certificate, target, name, statement.words, statement.law)
    try:
        call = _traced(recipe, statement, most)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    proof, taken = identity(call.graph, LAWS[statement.law], call.paths)
    tried = edits and statement.law == "log-det" and proof.weights in ("", WEIGHTS[-1])
    found = tuple(map(str, repairs(call.graph, call.paths))) if tried else ()
    versions = dict(recipe.backend.versions())
    return claim(proof, call.graph, taken, 0, versions, call.weights, found)


@dataclass(frozen=True)
class Call:
    """A call that was traced; ``paths``: that drawn points take; ``weights``: a digest."""

    graph: Graph
    paths: tuple[Branches, ...]
    weights: str


def _traced(recipe: Recipe, statement: Statement, most: tuple[int, int]) -> Call:
    """Raises: `Unsupported` where there is no graph that is the object's, or where it takes more than ``most``."""
    dialect, backend = recipe.dialect, recipe.backend
    if missing := [one for one in statement.needs if getattr(dialect, one) is None]:
        raise Unsupported(f"it has no {missing[0]}")
    if recipe.operations > most[0]:
        raise Unsupported(f"its calls take {recipe.operations:,} operations")
    try:
        with backend.sandbox(0, recipe.dtype):
            obj, points, context = prepared(recipe)
            forward: Any = dialect.forward
            of_data = "log_prob" in statement.needs and dialect.normalizing == "inverse"
            if statement.latents or of_data:
                points = [detached(backend.once(forward, obj, one, context)[0]) for one in points]
            traced = backend.traced(obj, partial(statement.call, dialect), points[0], context)
            if not traced.agrees(points[1 : 1 + BESIDE]):
                raise Unsupported("what was traced is not what the object computes")
            graph = traced.graph()
            if (numbers := numbers_of(graph, LAWS[statement.law])) > most[1]:
                raise Unsupported(f"a proof takes {numbers:,} numbers")
            paths = tuple(path for path in map(traced.path, points) if path is not None)
            return Call(graph, paths, backend.fingerprint(obj))
    except Unsupported:
        raise
    except Exception as error:  # which error is the laws' affair
        text = str(error).partition("\n")[0]
        raise Unsupported(f"it raised {type(error).__name__}: {text}") from error


def prepared(recipe: Recipe) -> tuple[Any, list[Any], Any]:
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
    if backend.modes:
        backend.set_mode(obj, True)
        for batch in points[:WARM]:
            recipe.dialect.forward(obj, batch, context)  # type: ignore[misc]  # it has one
        backend.set_mode(obj, False)
    return obj, points, context


def detached(value: Any) -> Any:
    """An array without the graph of its gradients, where a framework keeps one."""
    return value.detach() if hasattr(value, "detach") else value


def copied(value: Any) -> Any:
    """An array of the same numbers."""
    return value.clone() if hasattr(value, "clone") else value.copy()


def turned(x: Any) -> Any:
    """A batch whose last point is the first."""
    return x.roll(1, 0) if hasattr(x, "roll") else x[np.arange(-1, len(x) - 1)]
