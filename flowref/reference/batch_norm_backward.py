r"""The vector-Jacobian product of batch normalization with batch statistics, written by hand: in
the steps of the paper, and in closed form.

Per channel with $m$ values, $\hat x = (x - \mu) / \sqrt{v + \epsilon}$ and $y = w \hat x + b$.

Source: Ioffe and Szegedy 2015, Batch Normalization (arXiv:1502.03167), section 3.
"""

from __future__ import annotations

from torch import Tensor

from flowref.reference.batch_norm import check_count, check_input, moments, per_channel

Gradients = tuple[Tensor, Tensor, Tensor]


def batch_norm_backward(
    dy: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-5
) -> Gradients:
    r"""The gradients $(dx, dw, db)$ of a loss whose gradient for y is dy, in closed form.

    $d\hat x = w\,dy$;
    $dx = (d\hat x - \overline{d\hat x} - \hat x\,\overline{d\hat x\,\hat x}) / \sqrt{v +
    \epsilon}$, a bar for the mean over the batch: $d\hat x$ without its components along $1$ and
    $\hat x$.
    $dw = \sum dy\,\hat x$;  $db = \sum dy$.

    Shapes: dy, x and dx `(N, C, ...)`; weight (None: 1), dw and db `(C,)`.
    Raises: `ValueError` as `BatchNorm` does.
    """
    check_gradient_shape(dy, x)
    axes, m = [0, *range(2, x.dim())], max(x.numel() // x.shape[1], 1)
    mean, _, _, var = moments(x)
    centered = x - per_channel(mean, x)
    scale = (var + eps).rsqrt()
    x_hat = centered * per_channel(scale, x)
    dweight, dbias = (dy * x_hat).sum(axes), dy.sum(axes)
    rest = dy - per_channel(dbias / m, x) - x_hat * per_channel(dweight / m, x)
    return rest * per_channel(scale if weight is None else scale * weight, x), dweight, dbias


def batch_norm_backward_by_steps(
    dy: Tensor, x: Tensor, weight: Tensor | None = None, eps: float = 1e-5
) -> Gradients:
    r"""The same gradients by the chain rule through $\hat x$, $v$ and $\mu$, one line for each line
    of the paper.

    $dv = \sum d\hat x\,(x - \mu) \cdot (-\tfrac12)(v + \epsilon)^{-3/2}$, with a negative exponent.
    $d\mu = -\sum d\hat x / \sqrt{v + \epsilon} + dv \cdot \frac{-2}{m}\sum (x - \mu)$, with the
    same $\epsilon$; the last sum is 0.
    $dx = d\hat x / \sqrt{v + \epsilon} + dv \cdot 2 (x - \mu) / m + d\mu / m$.
    """
    check_gradient_shape(dy, x)
    axes, m = [0, *range(2, x.dim())], max(x.numel() // x.shape[1], 1)
    mean, _, _, var = moments(x)
    centered = x - per_channel(mean, x)
    inside = var + eps
    dx_hat = dy if weight is None else dy * per_channel(weight, x)
    dvar = (dx_hat * centered).sum(axes) * -0.5 * inside**-1.5
    dmean = (dx_hat * per_channel(-(inside**-0.5), x)).sum(axes) + dvar * (-2 * centered).sum(
        axes
    ) / m
    dx = (
        dx_hat * per_channel(inside**-0.5, x)
        + per_channel(dvar, x) * 2 * centered / m
        + per_channel(dmean, x) / m
    )
    dweight = (dy * centered * per_channel(inside**-0.5, x)).sum(axes)
    return dx, dweight, dy.sum(axes)


def check_gradient_shape(dy: Tensor, x: Tensor) -> None:
    """Raises `ValueError` as `BatchNorm` does, and unless dy has the shape of x."""
    if dy.shape != x.shape:
        raise ValueError(f"got dy of shape {tuple(dy.shape)}; expected that of x, {tuple(x.shape)}")
    check_input(x, x.shape[1] if x.dim() > 1 else 0)
    check_count(x)
