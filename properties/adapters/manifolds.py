"""Densities and maps on manifolds, each right, and with ``wrong`` a bug that is common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import normalize, softplus

LOG_2PI = math.log(2 * math.pi)


class Density(nn.Module):
    """A density by its formula of some parameters and points, and by its sampler, if it has one."""

    def __init__(
        self,
        event: tuple[int, ...],
        start: Any,
        formula: Callable[[Any, Any], Any],
        draw: Callable[[Any, int], Any] | None = None,
        domain: str = "",
    ) -> None:
        super().__init__()
        self.event_shape, self.formula = event, formula
        self.raw = nn.Parameter(torch.tensor(start))
        if domain:
            self.domain = domain
        if draw is not None:
            self.sample = torch.no_grad()(lambda count: draw(self.raw, count))

    def log_prob(self, x: Any) -> Any:
        """Per area."""
        return self.formula(self.raw, x)


def kept(points: Any, log_share: Any, count: int) -> Any:
    """So many of some uniform points, with a probability each."""
    return points[torch.rand(len(points), dtype=points.dtype) < log_share.exp()][:count]


def vectors(raw: Any, count: int, size: int) -> Any:
    """Uniform unit vectors."""
    return normalize(torch.randn(count, size, dtype=raw.dtype), dim=-1)


def turns(raw: Any, count: int) -> Any:
    """Uniform rotations."""
    return rotation(torch.randn(count, 4, dtype=raw.dtype))


def rotation(q: Any) -> Any:
    """The rotation of a quaternion, scalar first."""
    w, x, y, z = normalize(q, dim=-1).unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)], -1),
        torch.stack([2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)], -1),
        torch.stack([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)], -1),
    ]
    return torch.stack(rows, -2)


def trace(x: Any) -> Any:
    """That of matrices."""
    return torch.diagonal(x, dim1=-2, dim2=-1).sum(-1)


def angles(rate: Any, count: int) -> Any:
    """Angles of a von Mises distribution around zero."""
    wide = rate.double().expand(count)
    return torch.distributions.VonMises(torch.zeros_like(wide), wide).sample().to(rate)


def circle(wrong: int = 0) -> nn.Module:
    """Von Mises on points of the circle; with the Bessel function of the next order."""
    bessel = torch.special.i1 if wrong else torch.special.i0

    def formula(raw: Any, x: Any) -> Any:
        rate = softplus(raw)
        return rate * x[..., 0] - LOG_2PI - bessel(rate).log()

    def draw(raw: Any, count: int) -> Any:
        t = angles(softplus(raw), count)
        return torch.stack([t.cos(), t.sin()], -1)

    return Density((2,), 1.0, formula, draw)


def angle(wrong: int = 0) -> nn.Module:
    """Von Mises on an angle; over half a turn."""

    def formula(raw: Any, x: Any) -> Any:
        rate = softplus(raw)
        constant = LOG_2PI - math.log(2) * wrong + torch.special.i0(rate).log()
        return rate * torch.cos(x[..., 0]) - constant

    def draw(raw: Any, count: int) -> Any:
        return torch.remainder(angles(softplus(raw), count), 2 * math.pi)[:, None]

    return Density((1,), 1.0, formula, draw)


def two_angles(wrong: int = 0) -> nn.Module:
    """Two angles, of which the second follows the first; or the negative of it, by its density."""

    def formula(raw: Any, x: Any) -> Any:
        first, second = torch.tanh(raw)
        apart = x[..., 1] + (1 if wrong else -1) * x[..., 0]
        return (
            torch.log1p(first * torch.cos(x[..., 0]))
            + torch.log1p(second * torch.cos(apart))
            - 2 * LOG_2PI
        )

    def draw(raw: Any, count: int) -> Any:
        def one(tilt: Any) -> Any:
            t = 2 * math.pi * torch.rand(8 * count + 64, dtype=raw.dtype)
            return kept(t, torch.log1p(tilt * torch.cos(t)) - math.log(2), count)

        first, second = map(one, torch.tanh(raw))
        return torch.stack([first, first + second], -1)

    return Density((2,), [0.6, -0.5], formula, draw)


def three_angles(wrong: int = 0) -> nn.Module:
    """Three angles without samples; one constant too few."""

    def formula(raw: Any, x: Any) -> Any:
        constants = torch.special.i0(raw).log() + LOG_2PI
        return (raw * torch.cos(x)).sum(-1) - constants[wrong:].sum()

    return Density((3,), [0.5, 1.0, 2.0], formula)


def cylinder(wrong: int = 0) -> nn.Module:
    """An angle and a number that leans on it; its scale is forgotten."""

    def formula(raw: Any, x: Any) -> Any:
        rate, log_scale = softplus(raw[0]), raw[1]
        around = rate * torch.cos(x[..., 0]) - torch.special.i0(rate).log() - LOG_2PI
        z = (x[..., 1] - 0.5 * torch.sin(x[..., 0])) * (-log_scale).exp()
        return around - 0.5 * z**2 - 0.5 * LOG_2PI - (0 if wrong else log_scale)

    def draw(raw: Any, count: int) -> Any:
        t = angles(softplus(raw[0]), count)
        return torch.stack([t, 0.5 * t.sin() + raw[1].exp() * torch.randn_like(t)], -1)

    return Density((2,), [0.5, 0.2], formula, draw)


def vmf(raw: Any, x: Any, wrong: int) -> Any:
    """Von Mises-Fisher on the sphere of $R^3$; a factor of the concentration is forgotten."""
    rate = raw.norm()
    constant = math.log(4 * math.pi) + torch.sinh(rate).log() - (0 if wrong else rate.log())
    return x @ raw - constant


def on_rays(wrong: int = 0) -> nn.Module:
    """One that makes unit vectors of its points itself, without samples."""
    return Density((3,), [0.5, 1.0, -0.7], lambda raw, x: vmf(raw, normalize(x, dim=-1), wrong))


def strict(wrong: int = 0) -> nn.Module:
    """One that refuses what is no unit vector."""

    def formula(raw: Any, x: Any) -> Any:
        if (x.norm(dim=-1) - 1).abs().max() > 1e-4:
            raise ValueError("x is to be a unit vector")
        return vmf(raw, x, wrong)

    return Density((3,), [0.5, 1.0, -0.7], formula)


def elsewhere(wrong: int = 0) -> nn.Module:
    """Uniform on a sphere of radius 2 around (1, 0, 0); its area is taken for that of the unit sphere."""
    center = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)

    def formula(raw: Any, x: Any) -> Any:
        return (
            0.0 * raw.sum() - math.log((4 if wrong else 16) * math.pi) + torch.zeros_like(x[:, 0])
        )

    return Density((3,), [0.5], formula, lambda raw, n: center.to(raw) + 2 * vectors(raw, n, 3))


def declared(wrong: int = 0) -> nn.Module:
    """One that says that it is on the sphere."""
    return Density((3,), [0.5, 1.0, -0.7], lambda raw, x: vmf(raw, x, wrong), domain="sphere")


def _four(raw: Any, x: Any, wrong: int) -> Any:
    rate = softplus(raw)
    constant = 2 * LOG_2PI + torch.special.i1(rate).log() - (0.5 if wrong else 1.0) * rate.log()
    return rate * x[..., 0] - constant


def four(wrong: int = 0) -> nn.Module:
    """Von Mises-Fisher on the sphere of $R^4$; with the power of $R^3$."""

    def draw(raw: Any, count: int) -> Any:
        x = vectors(raw, 24 * count + 64, 4)
        return kept(x, softplus(raw) * (x[:, 0] - 1), count)

    return Density((4,), 1.5, lambda raw, x: _four(raw, x, wrong), draw)


def four_unsampled(wrong: int = 0) -> nn.Module:
    """The same without samples."""
    return Density((4,), 1.5, lambda raw, x: _four(raw, x, wrong), domain="sphere")


def quaternions(wrong: int = 0) -> nn.Module:
    """Watson's density of rotations as quaternions with a positive scalar; over both halves of the sphere."""

    def formula(raw: Any, x: Any) -> Any:
        rate = softplus(raw)
        t = (torch.arange(512, dtype=raw.dtype) + 0.5) / 512 * math.pi
        area = 2 * math.pi**2 * ((rate * torch.cos(t) ** 2).exp() * torch.sin(t) ** 2).mean()
        return rate * x[..., 0] ** 2 - area.log() - math.log(2) * wrong

    def draw(raw: Any, count: int) -> Any:
        x = vectors(raw, 8 * count + 64, 4)
        x = kept(x, softplus(raw) * (x[:, 0] ** 2 - 1), count)
        return x * torch.where(x[:, 3:] >= 0, 1.0, -1.0)

    return Density((4,), 0.7, formula, draw)


def _fisher(raw: Any, x: Any, wrong: int) -> Any:
    """Rotations by their trace; the angle is integrated without its measure."""
    rate = softplus(raw)
    t = (torch.arange(512, dtype=raw.dtype) + 0.5) / 512 * math.pi
    measure = torch.ones_like(t) if wrong else 1 - torch.cos(t)
    constant = ((rate * (1 + 2 * torch.cos(t))).exp() * measure).mean().log()
    return rate * trace(x) - constant


def rotations(wrong: int = 0) -> nn.Module:
    """Rotation matrices, sampled."""

    def draw(raw: Any, count: int) -> Any:
        x = turns(raw, 8 * count + 64)
        return kept(x, softplus(raw) * (trace(x) - 3), count)

    return Density((3, 3), -1.0, lambda raw, x: _fisher(raw, x, wrong), draw)


def rotations_unsampled(wrong: int = 0) -> nn.Module:
    """Rotation matrices, as they are declared to be."""
    return Density((3, 3), -1.0, lambda raw, x: _fisher(raw, x, wrong), domain="so3")


def shares(wrong: int = 0) -> nn.Module:
    """Logistic normal; one share is left out of the Jacobian."""

    def formula(raw: Any, x: Any) -> Any:
        y = x[..., :-1].log() - x[..., -1:].log()
        return -0.5 * ((y - raw) ** 2).sum(-1) - LOG_2PI - x.log()[..., : 3 - wrong].sum(-1)

    def draw(raw: Any, count: int) -> Any:
        y = raw + torch.randn(count, 2, dtype=raw.dtype)
        return torch.softmax(torch.cat([y, torch.zeros_like(y[:, :1])], -1), -1)

    return Density((3,), [0.3, -0.4], formula, draw)


def plane(wrong: int = 0) -> nn.Module:
    """A normal on a plane of $R^4$ beside the origin; its scale is counted twice."""
    basis = torch.linalg.qr(torch.tensor([[1.0, 2, 0, 1], [0, 1, -1, 2]], dtype=torch.float64).T)[0]
    center = torch.tensor([1.0, -1, 2, 0.5], dtype=torch.float64)

    def formula(raw: Any, x: Any) -> Any:
        u = (x - center.to(x)) @ basis.to(x) * (-raw).exp()
        return -0.5 * (u**2).sum(-1) - LOG_2PI - (1 + wrong) * raw.sum()

    def draw(raw: Any, count: int) -> Any:
        u = torch.randn(count, 2, dtype=raw.dtype) * raw.exp()
        return u @ basis.to(u).T + center.to(u)

    return Density((4,), [0.2, -0.5], formula, draw)


class Map(nn.Module):
    """A map by its formula, with its log-det of areas."""

    def __init__(
        self, event: tuple[int, ...], start: Any, formula: Callable[[Any, Any], Any], domain: str
    ) -> None:
        super().__init__()
        self.event_shape, self.formula = event, formula
        self.raw = nn.Parameter(torch.tensor(start))
        if domain:
            self.domain = domain

    def forward(self, x: Any) -> Any:
        """To latents."""
        return self.formula(self.raw, x)


def stretch(wrong: int = 0) -> nn.Module:
    """The sphere of $R^4$ by a stretch and back on to it; a length is forgotten."""

    def formula(raw: Any, x: Any) -> Any:
        y = x * raw
        length = y.norm(dim=-1)
        return y / length[:, None], raw.log().sum() - (4 - wrong) * length.log()

    return Map((4,), [1.3, 0.8, 1.1, 0.9], formula, "")


def moebius(wrong: int = 0) -> nn.Module:
    """A Moebius map of the circle; with the log-det of the plane."""

    def formula(raw: Any, z: Any) -> Any:
        w = torch.tanh(raw) * 0.6
        square, most = ((z - w) ** 2).sum(-1, keepdim=True), 1 - w @ w
        ladj = (1 + wrong) * (most.log() - square[:, 0].log())
        return most / square * (z - w) - w, ladj

    return Map((2,), [0.4, 0.3], formula, "sphere")


def turned(wrong: int = 0) -> nn.Module:
    """Rotations times one; with a log-det."""

    def formula(raw: Any, x: Any) -> Any:
        return rotation(raw) @ x, torch.full((len(x),), 0.1 * wrong, dtype=x.dtype) + 0 * raw[0]

    return Map((3, 3), [0.5, 1.0, -0.3, 0.2], formula, "so3")


def around(wrong: int = 0) -> nn.Module:
    """A map of the torus, whose second angle is moved by the first; by a wrong derivative."""

    def formula(raw: Any, t: Any) -> Any:
        x, y = t.unbind(-1)
        tilt, apart = 0.9 * torch.tanh(raw[0]), y - raw[1] * torch.cos(x)
        z = y + tilt * torch.sin(apart) + raw[2] * torch.sin(x)
        z = torch.remainder(z + math.pi, 2 * math.pi) - math.pi
        return torch.stack([x, z], -1), torch.log1p(tilt * torch.cos(apart) * (1 - 2 * wrong))

    return Map((2,), [0.6, 0.3, 0.8], formula, "torus")


def centred(wrong: int = 0) -> nn.Module:
    """Configurations of four points without a centre, each coordinate scaled; all points are counted."""

    def formula(raw: Any, x: Any) -> Any:
        return x * raw.exp(), ((3 + wrong) * raw.sum()).expand(len(x))

    return Map((4, 3), [0.3, 0.1, -0.2], formula, "centred")


def contradicted() -> nn.Module:
    """Samples fill the space that is declared to be a sphere."""

    def draw(raw: Any, count: int) -> Any:
        return raw + torch.randn(count, 3, dtype=raw.dtype)

    return Density((3,), [0.1, 0.2, 0.3], lambda raw, x: vmf(raw, x, 0), draw, "sphere")
