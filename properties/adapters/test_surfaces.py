"""What is on a surface is judged there: maps and densities of the unit sphere, densities on a subspace."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref import checking, registry
from flowref.checking import Settings
from flowref.checking.data import data_of
from flowref.loading.recipe import recipe_of
from flowref.model import DataError, Manifold, Status, TargetError
from flowref.model.manifold import axes, centred, rotations, simplex, sphere, torus

SPHERE, SUBSPACE = "on the unit sphere S^2", "on a subspace of 4 dimensions"


class Stretched(nn.Module):
    """The sphere of R^3 by $x -> A x / |A x|$, with the log-det of areas, $log |det A| - 3 log |A x|$."""

    event_shape = (3,)

    def __init__(self, off: float = 0.0) -> None:
        super().__init__()
        self.off = off
        self.scale = nn.Parameter(torch.tensor([1.3, 0.8, 1.1]))

    def forward(self, x: Any) -> Any:
        """To the sphere."""
        y = x * self.scale
        length = y.norm(dim=-1, keepdim=True)
        return y / length, self.scale.log().sum() - (3 - self.off) * length[:, 0].log()

    def inverse(self, y: Any) -> Any:
        """Back."""
        x = y / self.scale
        length = x.norm(dim=-1, keepdim=True)
        return x / length, -self.scale.log().sum() - (3 - self.off) * length[:, 0].log()


class Radial(nn.Module):
    """A map of R^3 that keeps the unit sphere, and none of it alone: $x |x|^{p - 1}$."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Any) -> Any:
        """To latents."""
        length = x.norm(dim=-1, keepdim=True)
        ladj = self.power.log() + 3 * (self.power - 1) * length[:, 0].log()
        return x * length ** (self.power - 1), ladj


class Girdle(nn.Module):
    """A density of the circle, $1 + a x_1$ over its length."""

    event_shape = (2,)

    def __init__(self, length: float = 2 * math.pi) -> None:
        super().__init__()
        self.length = length
        self.tilt = nn.Parameter(torch.tensor(0.4))

    def log_prob(self, x: Any) -> Any:
        """Per length."""
        return torch.log1p(self.tilt * x[:, 0]) - math.log(self.length)

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """By rejection."""
        x = nn.functional.normalize(torch.randn(8 * n, 2, dtype=self.tilt.dtype), dim=-1)
        kept = torch.rand(8 * n, dtype=x.dtype) * (1 + self.tilt) < 1 + self.tilt * x[:, 0]
        return x[kept][:n]


class Centred(nn.Module):
    """A round normal of three points of a plane whose mean is zero, per volume of their subspace."""

    event_shape = (3, 2)

    def __init__(self, dimensions: int = 4) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.log_scale = nn.Parameter(torch.tensor(0.3))

    def log_prob(self, x: Any) -> Any:
        """Per volume."""
        square = (x * x).sum((-1, -2)) * (-2 * self.log_scale).exp()
        return -0.5 * square - self.dimensions * (self.log_scale + 0.5 * math.log(2 * math.pi))

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Noise without its mean."""
        x = torch.randn(n, 3, 2, dtype=self.log_scale.dtype)
        return self.log_scale.exp() * (x - x.mean(1, keepdim=True))


class Shares(nn.Module):
    """Dirichlet's density of three shares, per volume of the first two."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def log_prob(self, x: Any) -> Any:
        """Per volume; nothing where a share is none."""
        inside = (x > 0).all(-1)
        shares = torch.where(inside[:, None], x, torch.full_like(x, 1 / 3))
        constant = torch.lgamma(self.weights.sum()) - torch.lgamma(self.weights).sum()
        told = ((self.weights - 1) * shares.log()).sum(-1) + constant
        return torch.where(inside, told, torch.full_like(told, -math.inf))

    @torch.no_grad()
    def sample(self, n: int) -> Any:
        """Of gamma variables."""
        x = torch.distributions.Gamma(self.weights, 1.0).sample((n,))
        return x / x.sum(-1, keepdim=True)


def stretched_off() -> nn.Module:
    """One length is forgotten."""
    return Stretched(1.0)


def girdle_of_the_sphere() -> nn.Module:
    """The area of the sphere in place of the length of the circle."""
    return Girdle(4 * math.pi)


def centred_of_all() -> nn.Module:
    """All coordinates are counted."""
    return Centred(6)


# What is audited -> how it is read, and which of its laws are violated.
ROWS: dict[str, tuple[str, set[str]]] = {
    "Stretched": (SPHERE, set()),
    "stretched_off": (SPHERE, {"map/log-det"}),
    "Radial": ("", set()),
    "Girdle": ("on the unit circle", set()),
    "girdle_of_the_sphere": ("on the unit circle", {"density/mass"}),
    "Centred": (SUBSPACE, set()),
    "Shares": ("on the simplex of 3 entries", set()),
    "centred_of_all": (SUBSPACE, {"sampling/follows-density[ratios]"}),
}
LAWS = (
    "map/log-det", "map/log-det[inverse]", "map/inverse", "map/one-to-one[orientation]", "map/finite",
    "density/mass", "sampling/follows-density[ratios]", "density/base-constant[quadratic-form]",
)  # fmt: skip
RATIOS, IMPORTANCE = "sampling/follows-density[ratios]", "density/mass[importance]"
OVERLAP = "sampling/follows-density"


@pytest.mark.parametrize("name", ROWS)
def test_what_is_on_a_surface_is_judged_there(name: str) -> None:
    """A right one holds, and a wrong one is accused."""
    target = registry.parse_target(f"{__name__}:{name}")
    surface, wrong = ROWS[name]
    said = recipe_of(target).recognized.conventions
    assert any(surface in one for one in said) if surface else "coordinates" not in " ".join(said)
    verdicts = [checking.pair_verdict(target, law, Settings(profile="quick")) for law in LAWS]
    violated = {one.law for one in verdicts if one.status is Status.VIOLATED}
    assert wrong <= violated if wrong else not violated, verdicts


# A specimen of `manifolds` -> what sentences name, and the law that its wrong twin violates.
TWINS = {
    "circle": ("the unit circle", "density/mass"),
    "angle": ("the circle", "density/mass"),
    "two_angles": ("the torus of 2 angles", RATIOS),
    "three_angles": ("the torus of 3 angles", IMPORTANCE),
    "cylinder": ("the circle and a line", "density/mass"),
    "on_rays": ("the unit sphere S^2", "density/mass"),
    "strict": ("the unit sphere S^2", "density/mass"),
    "declared": ("the unit sphere S^2", "density/mass"),
    "four": ("the unit sphere S^3", RATIOS),
    "four_unsampled": ("the unit sphere S^3", IMPORTANCE),
    "quaternions": ("the half sphere S^3", RATIOS),
    "rotations": ("the rotations SO(3)", RATIOS),
    "rotations_unsampled": ("the rotations SO(3)", IMPORTANCE),
    "shares": ("the simplex of 3 entries", "density/mass"),
    "elsewhere": ("the sphere S^2 of radius 2 around [1.0, 0.0, 0.0]", "density/mass"),
    "plane": ("the subspace of 2 dimensions", "density/mass"),
    "stretch": ("the unit sphere S^3", "map/log-det"),
    "moebius": ("the unit circle", "map/log-det"),
    "turned": ("the rotations SO(3)", "map/log-det"),
    "around": ("the torus of 2 angles", "map/log-det"),
    "centred": ("the subspace of sum zero", "map/log-det"),
}


@pytest.mark.parametrize("name", TWINS)
def test_what_is_right_on_a_manifold_holds(name: str) -> None:
    """In the law that its wrong twin violates, and in what is said of maps and samples."""
    target = registry.parse_target(f"adapters.manifolds:{name}")
    for law in (TWINS[name][1], "map/one-to-one[orientation]", "map/finite", OVERLAP):
        verdict = checking.pair_verdict(target, law, Settings(profile="quick"))
        assert verdict.status in (Status.HOLDS, Status.NOT_APPLICABLE), verdict


@pytest.mark.parametrize("name", TWINS)
def test_what_is_wrong_on_a_manifold_is_seen_there(name: str) -> None:
    """The sentence names the manifold."""
    surface, law = TWINS[name]
    target = registry.parse_target(f"adapters.manifolds:{name}?wrong=1")
    verdict = checking.pair_verdict(target, law, Settings(profile="quick"))
    assert verdict.status is Status.VIOLATED
    assert f"on {surface}" in verdict.reason


def test_a_domain_that_samples_contradict_is_refused() -> None:
    """In one sentence."""
    with pytest.raises(
        TargetError, match=r"the unit sphere S\^2, and 512 of 512 samples do not lie"
    ):
        recipe_of(registry.parse_target("adapters.manifolds:contradicted"))


def test_an_event_that_is_no_point_of_a_declared_domain_is_refused() -> None:
    """It says which is one."""
    with pytest.raises(TargetError, match=r"no event of shape \(3,\) is a point of that"):
        recipe_of(registry.parse_target("adapters.manifolds:on_rays?domain=so3"))


def test_rows_of_data_beside_a_manifold_are_refused(tmp_path: Path) -> None:
    """They are no members."""
    np.save(tmp_path / "points.npy", np.ones((9, 3)))
    settings = Settings(profile="quick", data=str(tmp_path / "points.npy"))
    with pytest.raises(DataError, match=r"off the unit sphere S\^2, by 0.732 at least"):
        data_of(registry.parse_target("adapters.manifolds:declared"), settings)


@pytest.mark.parametrize(
    "made",
    [
        sphere((2,)), sphere((4,)), sphere((2, 3)), axes((4,)), rotations((3, 3)), simplex((4,)), torus((3,)),
    ],
    ids=lambda made: made.name,
)  # fmt: skip
def test_uniform_points_have_the_density_that_is_told(made: Manifold) -> None:
    """The mean over them of a normal density of coordinates over theirs is one, and they are points of it."""
    u, log_q = made.uniform(100_000, np.random.default_rng(0))
    assert made.holds(made.point(u))
    flat = u.reshape(len(u), -1)
    log_r = -2 * (flat**2).sum(1) + 0.5 * made.size * math.log(2 / math.pi)
    ratios = np.exp(log_r - log_q)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / len(u) ** 0.5


@pytest.mark.parametrize(
    "made", [sphere((3,)), axes((4,)), simplex((3,)), centred((4, 2))], ids=lambda made: made.name
)
def test_log_areas_are_those_of_jacobians(made: Manifold) -> None:
    """The Gram determinant of the derivative of a point; per first entries on a simplex."""
    u = torch.tensor(np.random.default_rng(1).standard_normal((1, *made.shape)))
    point: Any = lambda v: made.point(v[None])[0].reshape(-1)  # noqa: E731
    jacobian = torch.autograd.functional.jacobian(point, u[0]).reshape(-1, made.size)
    jacobian = jacobian[: made.size] if made.kind == "simplex" else jacobian
    area = 0.5 * torch.logdet(jacobian.T @ jacobian)
    assert torch.allclose(area, made.log_area(u)[0])
    assert torch.allclose(made.coordinates(made.point(u)), u)


class Centered(nn.Module):
    """Each channel shifted and scaled, as built by nothing: the identity keeps every sphere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.event_shape = (3, 4, width)
        self.log_scale = nn.Parameter(torch.zeros(3, 1, 1))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x * self.log_scale.exp(), (self.log_scale.sum() * x[0, 0].numel()).expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.log_scale).exp()


@pytest.mark.parametrize("width", [2, 6])
def test_a_map_of_volumes_that_keeps_a_sphere_is_none_of_it(width: int) -> None:
    """Also where an event is too large for its Jacobian."""
    recipe = recipe_of(registry.parse_target(f"{__file__}:Centered?width={width}"))
    assert recipe.facts.event_shape == (3, 4, width)
    assert not any("sphere" in words for words in recipe.probed.conventions)
