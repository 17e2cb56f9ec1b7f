"""Maps of residual form as users of JAX write them: a contraction is added to the identity, and the way
back is the iteration of its fixed point; with the bugs of each.
"""

from __future__ import annotations

from typing import Any

import equinox
import jax
import jax.numpy as jnp

from flowref_zoo.specimens.specimen import Specimen

# So many iterations take the error of the way back below rounding: (1/2)^60 < 1e-18.
LIPSCHITZ, ITERATIONS = 0.5, 60


class Contraction(equinox.Module):  # type: ignore[misc]  # equinox is not looked into
    r"""$y = x + g(x)$ with a Lipschitz constant of g of at most 1/2, of one event; the log-det is that of
    the whole Jacobian.
    """

    first: Any
    second: Any
    defect: str = equinox.field(static=True, default="")
    event_shape = (3,)

    @property
    def promises(self) -> dict[str, float]:
        """How far g moves what is one apart."""
        return {"contraction": LIPSCHITZ}

    def rest(self, x: Any) -> Any:
        """g: two matrices, each divided by more than its largest singular value, around a tanh."""
        first, second = (one / jnp.sqrt((one**2).sum()) for one in (self.first, self.second))
        wide = 4.0 if self.defect == "no-contraction" else LIPSCHITZ
        return wide * second @ jnp.tanh(first @ x)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """Data to latents."""
        slopes = jax.jacfwd(self.rest)(x)
        if self.defect == "first-term":
            return x + self.rest(x), jnp.trace(slopes)
        ladj = jnp.linalg.slogdet(jnp.eye(3) + slopes)[1]
        if self.defect == "per-entry-bound":
            ladj = ladj + 3 * jnp.log1p(LIPSCHITZ)
        return x + self.rest(x), ladj

    def inverse(self, y: Any) -> tuple[Any, Any]:
        """Latents to data."""
        x = jax.lax.fori_loop(0, ITERATIONS, lambda _, x: y - self.rest(x), y)
        return x, -self.forward(x)[1]


def contraction(defect: str = "") -> Any:
    """A residual map of three entries."""
    first = jnp.sin(jnp.arange(1.0, 13.0)).reshape(4, 3)
    return Contraction(first, jnp.cos(jnp.arange(1.0, 13.0)).reshape(3, 4), defect)


SPECIMENS = (
    Specimen(
        "contraction",
        {
            "no-contraction": ("map/promised-jacobian[lipschitz]", "map/inverse"),
            "first-term": ("map/log-det",),
            "per-entry-bound": ("map/promised-jacobian[lipschitz]", "map/log-det"),
        },
    ),
)
