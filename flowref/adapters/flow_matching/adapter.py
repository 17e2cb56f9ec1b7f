"""flow_matching: schedulers, probability paths with their velocities and conversions, a manifold, and the
likelihood of the ODE solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.flow_matching import calls, constructions, facts
from flowref.adapters.flow_matching.facts import describe
from flowref.model import Adapter, Component, Dialect

SCHEDULER = Dialect(forward=calls.ratio, inverse=calls.ratio_inverse)
IN_TIME = Dialect(forward=calls.position)
GEODESIC = Dialect(forward=calls.position_of_vector)
RESCHEDULED = Dialect(forward=calls.position_rescheduled)
PATH = Dialect(forward=calls.state, inverse=calls.ends)
BY_TARGET = replace(PATH, forward=calls.state_of_target, inverse=calls.ends_by_noise)
BY_NOISE = replace(PATH, forward=calls.state_of_noise, inverse=calls.ends_by_target)
TORUS = Dialect(forward=calls.exponential, inverse=calls.logarithm)
SOLVER = Dialect(
    forward=calls.to_source,
    inverse=calls.to_target,
    log_prob=calls.log_prob,
    sample=calls.sample,
    base_log_prob=calls.base_log_prob,
    base_sample=calls.base_sample,
)
DIALECTS = {
    "Scheduler": SCHEDULER,
    "AffineProbPath": PATH,
    "GeodesicProbPath": GEODESIC,
    "FlatTorus": TORUS,
    "ODESolver": SOLVER,
}


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of an object by its class, or None."""
    names = lineage(obj)
    return next((dialect for name, dialect in DIALECTS.items() if name in names), None)


def components() -> Mapping[str, Component]:
    """Schedulers, paths, a flat torus and an ODE solver."""
    rows = (
        (SCHEDULER, constructions.schedulers()),
        (PATH, constructions.paths()),
        (BY_TARGET, constructions.paths_by("target")),
        (BY_NOISE, constructions.paths_by("noise")),
        (TORUS, constructions.manifolds()),
        (SOLVER, constructions.solvers()),
    )
    table: dict[str, Component] = {}
    for dialect, made in rows:
        table |= components_of(made, dialect, describe)
    in_time = (
        (IN_TIME, constructions.paths_in_time()),
        (GEODESIC, constructions.geodesics()),
        (RESCHEDULED, constructions.rescheduled()),
    )
    for dialect, made in in_time:
        table |= components_of(made, dialect, facts.in_time)
    return table


ADAPTER = Adapter(
    name="flow_matching",
    package="flow_matching",
    title="flow_matching",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("CosineScheduler", "AffineProbPath[CondOT]", "GeodesicProbPath"),
)
