"""Pictures of violations: measured once, beside the counterexample, and no part of the verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flowref import registry
from flowref.checking import pair_verdict
from flowref.checking.pictures import ray
from flowref.model import Figure, Status
from flowref.model.figure import COURSE, DENSITY, JACOBIAN, PIT, SCALE

# Law -> a mutant that violates it, and the kind of its picture.
SHOWN = {
    "map/log-det": ("nflows:AffineCouplingTransform", "log-det-wrong-in-the-tail", SCALE),
    "density/mass": ("zuko:NSF?features=2", "mass-missing", DENSITY),
    "sampling/follows-density[ratios]": ("zuko:MAF", "samples-too-narrow", PIT),
    "sampling/follows-density[pit]": ("reference:Flow[VectorRealNVP]", "too-narrow", PIT),
    "batch-norm/statistics[buffers]": ("torch:BatchNorm1d", "running-variance-off", COURSE),
    "gradient/input[log-det]": ("nflows:AffineCouplingTransform", "log-det-detached", JACOBIAN),
}


@pytest.mark.parametrize("law", SHOWN)
def test_a_violation_has_the_picture_of_its_family(law: str) -> None:
    """A violation comes with a figure of the kind that suits its law, of finite numbers that show
    what is wrong; the verdict is what it would be without.
    """
    host, mutant, kind = SHOWN[law]
    target = registry.parse_target(host).with_options(mutant=f"{law}#{mutant}")
    verdict = pair_verdict(target, law)
    shown = verdict.figure
    assert verdict.status is Status.VIOLATED and shown is not None and shown.kind == kind
    if kind == SCALE:
        error, allowed = np.array(shown.of("error")), np.array(shown.of("allowed"))
        reach = np.array(shown.of("scale"))
        assert (error > allowed)[reach > 2e4].all() and not (error > allowed)[reach < 9e3].any()
        assert shown.of("own")[0] in shown.of("scale")
        assert shown.note == "reported against autograd"
        assert len(shown.of("got")) == len(shown.of("expected")) > 20
    if law == "density/mass":
        assert len(shown.of("density")) == 40 * 40
        assert 0.9 < shown.of("integral")[0] < 1.0
        assert len(shown.of("sampled")) == 2 * 150
    if kind == PIT:
        counts = np.array(shown.of("counts"))
        assert counts.sum() == 8000 and counts[[0, -1]].mean() < 0.9 * counts[8:12].mean()
    if kind == COURSE:
        recorded, expected = (np.array(shown.of(name)) for name in ("recorded", "expected"))
        assert recorded[0] == expected[0] and (recorded[1:] != expected[1:]).all()
    if kind == JACOBIAN:
        assert not any(shown.of("reported")) and any(shown.of("true"))


def test_samples_lie_on_their_density() -> None:
    """In one dimension the bars of samples that are too narrow have less variance than the density, and
    in all they hold as much.
    """
    law = "sampling/follows-density[ratios]"
    host = registry.parse_target("zuko:MAF?features=1")
    shown = pair_verdict(host.with_options(mutant=f"{law}#samples-too-narrow"), law).figure
    assert shown is not None and shown.kind == DENSITY
    bars, curve = np.array(shown.of("sampled")), np.array(shown.of("density"))
    low, high = shown.of("low")[0], shown.of("high")[0]

    def mass_and_variance(heights: np.ndarray) -> tuple[float, float]:
        width = (high - low) / len(heights)
        x = low + width * (np.arange(len(heights)) + 0.5)
        weights = heights * width
        middle = (weights * x).sum()
        return float(weights.sum()), float((weights * (x - middle) ** 2).sum())

    (held, narrow), (mass, variance) = mass_and_variance(bars), mass_and_variance(curve)
    assert abs(held - 1) < 0.01 and abs(mass - 1) < 0.01
    assert narrow < 0.9 * variance


def test_what_holds_has_no_picture() -> None:
    """A figure is measured for violations alone."""
    assert pair_verdict("nflows:AffineCouplingTransform", "map/log-det").figure is None


def test_a_picture_that_fails_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a picture cannot be measured, the verdict is the same without one."""
    law = "density/mass"
    target = registry.parse_target("zuko:NSF?features=1").with_options(mutant=f"{law}#mass-missing")
    seen = pair_verdict(target, law)

    def fails(flow: object, batch: object) -> Figure:
        raise ValueError("no picture")

    broken = replace(registry.find_law(law), picture=fails)
    without = pair_verdict(target, broken)
    assert seen.figure is not None and without.figure is None
    assert without.without_time() == replace(seen, figure=None).without_time()


@pytest.mark.parametrize(
    ("law", "mutant", "note", "slope"),
    [
        ("map/log-det", "log-det-sign", "reported against autograd", -1.0),
        (
            "map/log-det[antisymmetry]",
            "inverse-log-det-offset",
            "forward's log-det against minus inverse's log-det",
            1.0,
        ),
        ("map/inverse", "inverse-scaled", "", 0.0),
    ],
)
def test_what_is_compared_shows_its_bug(law: str, mutant: str, note: str, slope: float) -> None:
    """Where a law's residual is the difference of two numbers, or their sum, these lie on a line of
    the slope of the bug; of vectors nothing is compared.
    """
    host = "nflows:AffineCouplingTransform"
    target = registry.parse_target(host).with_options(mutant=f"{law}#{mutant}")
    shown = pair_verdict(target, law).figure
    assert shown is not None and shown.note == note
    if slope:
        got, expected = (np.array(shown.of(name)) for name in ("got", "expected"))
        assert np.allclose(np.polyfit(expected, got, 1)[0], slope, atol=1e-2)
        assert np.ptp(expected) > 0.1


@pytest.mark.parametrize("point", [np.array([3.0, -4.0]), np.zeros(3), np.array([[1e-300]])])
def test_a_ray_leads_through_the_point(point: np.ndarray) -> None:
    """The points of a ray are multiples of one, from small to large, and the point itself, bit for
    bit; from zero they go in a direction of their own.
    """
    rows = ray(point, 1)
    sizes = np.abs(rows).reshape(len(rows), -1).max(1)
    assert (np.diff(sizes) > 0).all() and rows.shape[1:] == point.shape
    if point.any():
        assert any((row == point).all() for row in rows)
    assert np.allclose(rows / sizes.reshape(-1, *(1,) * point.ndim), rows[-1] / sizes[-1])
