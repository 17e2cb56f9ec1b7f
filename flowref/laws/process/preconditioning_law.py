"""Preconditioned denoisers: their networks have inputs and targets of unit variance."""

from __future__ import annotations

import numpy as np

from flowref.laws.process.process_law import process_law, shares
from flowref.model import ADVICE, Array, Batch, Residual, Unsupported
from flowref.model.abilities import Preconditioned

# Relative error: some shift noise levels by the smallest of them, so that nothing is denoised there.
SHIFTED = 0.02
# Powers of the noise level that are weights by themselves: of errors of data, of noise, and of their ratio.
POWERS = (0.0, 1.0, 2.0)
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
    level, skip, out, into, _ = np.asarray(flow.scalings(shares(batch)), np.float64).T
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


@process_law(
    "process/preconditioning[weight]",
    force=ADVICE,
    source="Karras et al. 2022 (arXiv:2206.00364), section 5: the weight of a denoiser's loss is 1 / c_out^2",
)
def weight_is_uniform(flow: Preconditioned, batch: Batch) -> Residual:
    r"""The weight of a denoiser's loss is $1 / c_{out}^2 = (\sigma^2 + \sigma_d^2) / (\sigma \sigma_d)^2$ up to
    a factor, so that errors of the network count alike at every noise level, or a power of the noise level.

    Advice: weights are chosen, and others than these are not wrong.
    """
    level, _, out, _, uniform = np.asarray(flow.scalings(shares(batch)), np.float64).T
    large = level >= LEAST
    if not np.isfinite(uniform[large]).all():
        raise Unsupported("it has no weight of a loss")
    level, out, uniform = level[large], out[large], uniform[large]

    def spread(weight: Array) -> float:
        return float(weight.max() / weight.min() - 1) if (weight > 0).all() else np.inf

    off = min(spread(one) for one in (uniform, *(uniform / out**2 * level**n for n in POWERS)))
    least, most = (level[at] for at in (uniform.argmin(), uniform.argmax()))
    note = (
        f"errors of the network count {uniform.max() / uniform.min():.4g} times as much at {most:.3g} deviations of the "
        f"data as at {least:.3g}"
    )
    return Residual(np.full(len(batch.x), off), allowed=SHIFTED, note=note if off > SHIFTED else "")
