"""pyro-ppl 1.9.2: NeuralAutoregressive tells the log-det of its last call, whatever is asked."""

import sys

import torch
from pyro.distributions.transforms import neural_autoregressive
from torch.autograd.functional import jacobian

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
flow = neural_autoregressive(3)
x, other = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([[1.5, 0.3, -0.7]])
with torch.no_grad():
    y = flow(x)
    at_once = flow.log_abs_det_jacobian(x, y).item()
    flow(other)
    # The bug: log_abs_det_jacobian(x, y) reads what _call left in _cached_A, _cached_W_pre, _cached_C and
    # _cached_T_C, and asks neither for x nor for y; the other transforms of Pyro compare `x is x_old`.
    later = flow.log_abs_det_jacobian(x, y).item()
true = torch.linalg.slogdet(jacobian(lambda v: flow(v[None])[0], x[0])).logabsdet.item()
print(f"log|det d output/d input|       {true:.10f}")
print(f"reported after flow(x)          {at_once:.10f}")
print(f"reported after flow(other)      {later:.10f}")
off = abs(later - true)
print(f"off by {off:.6g}")
wrong = off > 1e-6
print("VIOLATED same/history[log-det]" if wrong else "holds")
sys.exit(wrong)
