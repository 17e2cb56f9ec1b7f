"""Conditions under which laws of several families speak."""

from __future__ import annotations

from flowref.model import requires
from flowref.model.abilities import Flow


@requires("it promises an estimate, which may differ from call to call", waits=True)
def not_estimator(flow: Flow) -> bool:
    """Estimators (random probes, adaptive solvers) may draw random numbers and may couple the rows
    of a batch.
    """
    return not flow.promises.get("estimator")


@requires("its train batches are declared to have several rows and no constant feature")
def any_batch(flow: Flow) -> bool:
    """Whether a train batch may be of one row, or without a spread."""
    return not flow.promises.get("varied-batches")


@requires("its log-det is promised to be an estimate", waits=True)
def exact_log_det(flow: Flow) -> bool:
    """Estimated log-dets are not held to exact ones."""
    return not flow.promises.get("estimator")


@requires("its log-density is promised to be a lower bound")
def exact_density(flow: Flow) -> bool:
    """Bounds of a density are not held to the density."""
    return not flow.promises.get("lower-bound")


@requires("it holds no modules, hence has no modes and no state_dict")
def has_modules(flow: Flow) -> bool:
    """Modes and state_dicts belong to modules."""
    return flow.stateful


@requires("its weights are given, and tell nothing of how it starts")
def as_built(flow: Flow) -> bool:
    """Laws of what is just built are about initial weights, not about those that training reached."""
    return not flow.facts.given


@requires("it has no trainable parameters")
def has_parameters(flow: Flow) -> bool:
    """Laws of training need something that is trained."""
    return flow.trainable


@requires("it runs in float32 only", waits=True)
def in_double(flow: Flow) -> bool:
    """Laws that compare with float64, or differentiate by differences, need float64."""
    return flow.dtype == "float64"


@requires("its gradients are promised to pass straight through a clamp", waits=True)
def true_gradients(flow: Flow) -> bool:
    """Clamps that let gradients through on purpose are documented by a promise."""
    return not flow.promises.get("straight-through")


@requires(
    "its forward map is iterative, and what autograd records of it is not its derivative",
    waits=True,
)
def forward_in_closed_form(flow: Flow) -> bool:
    """A forward map that iterates is differentiated only as far as it is recorded."""
    return not flow.promises.get("iterative-forward")
