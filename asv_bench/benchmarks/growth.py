"""What the audit of a larger flow costs: processor seconds and memory of a worker that measures one
law of each kind, while features, layers or width grow and the rest stays.

`reports/growth.md` has all laws, and how many of them are judged.
"""

from __future__ import annotations

from typing import Any

from asv_runner.benchmarks.mark import SkipNotImplemented

from ._grid import installed
from .audit import LAWS, PROFILE, names_of

FAMILIES = {"coupling": "RealNVP", "spline": "NSF", "autoregressive": "MAF"}
FEATURES, LAYERS, WIDTH = 16, 3, 64


def spent(family: str, features: int, layers: int, width: int) -> Any:
    """What the worker took, as the report tells it."""
    import flowref
    from flowref import registry

    wanted = {name for law in LAWS for name in names_of(law)}
    laws = [law.id for law in registry.laws() if law.id in wanted]
    options = f"features={features}&transforms={layers}&hidden={width}"
    report = flowref.audit(
        f"zuko:{FAMILIES[family]}?{options}", laws=laws, profile=PROFILE, jobs=1, memory=4096
    )
    if not getattr(report, "expenses", None):
        raise SkipNotImplemented("reports of this commit do not tell what a target took")
    return next(iter(report.expenses.values()))


class _Growth:
    """Along one axis."""

    version = "1"
    timeout = 600

    def setup(self, family: str, value: int) -> None:
        """Needs Zuko, whose flows are measured."""
        if not installed("zuko") or not installed("flowref.auditing"):
            raise NotImplementedError("zuko or the auditor is not here")

    def measured(self, family: str, value: int) -> Any:
        """At a value on the axis."""
        raise NotImplementedError

    def track_seconds(self, family: str, value: int) -> float:
        """Of processor time."""
        return float(self.measured(family, value).seconds)

    def track_peak(self, family: str, value: int) -> float:
        """Resident memory at its highest, in MiB."""
        return float(self.measured(family, value).peak / 2**20)

    track_seconds.unit = "s"  # type: ignore[attr-defined]  # asv reads it off the function
    track_peak.unit = "MiB"  # type: ignore[attr-defined]  # as above


class Features(_Growth):
    """The number of features."""

    params = (list(FAMILIES), [2, 8, 32, 128])
    param_names = ("family", "features")

    def measured(self, family: str, value: int) -> Any:
        """At a number of features."""
        return spent(family, value, LAYERS, WIDTH)


class Layers(_Growth):
    """The number of layers."""

    params = (list(FAMILIES), [1, 4, 16])
    param_names = ("family", "layers")

    def measured(self, family: str, value: int) -> Any:
        """At a number of layers."""
        return spent(family, FEATURES, value, WIDTH)


class Width(_Growth):
    """The units of each layer of a conditioner."""

    params = (list(FAMILIES), [16, 64, 256])
    param_names = ("family", "width")

    def measured(self, family: str, value: int) -> Any:
        """At a width."""
        return spent(family, FEATURES, LAYERS, value)
