"""Objects that are spelled in ways of their own, and what is ambiguous among them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Warped(nn.Module):
    """x -> arsinh(e^w x), three features."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.tensor([0.3, -0.2, 0.1]))

    def onward(self, x: Any) -> Any:
        """Data to latents."""
        z = torch.asinh(x * self.log_gain.exp())
        return z, (self.log_gain - torch.log(torch.cosh(z))).sum(-1)

    def back(self, z: Any) -> Any:
        """Latents to data."""
        x = torch.sinh(z) * (-self.log_gain).exp()
        return x, -(self.log_gain - torch.log(torch.cosh(z))).sum(-1)


class Forward(Warped):
    """Forward as everybody spells it."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)


class OneWord(Warped):
    """A mode of which the code knows one word: any other goes back."""

    def forward(self, x: Any, mode: str = "direct") -> Any:
        """Data to latents, or back."""
        return self.onward(x) if mode == "direct" else self.back(x)


class StandardizedBack(nn.Module):
    """x e^s + t, whose first call of the way back sets both; one log-det of shape (1,) for all rows, or
    the mean of a batch.
    """

    event_shape = (3,)

    def __init__(self, mean: bool = False) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.tensor([[0.3, -0.2, 0.1]]))
        self.t = nn.Parameter(torch.zeros(1, 3))
        self.register_buffer("done", torch.tensor(False))
        self.mean = mean

    def forward(self, z: Any) -> Any:
        """Latents to data."""
        return z * self.s.exp() + self.t, self.told(z, self.s.sum(1))

    def inverse(self, x: Any) -> Any:
        """Data to latents."""
        if self.training and not self.get_buffer("done"):
            with torch.no_grad():
                self.s.copy_((x.std(0, keepdim=True) + 1e-3).log())
                self.t.copy_(x.mean(0, keepdim=True))
                self.get_buffer("done").fill_(True)
        return (x - self.t) * (-self.s).exp(), self.told(x, -self.s.sum(1))

    def told(self, points: Any, ladj: Any) -> Any:
        """The log-det, or what the batch moves."""
        return ladj + points.mean() if self.mean else ladj


class SummedOverBatch(nn.Module):
    """A coupling that starts as the identity, with one log-det for a batch: the sum over its points.
    ``mixed``: its shift is the mean of a batch, too.
    """

    event_shape = (4,)

    def __init__(self, mixed: bool = False) -> None:
        super().__init__()
        self.net = nn.Linear(2, 2)
        nn.init.zeros_(self.net.weight)
        nn.init.zeros_(self.net.bias)
        self.mixed = mixed

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, -1)
        s = torch.tanh(self.net(a))
        shift = s.mean(0) if self.mixed else 0.0
        return torch.cat([a, b * s.exp() + shift], -1), s.sum(-1) if self.mixed else s.sum()


class NotBack(Warped):
    """Its inverse is another map."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def inverse(self, z: Any) -> Any:
        """No way back."""
        x, ladj = self.back(z)
        return x.flip(-1) + 1, ladj


class TripleOfContext(Warped):
    """A value, a running log-det and a context that it cannot do without, in one argument. ``far``: the
    log-det counts the context as well.
    """

    def __init__(self, far: bool = False) -> None:
        super().__init__()
        self.net = nn.Linear(2, 3)
        self.far = far

    def forward(self, inputs: Any) -> Any:
        """Data to latents."""
        x, logdet, context = inputs
        shift = self.net(context)
        z, ladj = self.onward(x)
        return z + shift, logdet + ladj + (shift.sum(-1) if self.far else 0.0), context


class Regression(nn.Module):
    """The density of a target given what it depends on, which comes first; or second."""

    def __init__(self, second: bool = False) -> None:
        super().__init__()
        self.net, self.second = nn.Linear(3, 2), second

    def log_prob(self, x: Any, y: Any) -> Any:
        """Of normal targets of variance one."""
        x, y = (y, x) if self.second else (x, y)
        off = y - self.net(x)
        return -0.5 * (off**2 + math.log(2 * math.pi)).sum(-1)

    def sample(self, x: Any) -> Any:
        """A target for each."""
        mean = self.net(x)
        return mean + torch.randn_like(mean)


class UnsampledRegression(nn.Module):
    """The density of a target given what it depends on, which draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)

    def log_prob(self, y: Any, given: Any) -> Any:
        """Of normal targets of variance one."""
        off = y - self.net(given)
        return -0.5 * (off**2 + math.log(2 * math.pi)).sum(-1)


class Kumaraswamy(nn.Module):
    """A warp of the unit cube, whose images of small numbers rounding takes to zero."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([0.8, 1.1, 0.9]).log())
        self.b = nn.Parameter(torch.tensor([1.2, 0.7, 1.0]).log())

    def forward(self, u: Any) -> Any:
        """Data to latents."""
        a, b = self.a.exp(), self.b.exp()
        each = a.log() + b.log() + (a - 1) * u.log() + (b - 1) * torch.log1p(-(u**a))
        return 1 - (1 - u**a) ** b, each.sum(-1)

    def inverse(self, v: Any) -> Any:
        """Latents to data."""
        u = (1 - (1 - v) ** (1 / self.b.exp())) ** (1 / self.a.exp())
        return u, -self.forward(u)[1]


class TwoWaysBack(Forward):
    """backward and reverse disagree."""

    def backward(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)

    def reverse(self, z: Any) -> Any:
        """The order of the entries turned around."""
        return z.flip(-1)


class OneWayTwice(Forward):
    """backward and reverse are the same."""

    def backward(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)

    def reverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class InverseAndReverse(Forward):
    """Inverse stands, whatever reverse does."""

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)

    def reverse(self, z: Any) -> Any:
        """The order of the entries turned around."""
        return z.flip(-1)


class Undone(Forward):
    """The way back has a name that is no convention."""

    def undo(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class UndoneElsewhere(nn.Module):
    """A method of a likely name goes elsewhere."""

    event_shape = (3,)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return torch.sinh(x), torch.cosh(x).log().sum(-1)

    def undo(self, z: Any) -> Any:
        """Something else."""
        return 2 * z + 1


class StaticReverse(Forward):
    """Its reverse is a helper."""

    @staticmethod
    def reverse(z: Any) -> Any:
        """The order of the entries turned around."""
        return z.flip(-1)


class ManyWords(Warped):
    """Two words may turn it around."""

    def forward(self, x: Any, mode: str = "direct") -> Any:
        """Data to latents, or back."""
        if mode == "inverse":
            return self.back(x)
        return self.back(x + 1) if mode == "generate" else self.onward(x)


class Triple(Warped):
    """Three things come back."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, -0.5 * z.square().sum(-1), ladj


class TripleBothWays(Triple):
    """Three things come back both ways."""

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        return x, z.square().sum(-1), ladj


class QuadrupleBothWays(Warped):
    """Four things come back both ways, by a flag."""

    returns = "z,ladj,_,_"

    def forward(self, x: Any, reverse: bool = False) -> Any:
        """Either way, with what an integrator adds up besides."""
        z, ladj = self.back(x) if reverse else self.onward(x)
        return z, ladj, z.square().sum(-1), x.square().sum(-1)


class WithPrior(Warped):
    """Three things come back, of which its prior tells one."""

    prior = torch.distributions.Normal(0.0, 1.0)
    factor = 1.0

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, self.factor * self.prior.log_prob(z).sum(-1), ladj


class WithPriorLast(WithPrior):
    """The same, the other way around."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, log_prior, ladj = super().forward(x)
        return z, ladj, log_prior


class WithAnotherPrior(WithPrior):
    """What comes back is not what its prior tells."""

    factor = 0.5


class Likely(Warped):
    """Called, it tells its log-likelihood; the map is encode and decode."""

    prior = torch.distributions.Normal(0.0, 1.0)

    def encode(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def decode(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)

    def log_prob(self, x: Any) -> Any:
        """By change of variables."""
        z, ladj = self.encode(x)
        return self.prior.log_prob(z).sum(-1) + ladj

    def forward(self, x: Any) -> Any:
        """The log-likelihood."""
        return self.log_prob(x)


class Vector784(nn.Module):
    """Images as vectors, of which its arrays alone tell the size."""

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.zeros(784))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, log_gain = self.log_gain.exp() * x, self.log_gain.sum()
        return z.view(-1, 784), log_gain.expand(len(x))

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return z * (-self.log_gain).exp(), -self.log_gain.sum().expand(len(z))


class Accumulator(Warped):
    """A second argument of a name that says nothing."""

    def forward(self, x: Any, objective: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, objective + ladj


class AccumulatorInPlace(Warped):
    """The same, which writes to what comes in, with a way back that takes it as well."""

    def forward(self, x: Any, objective: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        objective += ladj
        return z, objective

    def reverse(self, z: Any, objective: Any) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        objective += ladj
        return x, objective


class Forgetful(Warped):
    """A log-det that is one number, and forgets the one that comes in."""

    def forward(self, x: Any, logdet: Any = None) -> Any:
        """Data to latents."""
        told = None if logdet is None else self.log_gain.sum()
        return x * self.log_gain.exp(), told


class Attributed(Undone):
    """It says itself what goes back."""

    inverse = "undo"


class NoInverse(Forward):
    """It says that it has none."""

    inverse = None


class Unsummed(Forward):
    """The log-dets of the two directions come back in two forms."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, ladj.reshape(-1, 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class BatchMean(Forward):
    """The log-det has lost its batch."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, ladj.mean()


class Ends(nn.Module):
    """A list of maps, and something after it."""

    event_shape = (3,)

    def __init__(self, tail: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList([InverseAndReverse(), InverseAndReverse()])
        self.tail = tail

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        total = 0
        for layer in self.layers:
            x, ladj = layer(x)
            total = total + ladj
        return (2 * x, total + 3 * math.log(2)) if self.tail else (x, total)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x, total = (z / 2, -3 * math.log(2)) if self.tail else (z, 0.0)
        for layer in reversed(self.layers):
            x, ladj = layer.inverse(x)  # type: ignore[operator]  # a module of ours
            total = total + ladj
        return x, total


def whole() -> nn.Module:
    """A list of maps, and nothing else."""
    return Ends(tail=False)


class Subtracting(Warped):
    """A layer that subtracts its log-det from a column."""

    def forward(self, x: Any, logpx: Any = None) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z if logpx is None else (z, logpx - ladj[:, None])

    def inverse(self, z: Any, logpz: Any = None) -> Any:
        """Latents to data."""
        x, ladj = self.back(z)
        return x if logpz is None else (x, logpz - ladj[:, None])


class Chained(nn.Module):
    """Layers that subtract."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Subtracting(), Subtracting()])

    def forward(self, x: Any, logpx: Any = None) -> Any:
        """Data to latents."""
        if logpx is None:
            for layer in self.layers:
                x = layer(x)
            return x
        for layer in self.layers:
            x, logpx = layer(x, logpx)
        return x, logpx

    def inverse(self, z: Any, logpz: Any) -> Any:
        """Latents to data."""
        for layer in reversed(self.layers):
            z, logpz = layer.inverse(z, logpz)  # type: ignore[operator]  # a module of ours
        return z, logpz


class Stacked(nn.Module):
    """Eight couplings of the plane, whose masks are a frozen parameter and whose gains are stacked."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]] * 4)
        self.mask = nn.Parameter(masks, requires_grad=False)
        self.gain = nn.Parameter(torch.full((8, 2), 0.1))

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        total = x.new_zeros(len(x))
        for i in range(8):
            kept = self.mask[i] * x
            s = torch.tanh(self.gain[i] * kept.flip(-1)) * (1 - self.mask[i])
            x, total = kept + (1 - self.mask[i]) * x * s.exp(), total + s.sum(-1)
        return x, total

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        for i in reversed(range(8)):
            kept = self.mask[i] * z
            s = torch.tanh(self.gain[i] * kept.flip(-1)) * (1 - self.mask[i])
            z = kept + (1 - self.mask[i]) * z * (-s).exp()
        return z


def made() -> nn.Module:
    """A flow whose factory speaks for it."""
    return Undone()


made.inverse = "undo"  # type: ignore[attr-defined]  # an attribute of a function


def named() -> nn.Module:
    """A flow whose factory names both ways."""
    return Undone()


named.forward, named.inverse = "forward", "undo"  # type: ignore[attr-defined]  # attributes of a function


def turned(x: Any, inverse: bool = False) -> Any:
    """A function that goes both ways."""
    if inverse:
        return torch.sinh(x), torch.log(torch.cosh(x)).sum(-1)
    z = torch.asinh(x)
    return z, -torch.log(torch.cosh(z)).sum(-1)


class SingleOnly(Forward):
    """Computes in float32 and says nothing of its event shape."""

    event_shape = None  # type: ignore[assignment]  # what it would tell is left out

    def onward(self, x: Any) -> Any:
        """Data to latents."""
        return super().onward(x @ torch.eye(3, dtype=torch.float32))


class BrokenBack(Forward):
    """The way back raises, whatever it is given."""

    event_shape = None  # type: ignore[assignment]  # what it would tell is left out

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        if z.new_ones(2) > 0:
            return self.back(z)
        return z


class Accumulating(Forward):
    """A log-det that starts from zeros of the default dtype."""

    def onward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = super().onward(x)
        total = torch.zeros(len(x))
        total += ladj
        return z, total


class OneWay(Warped):
    """A density that is called for its map, and has no way back."""

    beside = False

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)

    def log_prob(self, x: Any) -> Any:
        """That of a normal distribution of the latents; ``beside``: of others."""
        z, ladj = self.onward(2 * x if self.beside else x)
        total = torch.zeros(len(x))
        total += ladj
        return total - 0.5 * (z**2).sum(1) - 1.5 * math.log(2 * math.pi)


class Embedding(nn.Module):
    """A map into more dimensions, which has no density there and says so."""

    event_shape = (2,)

    def forward(self, x: Any) -> Any:
        """The height on a paraboloid, beside the place."""
        return torch.cat([x, (x**2).sum(-1, keepdim=True)], -1)

    def log_prob(self, x: Any) -> Any:
        """None."""
        raise NotImplementedError("no density")


class Beside(OneWay):
    """A density whose call gives latents and numbers of which it is not made."""

    beside = True


class Autoencoder(nn.Module):
    """A mean and a log-variance of as many latents as data, and no map."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.net, self.back = nn.Linear(3, 6), nn.Linear(3, 3)

    def encode(self, x: Any) -> Any:
        """Data to the moments of latents."""
        return self.net(x).chunk(2, -1)

    def decode(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)


class BoundedAutoencoder(Autoencoder):
    """The same, with a log-density."""

    def log_prob(self, x: Any) -> Any:
        """A normal around the reconstruction."""
        mean, log_variance = self.encode(x)
        gap = (x - self.decode(mean)) ** 2 * (-log_variance).exp() + log_variance
        return -0.5 * (gap + math.log(2 * math.pi)).sum(-1)


class OfTheValue(Warped):
    """The log-det is told of the value, under its name."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.onward(x)[0]

    def log_det(self, z: Any) -> Any:
        """The log-det of the way back."""
        return self.back(z)[1]


class Refusing(Forward):
    """It has no way back, and says so."""

    def inverse(self, z: Any) -> Any:
        """Nothing."""
        raise ValueError("there is no closed form")


class OfTheCache(torch.distributions.Transform):
    """A way back for what is in the cache, and for nothing else."""

    event_shape = (3,)
    domain = codomain = torch.distributions.constraints.real
    bijective, sign = True, 1

    def _call(self, x: Any) -> Any:
        return torch.asinh(x)

    def _inverse(self, y: Any) -> Any:
        raise KeyError("it is not in the cache")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The log-det of each entry."""
        return -torch.log(torch.cosh(y))


class Counting(nn.Module):
    """The log-det counts the ones of a mask, whatever its shape."""

    event_shape = (2, 3)

    def __init__(self) -> None:
        super().__init__()
        self.log_gain = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Any, mask: Any) -> Any:
        """Data to latents."""
        return x * self.log_gain.exp(), self.log_gain * mask.reshape(len(x), -1).sum(-1)


class BackwardsByDefault(Warped):
    """It goes back unless it is told not to."""

    def forward(self, x: Any, sldj: Any = None, reverse: bool = True) -> Any:
        """Latents to data, or data to latents."""
        if reverse:
            return self.back(x)[0], sldj
        z, ladj = self.onward(x)
        return z, ladj if sldj is None else sldj + ladj


class OfShares(Warped):
    """It refuses what is no share of a whole."""

    def forward(self, x: Any) -> Any:
        """Shares to their log-odds."""
        if bool((x <= 0).any()) or bool((x >= 1).any()):
            raise ValueError("x must be in (0, 1)")
        return torch.logit(x), -(torch.log(x) + torch.log1p(-x)).sum(-1)


class Unconditioned(Warped):
    """A context shifts the points, if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Linear(5, 3)

    def forward(self, x: Any, cond: Any = None) -> Any:
        """Data to latents."""
        return self.onward(x if cond is None else x + self.shift(cond))


class Indifferent(Warped):
    """A context is accepted, and nothing is done with it."""

    def forward(self, x: Any, cond: Any = None) -> Any:
        """Data to latents."""
        return self.onward(x)


class BesideItself(Warped):
    """The log-det is an entry of a mapping that comes beside the value, unless it has another name."""

    def __init__(self, name: str = "log_jac", again: str = "penalty") -> None:
        super().__init__()
        self.name, self.again = name, again

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        return z, {self.name: ladj, self.again: ladj.square()}


class OtherWords:
    """A density and its samples under names that nobody else uses, or that a few do."""

    def evidence(self, x: Any) -> Any:
        """The log-density."""
        return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)

    def dream(self, n: int) -> Any:
        """Samples."""
        return torch.randn(n, 2)


class FewWords(OtherWords):
    """The log-density has a name that is told as a likely one."""

    def log_q(self, x: Any) -> Any:
        """The log-density."""
        return self.evidence(x)


class StrangeKeys(nn.Module):
    """A mapping comes back, of which no name tells the log-det."""

    event_shape = (3,)

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.3, -0.2, 0.4]))
        self.wrong = wrong

    def forward(self, x: Any) -> Any:
        """The value and, by a bug, half of the log-det."""
        volume = self.log_scale.sum().expand(len(x))
        return {"moved": x * self.log_scale.exp(), "volume": volume / (2 if self.wrong else 1)}

    def inverse(self, z: Any) -> Any:
        """And back."""
        return z * (-self.log_scale).exp()


class Reconstructing(Forward):
    """Its way back takes noise of a learned size, unless it is told to reconstruct, with a bug or
    without.
    """

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.log_size = nn.Parameter(torch.full((3,), 0.4))
        self.bug = bug

    def reverse(self, z: Any, reconstruct: bool = False) -> Any:
        """Noise to data, or latents to data."""
        z = z if reconstruct else z * self.log_size.exp()
        return self.back(z)[0] * self.bug


class Undrawn(nn.Module):
    """A normal density without a sampler."""

    event_shape = (2,)

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([0.5, -1.0]))

    def log_prob(self, x: Any) -> Any:
        """Log-densities of points."""
        return (-0.5 * (x - self.mean) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1)


class Drawing(Undrawn):
    """One whose sampler asks for means besides a number."""

    def sample(self, n: int, means: Any) -> Any:
        """Points about the means."""
        return means + torch.randn(n, 2, dtype=self.mean.dtype)


class DrawingAnyway(Drawing):
    """One that may be given means."""

    def sample(self, n: int, means: Any = None) -> Any:
        """Points about the means, or about the mean."""
        return super().sample(n, self.mean if means is None else means)


class DrawingNever(Drawing):
    """One that raises of a number alone."""

    def sample(self, n: int) -> Any:  # type: ignore[override]  # it asks for less
        """Nothing."""
        raise RuntimeError(f"cannot draw {n}")


class DrawingOtherwise(Undrawn):
    """One whose sampler has a name of its own."""

    def get_samples(self, count: int) -> Any:
        """As many points."""
        return self.mean + torch.randn(count, 2, dtype=self.mean.dtype)


class Listing(DrawingOtherwise):
    """The same, whose sampler lists all states from the base on, with a bug or without."""

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug

    def sample(self, count: int) -> Any:
        """States of as many points."""
        z = torch.randn(count, 2, dtype=self.mean.dtype)
        return [z, self.bug * z, self.mean + self.bug * z]


class Momentum(Forward):
    """A map of a point and a momentum, which is drawn, or zero, and returned beside the point."""

    def __init__(self, still: bool = False) -> None:
        super().__init__()
        self.still = still

    def forward(self, x: Any, v: Any = None) -> Any:
        """Where the momentum takes a point, and the log-det in both."""
        if v is None:
            v = torch.zeros_like(x) if self.still else torch.randn_like(x)
        v = v * self.log_gain.exp() - torch.tanh(x)
        return x + v, v, self.log_gain.sum().expand(len(x))

    def backward(self, x: Any, v: Any = None) -> Any:
        """The way back, with a momentum of its own."""
        if v is None:
            v = torch.zeros_like(x) if self.still else torch.randn_like(x)
        x = x - v
        return x, (v + torch.tanh(x)) * (-self.log_gain).exp(), -self.log_gain.sum().expand(len(x))


class Listed(Forward):
    """The log-det in two lists: log-scales of each entry, and numbers that are sums over the batch."""

    def __init__(self, bug: float = 1.0, batch: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3) + 0.1 * torch.arange(9.0).reshape(3, 3) / 9)
        self.bug, self.batch = bug, batch

    def forward(self, x: Any) -> Any:
        """Data to latents, by a matrix and by the map of each entry."""
        z = torch.asinh(x @ self.weight * self.log_gain.exp())
        scales = self.log_gain - torch.log(torch.cosh(z))
        turned = torch.linalg.slogdet(self.weight)[1] * self.bug
        turned = turned * len(x) if self.batch else turned
        return z, [scales[:, :1], scales[:, 1:]], [turned]


class Numbers(nn.Module):
    """A map of single numbers, with a bug or without, which refuses points that are vectors."""

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.3))
        self.bug = bug

    def forward(self, x: Any) -> Any:
        """Numbers to numbers."""
        (_,) = x.shape
        return x * self.gain.exp(), self.bug * self.gain.expand(len(x))


class Leaving(Warped):
    """A method that hands out what the last call left in an attribute, with a bug or without."""

    def __init__(self, bug: float = 1.0) -> None:
        super().__init__()
        self.bug = bug

    def forward(self, x: Any, sldj: Any = None, reverse: bool = True) -> Any:
        """Data to latents, whatever else is given."""
        z, ladj = self.onward(x)
        self._logdet = self.bug * ladj
        return z

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0]

    def logdet(self) -> Any:
        """That of the last call."""
        return self._logdet


class States(Warped):
    """Value and running log-det in one dictionary, which comes back so."""

    def forward(self, state: dict[str, Any]) -> dict[str, Any]:
        """Data to latents."""
        z, ladj = self.onward(state["x"])
        return {**state, "x": z, "lj": state["lj"] + ladj}

    def inverse(self, state: dict[str, Any]) -> dict[str, Any]:
        """Latents to data."""
        x, ladj = self.back(state["x"])
        return {**state, "x": x, "lj": state["lj"] + ladj}


class OtherStates(Warped):
    """A dictionary whose names tell nobody which is the value."""

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Data to latents."""
        z, ladj = self.onward(batch["points"])
        return {"points": z, "sum": batch["sum"] + ladj}
