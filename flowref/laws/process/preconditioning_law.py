"""Preconditioned denoisers: their networks have inputs and targets of unit variance."""

from __future__ import annotations

import numpy as np

from flowref.laws.process.process_law import process_law, shares
from flowref.model import Array, Batch, Residual
from flowref.model.abilities import Preconditioned

# Relative error: some shift noise levels by the smallest of them, so that nothing is denoised there.
SHIFTED = 0.02
# Noise levels from which such a shift is small, in units of the deviation of the data.
LEAST = 1.0


@process_law(
    "process/preconditioning",
    source="Karras et al. 2022, Elucidating the design space of diffusion-based generative models (arXiv:2206.00364), "
    "appendix B.6",
)
def scalings_give_unit_variance(flow: Preconditioned, batch: Batch) -> Residual:
    r"""A denoiser $c_{skip} x + c_{out} F(c_{in} x)$ of data with deviation $\sigma_d$ has $c_{in}^2
    (\sigma^2 + \sigma_d^2) = 1$, $c_{skip} = \sigma_d^2 c_{in}^2$ and $|c_{out}| = \sigma \sigma_d c_{in}$,
    so that inputs and targets of its network have unit variance, up to 2 % for noise above $\sigma_d$.
    """
    level, skip, out, into = np.asarray(flow.scalings(shares(batch)), np.float64).T
    total = 1 + level**2
    pairs: dict[str, tuple[Array, Array]] = {
        "c_in": (into, total**-0.5),
        "c_skip": (skip, 1 / total),
        "c_out": (np.abs(out), level * total**-0.5),
    }
    worst, note = 0.0, ""
    for name, (found, expected) in pairs.items():
        off = np.where(level >= LEAST, np.abs(found / expected - 1), 0.0)
        off = np.where(np.isfinite(off), off, 0.0)
        if off.max() > max(worst, SHIFTED):
            at = int(off.argmax())
            note = f"{name} is {found[at] / expected[at]:.4g} of what it should be at {level[at]:.3g} deviations of the data"
        worst = max(worst, float(off.max()))
    return Residual(np.full(len(batch.x), worst), allowed=SHIFTED, note=note)
