"""Conditions under which laws of several families apply."""

from __future__ import annotations

from flowref.model import Unsupported, requires
from flowref.model.abilities import Flow
from flowref.model.not_judged import UNMOVED

COUPLED = "its rows interact by definition: it normalizes by the batch in eval mode too, or they are members of a set"
# The circumstances of users in which float64 objects are observed.
IN_DOUBLE = "with the model in float64 and the default dtype float32,"
DRAWN = "its log-det is drawn at random, and judged by its mean: map/log-det[estimate]"


def refuse_coupled(flow: Flow) -> None:
    """Raise `Unsupported` if the rows of a batch interact by definition."""
    if flow.certainty.coupled:
        raise Unsupported(COUPLED, blocked=False)


@requires("it is judged in coordinates of a manifold, whose far ends are those of the coordinates")
def in_space(flow: Flow) -> bool:
    """Points of manifolds are judged in coordinates, which are not the object's own."""
    return flow.facts.surface is None


@requires("it promises an estimate, which may differ from call to call", blocked=True)
def not_estimator(flow: Flow) -> bool:
    """Estimators (random probes, adaptive solvers) may draw random numbers and may couple the rows
    of a batch.
    """
    refuse_coupled(flow)
    return not flow.certainty.estimate


@requires("it promises an estimate, and no random state is seen to fix it", blocked=True)
def repeatable(flow: Flow) -> bool:
    """Random numbers of an estimate can be fixed, so that laws comparing a call with itself apply.
    Batch statistics, which couple rows on purpose, have laws of their own.
    """
    refuse_coupled(flow)
    return flow.certainty.repeats


@requires("it promises an estimate, which may differ from call to call", blocked=True)
def calculated(flow: Flow) -> bool:
    """The log-det is computed, not drawn. Raises `Unsupported` if it is drawn: single values and
    gradients are then not specified.
    """
    if flow.certainty.random_log_det:
        raise Unsupported(DRAWN, blocked=False)
    refuse_coupled(flow)
    return flow.certainty.repeats


@requires("it promises an estimate, and its values may be approximate as well", blocked=True)
def exact_values(flow: Flow) -> bool:
    """If random states change only its log-det, its values are exact."""
    refuse_coupled(flow)
    return flow.certainty.values == "exact"


@requires("its log-det is promised to be an estimate", blocked=True)
def exact_log_det(flow: Flow) -> bool:
    """Estimated log-dets are exact only in the mean, which other laws test. Raises `Unsupported`
    if they are observed to be random.
    """
    if flow.certainty.random_log_det:
        raise Unsupported(DRAWN, blocked=False)
    refuse_coupled(flow)
    return flow.certainty.log_dets == "exact"


@requires("its log-density is promised to be a lower bound")
def exact_density(flow: Flow) -> bool:
    """Bounds are not compared with the density."""
    return flow.certainty.densities != "bound"


@requires("its train batches are declared to have several rows and no constant feature")
def any_batch(flow: Flow) -> bool:
    """A train batch may consist of one row, or have constant features."""
    return not flow.promises.get("varied-batches")


@requires("it holds no modules, hence has no modes and no state_dict")
def has_modules(flow: Flow) -> bool:
    """Modes and state_dicts belong to modules."""
    return flow.stateful


@requires("its weights are given, so its initialization is not seen")
def as_built(flow: Flow) -> bool:
    """Laws about new objects concern initial weights, not trained ones."""
    return not flow.facts.given


@requires("it has no trainable parameters")
def has_parameters(flow: Flow) -> bool:
    """Laws of training need trainable parameters."""
    if flow.facts.unmoved:
        raise Unsupported(UNMOVED, blocked=True, remedy=flow.facts.unmoved)
    return flow.trainable


@requires("it runs in float32 only", blocked=True)
def in_double(flow: Flow) -> bool:
    """Comparisons with float64 and difference quotients need float64."""
    return flow.dtype == "float64"


@requires("its gradients are promised to pass straight through a clamp or a rounding", blocked=True)
def true_gradients(flow: Flow) -> bool:
    """Straight-through gradients of clamps and rounding are declared by a promise."""
    return not flow.promises.get("straight-through")


@requires("it moves points by integers, with straight-through gradients", blocked=True)
def moves_smoothly(flow: Flow) -> bool:
    """Integer translations have straight-through derivatives, not those of the map."""
    return not flow.promises.get("whole-numbers")


@requires(
    "its weights come from an iteration that gradients may leave out, as in a spectral norm",
    blocked=True,
)
def weights_as_given(flow: Flow) -> bool:
    """Power iterations are not differentiated on purpose: gradients are right where they
    converged.
    """
    return not flow.promises.get("iterated-weights")


@requires(
    "its forward map is iterative, and what autograd records of it is not its derivative",
    blocked=True,
)
def forward_in_closed_form(flow: Flow) -> bool:
    """An iterative forward map is differentiated only as far as it is recorded."""
    return not flow.promises.get("iterative-forward")
