"""Facts found by experiments: tables of rows, each with its conditions, its experiment, and the remark on
the target's line. Rows run in order.
"""

from __future__ import annotations

from flowref.loading.domains import circle, clamps, mirrored, unknown
from flowref.loading.draft import Draft, Experiment
from flowref.loading.estimates import states
from flowref.loading.latents import pointless, standardizes
from flowref.loading.log_dets import precision, rule
from flowref.loading.lower_bounds import lower_bound_finding, of_noise
from flowref.loading.parameters import may_follow, sync_method_finding, unmoved
from flowref.loading.sets import members
from flowref.loading.solvers import accuracy
from flowref.loading.undeclared_noise import encoder, layer, may_draw
from flowref.loading.whole_steps import stepping
from flowref.model.not_judged import UNMOVED


def unnormalized(draft: Draft) -> bool:
    """Whether the object normalizes no batches."""
    return draft.facts.normalizer is None


def undrawn(draft: Draft) -> bool:
    """Whether the object is not a stochastic layer."""
    return draft.dialect.push is None


def is_map(draft: Draft) -> bool:
    """Whether the object has forward."""
    return draft.dialect.forward is not None


def in_torch(draft: Draft) -> bool:
    """Whether the object is called in torch."""
    return draft.instance.backend.name == "torch"


def in_double(draft: Draft) -> bool:
    """Whether the object has forward and runs in float64."""
    return draft.instance.dtype == "float64" and draft.dialect.forward is not None


def may_move_parameters(draft: Draft) -> bool:
    """Whether parameters are not promised to be fixed."""
    return not draft.facts.promises.get("fixed")


def has_log_prob(draft: Draft) -> bool:
    """Whether the object has a log-density."""
    return draft.dialect.log_prob is not None


def uncertain(draft: Draft) -> bool:
    """Whether an estimate is promised."""
    return draft.facts.certainty.estimate


# Need only the object, in every framework.
OF_OBJECTS = (
    Experiment("mirror images", mirrored, "domain: {}, since the signs of x are lost: inverse(f(-x)) = x",
               (in_double, unknown)),
    Experiment("arrays that nothing moves", unmoved, f"{UNMOVED}: {{}}", (undrawn, may_move_parameters)),
)  # fmt: skip
# Need calls.
OF_CALLS = (
    Experiment("members of sets", members, "{}", (in_torch, is_map)),
    Experiment("an encoder", encoder, "", (unnormalized,)),
    Experiment("a layer that draws", layer, "a stochastic layer, as calls show (for a bijection say ?kind=bijection)",
               (unnormalized, in_torch, may_draw)),
    Experiment("a method that follows parameters", sync_method_finding, "{}() is called after its parameters were moved",
               (undrawn, unnormalized, may_follow)),
    Experiment("a log-det in single precision", precision, "log-det {}", (in_double,)),
    Experiment("a series or an estimate", rule, "log-det: {}", (undrawn, in_torch)),
    Experiment("a circle", circle, "domain: {}, since it is periodic", (in_double, unknown)),
    Experiment("clamps", clamps, "domain: {}, since values outside are clamped", (in_double, unknown)),
    *OF_OBJECTS,
)  # fmt: skip
# Need a log-density; also run if the search for shapes was settled by an option.
OF_DENSITIES = (
    Experiment("a lower bound", lower_bound_finding, "{}"),
    Experiment("a bound for the lack of noise", of_noise, "{}", (has_log_prob,)),
)
# Need a round trip.
OF_ROUND_TRIPS = (
    Experiment("a solver", accuracy, "{}"),
    Experiment("whole steps", stepping, "{}"),
)
# Need a map with an inverse.
OF_INVERSES = (
    Experiment("latents without a point", pointless, "its inverse is not finite at z = {}; say ?codomain=real if it should be",
               (standardizes,)),
)  # fmt: skip
OF_ESTIMATES = (Experiment("what random states change", states, "{}", (uncertain,)),)
