"""Proofs of the statements about a target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from flowref.loading import Recipe, recipe_of
from flowref.model import Condition, Law, Target, Unsupported, one_line
from flowref.model.graph import Graph
from flowref.proving.certificates import Certificate
from flowref.proving.compositions import Calls, Composition
from flowref.proving.criteria import LAWS
from flowref.proving.identities import ENTRIES, WEIGHTS, Proof, prove_identity, weakest, work_of
from flowref.proving.repairs import repairs
from flowref.proving.rounding.places import Place
from flowref.proving.statements import STATEMENTS, Statement, provable, words_of

# Limits on the operations of a round trip, and on the numbers of a run of residues: in an audit, a
# second or two; otherwise minutes.
OPERATIONS, NUMBERS = 2_000, 1_000_000
MOST_OPERATIONS, MOST_NUMBERS = 20_000, 1_000_000_000


@dataclass(frozen=True)
class Most:
    """Limits of a proof: operations of a round trip, and numbers of a run of residues."""

    operations: int = OPERATIONS
    numbers: int = NUMBERS


def certified(
    target: Target, laws: Iterable[Law], *, quick: bool = False, box: str = ""
) -> Iterator[Certificate]:
    """Yields a certificate for each `provable` law, with the reason if there is no proof, and
    edits that are proved to repair it; ``quick``: only proofs within seconds, as in an audit.
    Otherwise also bounds on a ``box``, by default the domain if that is bounded, and a box on
    which a log-det is wrong. Raises `TargetError` and `SpecError` for the target and the box.
    """
    most = Most() if quick else Most(MOST_OPERATIONS, MOST_NUMBERS)
    for law in filter(provable, laws):
        found, statement = _certificate_of(target, law, most, edits=True), STATEMENTS[law.base]
        usual = (law.mode, law.direction, statement.points) == ("eval", "forward", "points")
        of_map = found.law in ("log-det", "equal") and "forward" in statement.needs
        if usual and of_map and found.graph is not None and not quick:
            found = Place(calls_of(target, law.condition), box).shown(found)
        yield found


def clause(target: Target, law: Law) -> str:
    """The scope of a proof of a law as a clause; "" if there is none, if it is not `provable`, or
    if that takes long.
    """
    if not provable(law):
        return ""
    return _certificate_of(target, law, Most()).proof.clause


def repairs_of(target: Target, law: Law) -> tuple[str, ...]:
    """Edits of a target's code with which a law of log-dets or of round trips is proved, in words,
    the smallest first; empty if none is found, or if that takes long.
    """
    if not provable(law):
        return ()
    statement = STATEMENTS[law.base]
    if statement.results is None:
        return ()
    try:
        calls = calls_of(target, law.condition, statement.mode)
        for one in statement.needs:
            calls.call(one)
        graph, whole = _traced(calls, statement, Most())
    except Unsupported:
        return ()
    return _repairs(statement, graph, whole)


def _repairs(statement: Statement, graph: Graph, whole: Composition) -> tuple[str, ...]:
    if statement.criterion != "log-det" and not statement.edited_call:
        return ()
    found = repairs(graph, tuple(whole.paths), statement.criterion, statement.edited_call)
    return tuple(map(str, found))


# The last target, and its calls by their circumstances.
_LAST: list[Recipe] = []
_KEPT: dict[tuple[bool, bool, bool, str, str], Calls] = {}


def calls_of(target: Target, condition: Condition, mode: str = "") -> Calls:
    """The calls of a target in a condition, whose graphs are cached for its next statement. Raises
    `TargetError`, `SpecError`, `Unsupported`.
    """
    recipe, mode = recipe_of(target), mode or condition.mode
    own = recipe.given(condition)
    key = condition.contextual, condition.one_context, condition.resized, mode, condition.direction
    if not _LAST or _LAST[0] is not recipe:
        _LAST[:] = [recipe]
        _KEPT.clear()
    return _KEPT.setdefault(key, Calls(own, mode, condition.direction))


def _certificate_of(target: Target, law: Law, most: Most, *, edits: bool = False) -> Certificate:
    statement = replace(STATEMENTS[law.base], words=words_of(law))
    try:
        calls = calls_of(target, law.condition, statement.mode)
    except Unsupported as error:  # it takes no such context
        claim = partial(Certificate, str(target), law.id, statement.words, statement.criterion)
        return claim(Proof(False, reason=str(error)))
    key = law.base, most, edits
    if key not in calls.claims:
        calls.claims[key] = _claim(calls, str(target), law.id, statement, most, edits=edits)
    found: Certificate = calls.claims[key]
    return replace(found, statement=law.id, words=statement.words)


def _claim(
    calls: Calls, target: str, name: str, statement: Statement, most: Most, *, edits: bool
) -> Certificate:
    """The claim about a statement of calls: through a statement that covers several, in all
    batches, and with those that imply it.
    """
    large = math.prod(calls.recipe.facts.event_shape) > ENTRIES
    if statement.criterion == "log-det" and large:
        statement = replace(statement, criterion="sparse log-det")
    claim = partial(Certificate, target, name, statement.words, statement.criterion)
    try:
        for one in statement.needs:
            calls.call(one)
        follows = statement.follows(calls)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    of = [claim_of(calls, target, one, most) for one in follows]
    if statement.results is None:
        return claim(weakest([(one.statement, one.proof) for one in of]), follows=follows)
    if (stronger := statement.stronger) is not None and stronger not in calls.missed:
        joint = replace(statement, results=stronger)
        found = certificate_of(calls, target, name, joint, most)
        if found.proof.whole:
            return found
        calls.missed.add(stronger)
    found = certificate_of(calls, target, name, statement, most, edits=edits)
    for batch in statement.batches(calls.recipe.facts) if found.proof.proved else ():
        other = certificate_of(
            Calls(calls.recipe, calls.mode, calls.direction, batch=batch),
            target,
            name,
            statement,
            most,
        ).proof
        if not other.proved or (found.proof.whole and not other.whole):
            return claim(
                Proof(False, reason=f"at batches of shape {batch} {other.reason or other.clause}")
            )
    if of and found.proof.proved:
        all_of = weakest([(name, found.proof), *((one.statement, one.proof) for one in of)])
        found = replace(found, proof=replace(all_of, free=found.proof.free), follows=follows)
    return found


def claim_of(calls: Calls, target: str, base: str, most: Most) -> Certificate:
    """The cached claim about another statement of the same calls."""
    key = base, most, False
    if key not in calls.claims:
        calls.claims[key] = _claim(calls, target, base, STATEMENTS[base], most, edits=False)
    found: Certificate = calls.claims[key]
    return found


def certificate_of(
    calls: Calls, target: str, name: str, statement: Statement, most: Most, *, edits: bool = False
) -> Certificate:
    """The certificate of one statement; ``edits``: with proved repairs."""
    claim = partial(Certificate, target, name, statement.words, statement.criterion)
    try:
        graph, whole = _traced(calls, statement, most)
    except Unsupported as error:
        return claim(Proof(False, reason=str(error)))
    proof, taken = prove_identity(graph, LAWS[statement.criterion], whole.paths, most.numbers)
    tried = edits and proof.weights in ("", WEIGHTS[-1])
    found = _repairs(statement, graph, whole) if tried else ()
    backend = calls.recipe.backend
    weights = backend.fingerprint(calls.prepared[0])
    return claim(proof, graph, taken, 0, dict(backend.versions()), weights, found)


def _traced(calls: Calls, statement: Statement, most: Most) -> tuple[Graph, Composition]:
    """The graph of a statement's results, and the calls that it consists of. Raises `Unsupported`
    if no graph agrees with the object, or if a proof takes more than ``most``.
    """
    recipe = calls.recipe
    assert statement.results is not None
    if recipe.operations * statement.traces > most.operations:
        raise Unsupported(f"its calls take {recipe.operations:,} operations")
    with recipe.backend.sandbox(0, recipe.dtype):
        try:
            composition = Composition(calls, getattr(calls, statement.points))
            graph = composition.graph(statement.results(composition))
        except Unsupported:
            raise
        except Exception as error:  # raised by the object's own code
            raise Unsupported(one_line(error, 300)) from error
    if (numbers := work_of(graph, LAWS[statement.criterion])) > most.numbers:
        raise Unsupported(f"a proof takes {numbers:,} numbers")
    return graph, composition
