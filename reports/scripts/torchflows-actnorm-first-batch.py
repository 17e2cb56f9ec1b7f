"""torchflows 1.2.1: ActNorm does not save that it is initialized, and does so again once loaded."""

import sys

import torch
from torchflows.bijections.finite.autoregressive.layers import ActNorm

torch.set_default_dtype(torch.float64)
first, second = torch.tensor([[0.0], [2.0]]), torch.tensor([[10.0], [14.0]])
norm, resumed = ActNorm((1,)).train(), ActNorm((1,)).train()
norm.forward(first)  # initializes shift and scale: mean 1, standard deviation sqrt(2)
saved = {name: value.clone() for name, value in norm.state_dict().items()}
resumed.load_state_dict(saved)
print(f"in the state_dict: {sorted(saved)}")
# The bug: `self.first_training_batch_pass: bool = True` in ActNorm.__init__ is no buffer, so that
# no state_dict holds it, and the first train-mode forward after loading initializes again.
expected, _ = norm.forward(second)
got, _ = resumed.forward(second)
print(f"next batch:                      {second.flatten().tolist()}")
print(f"output of training continued:    {expected.flatten().tolist()}   (the mean 1 taken off)")
print(f"output of training resumed:      {got.flatten().tolist()}   (the mean 12 taken off)")
off = (got - expected).abs().max().item()
print(f"off by {off:.6g}")
wrong = off > 1e-9
print("VIOLATED same/saved[resume]" if wrong else "holds")
sys.exit(wrong)
