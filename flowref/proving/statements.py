"""The provable statements: a table by the ids of laws; a case of a law is the same statement in
its circumstances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flowref.model import REAL, Coupling, Facts, Law, Normalizer, Shape, Unsupported
from flowref.model.graph import Ref
from flowref.model.structure.batch_norm import PARTS
from flowref.proving.compositions import (
    ALL,
    NEAR,
    POINT,
    ROWS,
    THROUGH,
    Calls,
    Composition,
    detached,
)
from flowref.proving.rounding.boxes import KEEPING


@dataclass(frozen=True)
class Statement:
    """``words``: as a sentence; ``criterion``: of `LAWS`; ``needs``: the calls of a dialect;
    ``results``: the arguments of the criterion; ``points``: "points" of the domain, "latents",
    their images, or "data", on which the density is defined; ``edited_call``: the call to edit if
    the statement is wrong, whose value it is about; ``mode``: the mode of the statement, for
    every mode of the law; ``batches``: further shapes of batches at which it must hold;
    ``stronger``: results for which the criterion covers this and other statements, tried first;
    ``follows``: the laws that imply it, together with the criterion on its results, if it has
    any; ``traces``: the cost of its own calls, which no other statement uses, in calls.
    """

    words: str
    criterion: str
    needs: tuple[str, ...]
    results: Callable[[Composition], tuple[Ref, Ref | None]] | None
    points: str = "points"
    edited_call: str = ""
    mode: str = ""
    batches: Callable[[Facts], list[Shape]] = lambda facts: []
    stronger: Callable[[Composition], tuple[Ref, Ref | None]] | None = None
    follows: Callable[[Calls], tuple[str, ...]] = lambda calls: ()
    traces: int = 1


def _round_trip(of: Composition) -> tuple[Ref, Ref]:
    z, _ = of.call("forward")
    return of.call("inverse", z)[0], POINT


def _round_trip_of_latents(of: Composition) -> tuple[Ref, Ref]:
    x, _ = of.call("inverse")
    return of.call("forward", x)[0], POINT


def _opposite(of: Composition) -> tuple[Ref, Ref | None]:
    z, ladj = of.call("forward")
    return of.negative(of.call("inverse", z)[1]), ladj


def _densities(of: Composition) -> tuple[Ref, Ref]:
    z, ladj = of.call(of.calls.normalizing)
    return of.call("log_prob")[0], of.sum(of.call("base_log_prob", z)[0], ladj)


def _values_in_training(of: Composition) -> tuple[Ref, Ref | None]:
    calls = [(of.calls.normalizing, 0)]
    if of.calls.recipe.dialect.log_prob is not None and of.calls.direction == "forward":
        calls.append(("log_prob", 0))
    return of.slope(*calls, by="parameters")


def _all_slopes(of: Composition, by: str) -> tuple[Ref, Ref | None]:
    """One weighted sum of all results: its weights are free, so what holds for it holds
    for each.
    """
    calls = [("forward", ALL)]
    if of.calls.normalizing != "forward":
        raise Unsupported("its data are no points of forward")
    if of.calls.recipe.dialect.log_prob is not None and of.calls.direction == "forward":
        calls.append(("log_prob", 0))
    return of.slope(*calls, by=by)


def _all_by_points(of: Composition) -> tuple[Ref, Ref | None]:
    return _all_slopes(of, "points")


def _all_by_parameters(of: Composition) -> tuple[Ref, Ref | None]:
    return _all_slopes(of, "parameters")


def _of_batches(of: Composition) -> tuple[Ref, Ref | None]:
    if of.calls.alone("forward", of.points[0]):
        raise Unsupported("it has no statistics of batches")
    return of.slope(("forward", ALL), apart=False)


def _batch_normalizer(of: Composition) -> Normalizer:
    found = of.calls.recipe.facts.normalizer
    if found is None:
        raise Unsupported("it has no statistics of batches")
    if found.statistics == PARTS:
        raise Unsupported("it does not normalize whole batches")
    return found


def _of_channels(of: Composition) -> tuple[Ref, Ref]:
    normalizer = _batch_normalizer(of)
    return of.columns(normalizer.call, normalizer.channel)


def _batches_of_channels(facts: Facts) -> list[Shape]:
    """More samples, one sample with several positions, and as many of these as channels."""
    event = facts.event_shape
    found = [(ROWS[-1], *event)]
    found += [(1, *event)] if math.prod(event[1:]) > 1 else []
    return [*found, (ROWS[0], event[0], event[0])] if len(event) == 2 else found


def _bias_before(of: Composition) -> tuple[Ref, Ref]:
    normalizer = _batch_normalizer(of)
    return of.along_channels(normalizer.call, normalizer.channel)


def _composite_and_chain(of: Composition) -> tuple[Ref, Ref]:
    (whole, ladj), (last, total) = of.call("forward"), of.call(THROUGH["forward"])
    if ladj is None or total is None:
        ladj = total = None
    return of.value_with_log_det(whole, ladj), of.value_with_log_det(last, total)


def _parts_back(of: Composition) -> tuple[Ref, Ref]:
    return of.call("inverse")[0], of.call(THROUGH["inverse"])[0]


def _coupling(facts: Facts) -> Coupling:
    if (found := facts.coupling) is None:
        raise Unsupported("it has no mask of an event")
    if set(found.kept) != {0.0, 1.0} or len(found.kept) != math.prod(facts.event_shape):
        raise Unsupported("its mask does not divide an event in two")
    return found


def _zeros(of: Composition) -> tuple[Ref, Ref]:
    zeros = _coupling(of.calls.recipe.facts).zeros
    return of.call("forward")[0], of.constant("zeros", np.asarray(zeros, np.int64))


def _lines(of: Composition) -> tuple[Ref, Ref]:
    r"""$y(x) - y(x - v) = \partial_v y$ for all v that are zero where entries are kept; for an
    additive form it is v.
    """
    facts = of.calls.recipe.facts
    coupling = _coupling(facts)
    if coupling.kind not in ("affine", "additive"):
        raise Unsupported("it has no affine or additive form")
    if facts.domain != REAL:
        raise Unsupported("it takes no reals but those of its domain")
    along = of.direction(1.0 - np.reshape(coupling.kept, facts.event_shape))
    value = of.call("forward")[0]
    return value, along if coupling.kind == "additive" else of.less(
        value, of.call("forward", of.behind(along))[0]
    )


def _of_couplings(calls: Calls) -> tuple[str, ...]:
    _coupling(calls.recipe.facts)
    log_det_law = "map/log-det" if calls.part("forward", calls.points).graph.outputs[1] else ""
    return ("coupling/pattern[conditioner]", *filter(None, [log_det_law]))


def _of_density(calls: Calls) -> tuple[str, ...]:
    log_det_law = "map/log-det" if calls.normalizing == "forward" else "map/log-det[inverse]"
    return (
        log_det_law,
        "map/inverse",
        "map/inverse[latents]",
        "density/change-of-variables",
        "density/base-constant",
    )


def _squeezed(of: Composition) -> tuple[Ref, Ref]:
    squeezing = of.calls.recipe.facts.squeezing
    if squeezing is None:
        raise Unsupported("it has no squeeze")
    if squeezing.call != "forward":
        raise Unsupported("it squeezes in its inverse")
    value = of.call("forward")[0]
    if not of.only(KEEPING):
        raise Unsupported("it computes with the entries")
    return value, POINT


def _standard_normal_base(of: Composition) -> tuple[Ref, Ref]:
    r"""$\log p(z) + \frac12 \|z\|^2$ at any point, with any weights, equals its value at other
    points with the object's weights, which is $-\frac D2 \log 2\pi$.
    """
    first, rows = of.points[0], len(of.points[0])
    numbers = np.asarray(detached(first), float).reshape(rows, -1)
    normal = -0.5 * ((numbers**2).sum(1) + numbers.shape[1] * math.log(2 * math.pi))
    reported = np.asarray(of.calls.values("base_log_prob", [first])[0], float)
    if np.shape(reported) != (rows,) or not np.allclose(reported, normal, NEAR, NEAR):
        raise Unsupported("it has no standard normal base")
    others = of.others()
    one = of.call("base_log_prob")[0]
    other = of.call("base_log_prob", others, as_it_is=True)[0]
    return of.sum(one, of.half_square(POINT)), of.sum(other, of.half_square(others))


def _no_volume(of: Composition) -> tuple[Ref, Ref]:
    if not of.calls.recipe.facts.promises.get("volume-preserving"):
        raise Unsupported("it has no promise to preserve volume")
    ladj = of.call("forward")[1]
    if ladj is None:
        raise Unsupported("it returns no log-det")
    return ladj, of.less(ladj, ladj)


BOTH = ("forward", "inverse")
# By the ids of laws; a case of a law is the same statement in its circumstances.
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
        "the inverse of f(x) is x", "equal", BOTH, _round_trip, edited_call="inverse"
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
    "density/base-constant": Statement(
        "the base has the log-density of a standard normal distribution, with its constant as float64 has it",
        "equal",
        ("base_log_prob",),
        _standard_normal_base,
        "noise",
    ),
    "density/mass": Statement(
        "the density integrates to one, in any dimension: the map is one-to-one and onto, its log-det is right, and its base is "
        "standard normal",
        "equal",
        ("log_prob", "base_log_prob", *BOTH),
        None,
        follows=_of_density,
    ),
    "map/one-to-one": Statement(
        "different points have different images: the inverse of f(x) is x",
        "equal",
        BOTH,
        None,
        follows=lambda calls: ("map/inverse",),
    ),
    "map/promised-jacobian[volume]": Statement(
        "the log-det is zero", "equal", ("forward",), _no_volume
    ),
    "composition/parts": Statement(
        "a composite is its parts in order, and its log-det is the sum of theirs",
        "equal",
        ("forward", "parts"),
        _composite_and_chain,
        traces=2,
    ),
    "composition/algebra[inverse]": Statement(
        "the inverse of a composite is the inverses of its parts in reverse order",
        "equal",
        ("inverse", "parts"),
        _parts_back,
        "latents",
        traces=2,
    ),
    "coupling/pattern[conditioner]": Statement(
        "kept entries depend on no transformed ones, and transformed entries on no other transformed ones",
        "pattern",
        ("forward",),
        _zeros,
    ),
    "coupling/closed-form": Statement(
        "given the kept part, transformed entries are affine in the input, with the log-det of their slopes",
        "slope",
        ("forward",),
        _lines,
        follows=_of_couplings,
    ),
    "squeeze/permutes": Statement(
        "every entry of an image is in the output once, at the same place for every image, and nothing is computed with it",
        "permuted",
        ("forward",),
        _squeezed,
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
        traces=4,
    ),
    "gradient/input[value]": Statement(
        "the framework's derivative of f(x) by x is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 0)),
        stronger=_all_by_points,
        traces=4,
    ),
    "gradient/input[log-det]": Statement(
        "the framework's derivative of the log-det by x is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 1)),
        stronger=_all_by_points,
        traces=4,
    ),
    "gradient/input[log-prob]": Statement(
        "the framework's derivative of the log-density by x is its derivative",
        "slope",
        ("log_prob",),
        lambda of: of.slope(("log_prob", 0)),
        "data",
        stronger=_all_by_points,
        traces=4,
    ),
    "gradient/parameters[value]": Statement(
        "the framework's derivatives of f(x) and of the log-density by the parameters are theirs",
        "slope",
        (),
        _values_in_training,
        "data",
        stronger=_all_by_parameters,
        traces=4,
    ),
    "gradient/parameters[log-det]": Statement(
        "the framework's derivative of the log-det by the parameters is its derivative",
        "slope",
        ("forward",),
        lambda of: of.slope(("forward", 1), by="parameters"),
        stronger=_all_by_parameters,
        traces=4,
    ),
}


# Circumstances, in words, as they precede a statement.
CIRCUMSTANCES = {
    ("mode", "train"): "in train mode",
    ("direction", "inverse"): "the other way round",
    ("contextual", True): "given a context that may be left out",
    ("one_context", True): "at one context",
    ("resized", True): "at events of another size",
}


def words_of(law: Law) -> str:
    """A statement with its circumstances, as a sentence."""
    found = [words for (name, value), words in CIRCUMSTANCES.items() if getattr(law, name) == value]
    statement = STATEMENTS[law.base]
    found += [f"in {statement.mode} mode"] if statement.mode else []
    return ", ".join([*found, statement.words])


def provable(law: Law) -> bool:
    """Whether a law is one of `STATEMENTS` in circumstances that proofs cover."""
    return law.base in STATEMENTS and law.history == "warm" and law.grad
