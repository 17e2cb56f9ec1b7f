"""Log-densities of a trained flow in the parts that they are sums of, so that each part can be left
out or computed in another way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from flowref.reference import CNF, ProbabilityFlow
from flowref.reference.continuous import Field, with_divergence

# What is computed at once; autograd keeps what the divergence needs.
CHUNK = 20_000
FINE = 1e-6


@dataclass(frozen=True)
class Parts:
    """Log-densities of rows in nats, ``(n,)`` each: that of the latents, and the log-dets of the
    standardization and of the map behind it.
    """

    base: Tensor
    standardize: Tensor
    ladj: Tensor

    @property
    def total(self) -> Tensor:
        """The log-density."""
        return self.base + self.standardize + self.ladj


Map = Callable[[Tensor], tuple[Tensor, Tensor]]
Reading = Callable[[Tensor], Tensor]


class Counted(nn.Module):
    """A velocity field that counts its calls."""

    def __init__(self, field: Field) -> None:
        super().__init__()
        self.field, self.calls = field, 0

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The velocity of each row."""
        self.calls += 1
        return self.field(t, x)


class Model:
    """A trained flow of points in float64: a standardization, and a map to the latents."""

    def __init__(self, flow: Any, tolerance: float = FINE) -> None:
        self.flow = copy.deepcopy(flow).double().eval()
        self.first, self.last = self.flow.bijection
        self.continuous = isinstance(self.last, CNF)
        if self.continuous:
            self.last.tolerance = tolerance
            self.last.field = Counted(self.last.field)

    @property
    def calls(self) -> int:
        """How often the field was called."""
        return int(self.last.field.calls)

    def parts(self, x: Tensor, over: Map | None = None) -> Parts:
        """The parts of the log-density at ``x`` ``(n, 2)``, with another map in place of the last one
        if there is one.
        """
        found = []
        for rows in x.split(CHUNK):
            scaled, standardize = self.first(rows)
            z, ladj = (over or self.last)(scaled)
            found.append(Parts(self.flow.base.log_prob(z), standardize, ladj))
        return Parts(*(torch.cat([getattr(p, n) for p in found]) for n in Parts.__annotations__))

    def euler(self, steps: int, of_steps: bool) -> Map:
        r"""$x \leftarrow x + h f(t, x)$ with the log-det of these steps,
        $\sum \log |\det(I + h\,\partial f / \partial x)|$, or with $\sum h\,\mathrm{tr}\,\partial f / \partial x$.
        """
        h = self.last.time / steps

        def mapped(x: Tensor) -> tuple[Tensor, Tensor]:
            ladj = torch.zeros(len(x), dtype=x.dtype)
            for index in range(steps):
                t = torch.tensor(index * h, dtype=x.dtype)
                if of_steps:
                    velocity, slopes = self._slopes(t, x)
                    unit = torch.eye(x.shape[1], dtype=x.dtype)
                    ladj = ladj + torch.linalg.slogdet(unit + h * slopes)[1]
                else:
                    velocity, divergence = with_divergence(self.last.field, t, x)
                    ladj = ladj + h * divergence
                x = x + h * velocity
            return x, ladj

        return mapped

    def _slopes(self, t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            point = x.detach().requires_grad_()
            velocity = self.last.field(t, point)
            rows = [
                torch.autograd.grad(velocity[:, i].sum(), point, retain_graph=True)[0]
                for i in range(x.shape[1])
            ]
        return velocity.detach(), torch.stack(rows, 1)

    def estimated(self, generator: torch.Generator) -> Map:
        """Hutchinson's estimate of the divergence with one vector of signs for each row."""
        rough: Any = copy.deepcopy(self.last)
        rough.trace = "hutchinson"

        def mapped(x: Tensor) -> tuple[Tensor, Tensor]:
            signs = torch.randint(2, x.shape, generator=generator).to(x) * 2 - 1
            z, ladj = rough(x, (signs,))
            return z, ladj

        return mapped

    def doubled_score(self) -> Map:
        r"""The equation with the whole score, $f x - g^2 s$, which is the drift of the reverse
        stochastic equation, in place of $f x - \tfrac12 g^2 s$.
        """
        last: ProbabilityFlow = self.last

        def field(t: Tensor, x: Tensor) -> Tensor:
            at = last.schedule.start + t
            half: Tensor = last.predicted(at, x, "velocity")
            return 2 * half - last.schedule.at(at).drift * x

        return CNF(field, last.time, tolerance=last.tolerance)


def readings(model: Model, generator: torch.Generator, steps: int) -> dict[str, Reading]:
    """What is published as a log-density of a trained flow: as it should be, and with the usual
    mistakes.
    """

    def of(combined: Callable[[Parts], Tensor], over: Map | None = None) -> Reading:
        return lambda x: combined(model.parts(x, over))

    found: dict[str, Reading] = {
        AS_IT_IS: of(lambda p: p.total),
        "log-det of the map left out": of(lambda p: p.base + p.standardize),
        "log-det with the other sign": of(lambda p: p.base + p.standardize - p.ladj),
        "standardization left out": of(lambda p: p.base + p.ladj),
    }
    if model.continuous:
        euler = f"{steps} Euler steps"
        found |= {
            f"{euler}, divergences summed": of(lambda p: p.total, model.euler(steps, False)),
            f"{euler}, log-dets of the steps": of(lambda p: p.total, model.euler(steps, True)),
            "Hutchinson, one vector per point": of(lambda p: p.total, model.estimated(generator)),
        }
    if isinstance(model.last, ProbabilityFlow) and model.last.prediction == "epsilon":
        found["the whole score, not half"] = of(lambda p: p.total, model.doubled_score())
    return found


AS_IT_IS = "as it is"
