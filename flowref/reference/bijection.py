"""Bijections: an invertible map with its log-determinant, its inverse, and compositions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor, nn


class Bijection(nn.Module, ABC):
    r"""An invertible map $f$ from data $x$ to latents $z$; each call returns its value and its
    $\log|\det J|$.

    ``forward(x) -> (z, ladj)`` and ``inverse(z) -> (x, ladj)``; each ladj is that of its own call, so
    that of the inverse at $z = f(x)$ is minus that of the forward map at $x$.
    Shapes: the first axis is the batch and all others are the event: x `(N, ...)`, ladj `(N,)`.
    Units: nats.
    Inputs are not modified, and results have the dtype of the input.
    """

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""

    @abstractmethod
    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""

    def generate(self, z: Tensor) -> Tensor:
        """Latents to data without a log-det, for samples; overridden where the log-det costs
        extra.
        """
        return self.inverse(z)[0]


class Inverse(Bijection):
    """The inverse map $f^{-1}$ of a bijection.

    >>> z, ladj = Inverse(Inverse(Chain()))(torch.ones(2, 3))
    >>> z.shape, ladj.shape
    (torch.Size([2, 3]), torch.Size([2]))
    """

    def __init__(self, bijection: Bijection) -> None:
        super().__init__()
        self.bijection = bijection

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`inverse` of the given map."""
        return self.bijection.inverse(x)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """`forward` of the given map."""
        x, ladj = self.bijection(z)
        return x, ladj


class Chain(Bijection):
    r"""Composition of maps from left to right, $f = f_n \circ \dots \circ f_1$; the empty chain is
    the identity.

    ladj: $\sum_k \mathrm{ladj}_k$, each at the input of its map. Inverse: $f_1^{-1} \circ \dots
    \circ f_n^{-1}$.
    """

    def __init__(self, *bijections: Bijection) -> None:
        super().__init__()
        drawing = [one for one in bijections if hasattr(one, "stochastic_inverse")]
        if drawing:
            raise ValueError(
                f"got {type(drawing[0]).__name__}, which may draw; expected bijections: KernelChain takes "
                "both"
            )
        self.bijections = nn.ModuleList(bijections)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.bijections)

    def __len__(self) -> int:
        return len(self.bijections)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        total = no_ladj(x)
        for bijection in self.bijections:
            x, ladj = bijection(x)
            total = total + ladj
        return x, total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        total = no_ladj(z)
        for bijection in reversed(self.bijections):
            z, ladj = bijection.inverse(z)  # type: ignore[operator]  # a bijection, as given
            total = total + ladj
        return z, total

    def generate(self, z: Tensor) -> Tensor:
        """Latents to data, without log-dets."""
        for bijection in reversed(self.bijections):
            z = bijection.generate(z)  # type: ignore[operator]  # a bijection, as given
        return z


def no_ladj(x: Tensor) -> Tensor:
    """Zeros `(N,)`: the log-det of a volume-preserving map."""
    return x.new_zeros(len(x))


def over_event(terms: Tensor) -> Tensor:
    """Sums `(N, *event)` over the event: `(N,)`."""
    return terms.flatten(1).sum(1)


def repeated_log_det(ladj: Tensor, x: Tensor) -> Tensor:
    """Repeats one log-determinant for each row of x, `(N,)`, in the dtype of x."""
    return ladj.to(x.dtype).repeat(len(x))


def check_event(x: Tensor, shape: tuple[int, ...], what: str) -> None:
    """Raises `ValueError` unless x is a batch of events of this shape."""
    if tuple(x.shape[1:]) != shape:
        raise ValueError(
            f"got a batch of shape {tuple(x.shape)} for {what}; expected (N, "
            f"{', '.join(map(str, shape))})"
        )
