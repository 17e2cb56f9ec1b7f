"""Schedulers of flow_matching, affine and geodesic paths, a flat torus, and an ODE solver of a fixed field."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flowref.adapters.common.object_components import Construction, Constructions

# Scheduler class -> arguments.
SCHEDULERS: dict[str, dict[str, Any]] = {
    "CondOTScheduler": {},
    "PolynomialConvexScheduler": {"n": 3.0},
    "VPScheduler": {"beta_min": 0.1, "beta_max": 20.0},
    "LinearVPScheduler": {},
    "CosineScheduler": {},
}
FEATURES = 2
# The matrix of the field of `solvers`, and its size: a slow field is solved in few steps.
MIXING, SLOW = ((-0.4, 0.7), (-0.5, 0.2)), 0.3


def scheduler(name: str) -> Any:
    """Build a scheduler of `SCHEDULERS`."""
    from flow_matching.path import scheduler as of

    return getattr(of, name)(**SCHEDULERS[name])


def path(name: str) -> Any:
    """Build the affine path of a scheduler."""
    from flow_matching.path import AffineProbPath

    return AffineProbPath(scheduler(name))


def schedulers() -> Constructions:
    """Return name -> (builder, event shape); events are times."""
    return {name: (partial(scheduler, name), (1,)) for name in SCHEDULERS}


def paths() -> Constructions:
    """Affine paths; events ``(2, d)`` are a source and a target."""
    return {f"AffineProbPath[{_short(name)}]": _pairs(name) for name in SCHEDULERS}


def paths_by(what: str) -> Constructions:
    """The affine path of `VPScheduler` whose velocity is computed from ``what`` the model predicts."""
    return {f"AffineProbPath[VP, {what}]": _pairs("VPScheduler")}


def paths_in_time() -> Constructions:
    """Affine paths as functions of time; events are times."""
    return {
        f"AffineProbPath[{_short(name)}, in time]": (partial(path, name), (1,))
        for name in SCHEDULERS
    }


def geodesics() -> Constructions:
    """Geodesic paths on the real line; events are times."""
    return {"GeodesicProbPath": (_geodesic, (1,))}


def rescheduled() -> Constructions:
    """Velocities of the path of one scheduler, converted to that of another."""
    names = (("CondOTScheduler", "VPScheduler"), ("VPScheduler", "CosineScheduler"))
    return {
        f"ScheduleTransformedModel[{_short(old)} to {_short(new)}]": (_transformed(old, new), (1,))
        for old, new in names
    }


def manifolds() -> Constructions:
    """A flat torus; events are tangent vectors, contexts base points."""
    from flow_matching.utils.manifolds import FlatTorus

    return {"FlatTorus": (FlatTorus, (FEATURES,))}


def solvers() -> Constructions:
    """The ODE solver of the field tanh(x A) + t x / 2."""
    from flow_matching.solver import ODESolver

    return {"ODESolver": (lambda: ODESolver(_field()), (FEATURES,))}


def _short(name: str) -> str:
    return name.removesuffix("Scheduler")


def _pairs(name: str) -> Construction:
    return partial(path, name), (2, FEATURES)


def _geodesic() -> Any:
    from flow_matching.path import GeodesicProbPath
    from flow_matching.utils.manifolds import Euclidean

    return GeodesicProbPath(scheduler("PolynomialConvexScheduler"), Euclidean())


def _transformed(old: str, new: str) -> Callable[[], Any]:
    def make() -> Any:
        import torch
        from flow_matching.path.scheduler import ScheduleTransformedModel

        class Conditional(torch.nn.Module):
            """The conditional velocity towards a target."""

            def forward(self, x: Any, t: Any, x_1: Any) -> Any:
                return path(old).target_to_velocity(x_1, x, t)

        return ScheduleTransformedModel(Conditional(), scheduler(old), scheduler(new))

    return make


def _field() -> Any:
    import torch

    class Field(torch.nn.Module):
        """The velocity tanh(x A) + t x / 2."""

        features = FEATURES

        def __init__(self) -> None:
            super().__init__()
            self.mixing = torch.nn.Parameter(torch.tensor(MIXING))

        def forward(self, x: Any, t: Any) -> Any:
            return SLOW * (torch.tanh(x @ self.mixing) + 0.5 * t * x)

    return Field()
