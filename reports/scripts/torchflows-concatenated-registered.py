"""torchflows 1.2.1: a ConcatenatedDistribution does not register its components."""

import sys
import warnings

import torch
from torchflows.base_distributions.concatenation import ConcatenatedDistribution
from torchflows.base_distributions.gaussian import DiagonalGaussian

warnings.filterwarnings("ignore", category=UserWarning)  # about indexing by a list
loc, scale = torch.zeros(2), torch.ones(2)
component = DiagonalGaussian(loc, scale, trainable_loc=True, trainable_scale=True)
base = ConcatenatedDistribution([component])

x = torch.tensor([[1.0, 2.0]])
(-base.log_prob(x).sum()).backward()
print(f"the mean of the component has a gradient: {component.loc.grad.tolist()}")
print(f"parameters of the component: {[name for name, _ in component.named_parameters()]}")
# The bug: self.distributions is a plain list, of which a module sees nothing; it would have to be a
# ModuleList.
names = [name for name, _ in base.named_parameters()]
print(f"parameters of the concatenation: {names}; its state_dict: {list(base.state_dict())}")
wrong = bool(component.loc.grad.any()) and not names
print("VIOLATED state/registered" if wrong else "holds")
sys.exit(wrong)
