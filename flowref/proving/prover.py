"""Which statements of a target are proved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from flowref.loading import recipe_of
from flowref.model import Condition, Facts, Law, Normalizer, Shape, Target, Unsupported, one_line
from flowref.model.graph import Branches, Graph, Ref
from flowref.model.structure.batch_norm import PARTS
from flowref.proving.certificates import Certificate
from flowref.proving.compositions import POINT, ROWS, Calls, Composition
from flowref.proving.criteria import LAWS
from flowref.proving.identities import WEIGHTS, Proof, identity, numbers_of
from flowref.proving.places import Place
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
    """``words``: as a sentence; ``criterion``: of `LAWS`; ``needs``: which calls of a dialect; ``results``: that the criterion is
    of; ``points``: at which, "points" of the domain, "latents", their images, or "data", of which there is a density;
    ``mended``: the call that is edited where the statement is wrong, of which it is the value; ``mode``: in which it is
    said, whatever that of the law is; ``batches``: further shapes of batches at which it is to hold.
    """

    words: str
    criterion: str
    needs: tuple[str, ...]
    results: Callable[[Composition], tuple[Ref, Ref | None]]
    points: str = "points"
    mended: str = ""
    mode: str = ""
    batches: Callable[[Facts], list[Shape]] = lambda facts: []


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
    z, told = of.call(of.calls.normalizing)
    return of.call("log_prob")[0], of.sum(of.call("base_log_prob", z)[0], told)


def _values_in_training(of: Composition) -> tuple[Ref, Ref | None]:
    calls = [(of.calls.normalizing, 0)]
    if of.calls.recipe.dialect.log_prob is not None and of.calls.direction == "forward":
        calls.append(("log_prob", 0))
    return of.slope(*calls, by="parameters")


def _of_batches(of: Composition) -> tuple[Ref, Ref | None]:
    obj, _, context = of.calls.prepared
    told = of.calls.call("forward")(obj, of.points[0], context)[1] is not None
    if of.calls.alone("forward", of.points[0]):
        raise Unsupported("it has no statistics of batches")
    return of.slope(*(("forward", place) for place in range(1 + told)), apart=False)


def _normalizer(of: Composition) -> Normalizer:
    found = of.calls.recipe.facts.normalizer
    if found is None:
        raise Unsupported("it has no statistics of batches")
    if found.statistics == PARTS:
        raise Unsupported("it does not normalize whole batches")
    return found


def _of_channels(of: Composition) -> tuple[Ref, Ref]:
    normalizer = _normalizer(of)
    return of.columns(normalizer.call, normalizer.channel)


def _batches_of_channels(facts: Facts) -> list[Shape]:
    """More samples, one sample with several positions, and as many of these as channels."""
    event = facts.event_shape
    found = [(ROWS[-1], *event)]
    found += [(1, *event)] if math.prod(event[1:]) > 1 else []
    return [*found, (ROWS[0], event[0], event[0])] if len(event) == 2 else found


def _bias_before(of: Composition) -> tuple[Ref, Ref]:
    normalizer = _normalizer(of)
    return of.along_channels(normalizer.call, normalizer.channel)


BOTH = ("forward", "inverse")
# By the ids of laws, of which a case is the same statement in its circumstances.
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
        "latents",
    ),
    "map/inverse": Statement(
        "the inverse of f(x) is x", "equal", BOTH, _round_trip, mended="inverse"
    ),
    "map/inverse[latents]": Statement(
        "f of the inverse of z is z", "equal", BOTH, _round_trip_of_latents, "latents", "inverse"
    ),
    "map/log-det[antisymmetry]": Statement(
        "the log-det of the inverse at f(x) is minus that of forward at x", "equal", BOTH, _opposite
    ),
    "density/change-of-variables": Statement(
        "the log-density is that of the base at the latents of x plus the log-det",
        "equal",
        ("log_prob", "base_log_prob"),
        _densities,
        "data",
    ),
    "batch-norm/eval-map": Statement(
        "every channel of the output is one fixed affine function of the same entry of the input",
        "affine",
        (),
        _of_channels,
        mode="eval",
    ),
    "batch-norm/train-map": Statement(
        "every channel of the output is a line in the input, the same at all samples, and its mean is the same for every batch",
        "normalized",
        (),
        _of_channels,
        mode="train",
        batches=_batches_of_channels,
    ),
    "batch-norm/gradient[bias-before]": Statement(
        "the framework's gradient of a bias that is added before the layer is zero",
        "equal",
        (),
        _bias_before,
        mode="train",
    ),
    "gradient/input[batch]": Statement(
        "the framework's derivative of f(x) and of the log-det by x, through the statistics of the batch, is their derivative",
        "slope",
        ("forward",),
        _of_batches,
    ),
    "gradient/input[value]": Statement(
        "the framework's derivative of f(x) by x is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 0)),
    ),
    "gradient/input[log-det]": Statement(
        "the framework's derivative of the log-det by x is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 1)),
    ),
    "gradient/input[log-prob]": Statement(
        "the framework's derivative of the log-density by x is its derivative",
        "slope",
        ("log_prob",),
        lambda of: of.slope(("log_prob", 0)),
        "data",
    ),
    "gradient/parameters[value]": Statement(
        "the framework's derivatives of f(x) and of the log-density by the parameters are theirs",
        "slope",
        (),
        _values_in_training,
        "data",
    ),
    "gradient/parameters[log-det]": Statement(
        "the framework's derivative of the log-det by the parameters is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 1), by="parameters"),
    ),
}


# Circumstances, in words, as they stand in front of a statement.
CIRCUMSTANCES = {
    ("mode", "train"): "in train mode",
    ("direction", "inverse"): "the other way round",
    ("contextual", True): "given a context that may be left out",
    ("one_context", True): "at one context",
}


def _words(law: Law) -> str:
    """A statement, with its circumstances."""
    found = [words for (name, value), words in CIRCUMSTANCES.items() if getattr(law, name) == value]
    statement = STATEMENTS[law.base]
    found += [f"in {statement.mode} mode"] if statement.mode else []
    return ", ".join([*found, statement.words])


def provable(law: Law) -> bool:
    """Whether a law is one of `STATEMENTS` in circumstances that a proof speaks of."""
    return law.base in STATEMENTS and law.history == "warm" and law.grad


def certified(
    target: Target, laws: Iterable[Law], *, quick: bool = False, box: str = ""
) -> Iterator[Certificate]:
    """A certificate for each law that is `provable`, or why there is none, with edits that are proved to mend it;
    ``quick``: where that takes seconds, as in an audit. Else also what is shown on a ``box``, as it is written, by default the
    domain where that is bounded, and a box on which a log-det is wrong. Raises `TargetError` and `SpecError` of the target,
    and of the box.
    """
    most = Most() if quick else Most(MOST_OPERATIONS, MOST_NUMBERS)
    for law in filter(provable, laws):
        found, statement = _certificate_of(target, law, most, edits=True), STATEMENTS[law.base]
        plain = (law.mode, law.direction, statement.points) == ("eval", "forward", "points")
        plain = (
            plain and statement.criterion in ("log-det", "equal") and "forward" in statement.needs
        )
        if plain and found.graph is not None and not quick:
            calls = calls_of(target, law.condition)
            found = Place(calls, box).shown(found)
        yield found


def clause(target: Target, law: Law) -> str:
    """For what a law of a target is proved, as a clause; empty where it is not, where it is not `provable`, or where that takes
    long.
    """
    if not provable(law):
        return ""
    return _certificate_of(target, law, Most()).proof.clause


def repairs_of(target: Target, law: Law) -> tuple[str, ...]:
    """Edits of a target's code with which a law of log-dets or of round trips is proved, in words, the smallest first; none
    where none is found, or where that takes long.
    """
    if not provable(law):
        return ()
    statement = STATEMENTS[law.base]
    try:
        graph, paths = _traced(calls_of(target, law.condition, statement.mode), statement, Most())
    except Unsupported:
        return ()
    return _repairs(statement, graph, paths)


def _repairs(statement: Statement, graph: Graph, paths: Sequence[Branches]) -> tuple[str, ...]:
    if statement.criterion != "log-det" and not statement.mended:
        return ()
    return tuple(map(str, repairs(graph, paths, statement.criterion, statement.mended)))


# Of the last target that was asked for, by mode, direction and shape of batches.
_KEPT: dict[tuple[str, str, Shape | None], Calls] = {}


def calls_of(
    target: Target, condition: Condition, mode: str = "", batch: Shape | None = None
) -> Calls:
    """The calls of a target in a condition, whose graphs are kept for its next statement. Raises: `TargetError`, `SpecError`,
    `Unsupported`.
    """
    recipe = recipe_of(target).given(condition)
    if any(calls.recipe is not recipe for calls in _KEPT.values()):
        _KEPT.clear()
    key = mode or condition.mode, condition.direction, batch
    return _KEPT.setdefault(key, Calls(recipe, *key[:2], batch=batch))


def _certificate_of(target: Target, law: Law, most: Most, *, edits: bool = False) -> Certificate:
    statement = replace(STATEMENTS[law.base], words=_words(law))
    claim = partial(Certificate, str(target), law.id, statement.words, statement.criterion)
    try:
        calls = calls_of(target, law.condition, statement.mode)
        found = certificate_of(calls, str(target), law.id, statement, most, edits=edits)
        for batch in statement.batches(calls.recipe.facts) if found.proof.proved else ():
            calls = calls_of(target, law.condition, statement.mode, batch)
            other = certificate_of(calls, str(target), law.id, statement, most).proof
            if not other.proved or (found.proof.whole and not other.whole):
                return claim(
                    Proof(
                        False, reason=f"at batches of shape {batch} {other.reason or other.clause}"
                    )
                )
        return found
    except Unsupported as error:  # it takes no such context
        return claim(Proof(False, reason=str(error)))


def certificate_of(
    calls: Calls, target: str, name: str, statement: Statement, most: Most, *, edits: bool = False
) -> Certificate:
    """What is found of one statement; ``edits``: with those that mend it."""
    claim = partial(Certificate, target, name, statement.words, statement.criterion)
    try:
        graph, paths = _traced(calls, statement, most)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    proof, taken = identity(graph, LAWS[statement.criterion], paths)
    tried = edits and proof.weights in ("", WEIGHTS[-1])
    found = _repairs(statement, graph, paths) if tried else ()
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
            composition = Composition(calls, getattr(calls, statement.points))
        except Exception as error:
            raise Unsupported(one_line(error, 300)) from error
        graph = composition.graph(statement.results(composition))
    if (numbers := numbers_of(graph, LAWS[statement.criterion])) > most.numbers:
        raise Unsupported(f"a proof takes {numbers:,} numbers")
    return graph, composition.paths
