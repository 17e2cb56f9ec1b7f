"""pyro-ppl 1.9.2: NeuralAutoregressive saturates, beside the log-det of a map that does not."""

import sys

import torch
from pyro.distributions.transforms import NeuralAutoregressive

torch.set_default_dtype(torch.float64)


def conditioner(x):
    """Constant, so that the flow is f(x) = s x with s = softplus(0), and log|f'(x)| = log s."""
    zeros = torch.zeros(x.shape[0], 16, 1)
    return zeros, zeros, zeros


slope = torch.nn.functional.softplus(torch.tensor(0.0))
# The bug: NeuralAutoregressive._call takes `y = T.inv(D)` of `D = (W * T_C).sum(dim=-2)`, a sum that
# rounds to the bound of the activation from C = 36 (sigmoid, which torch clamps) or 19 (tanh) on; y
# is constant, or infinite, from there. log_abs_det_jacobian works from C, which is not rounded.
wrong = False
for activation, points in {"sigmoid": (5.0, 53.0, 54.0), "tanh": (5.0, 30.0)}.items():
    flow = NeuralAutoregressive(conditioner, activation=activation)
    for point in points:
        x = torch.full((1, 1), point, requires_grad=True)
        y = flow(x)
        log_det = flow.log_abs_det_jacobian(x, y).item()
        (gradient,) = torch.autograd.grad(y.sum(), x)
        print(f"{activation}: f({point}) = {y.item():.6f}   (should be {slope * point:.6f})")
        print(
            f"    log-det {log_det:.6f} (should be {slope.log():.6f}), gradient {gradient.item()}"
        )
        wrong |= gradient.item() == 0 and log_det > -5
print("VIOLATED map/singular-jacobian" if wrong else "holds")
sys.exit(wrong)
