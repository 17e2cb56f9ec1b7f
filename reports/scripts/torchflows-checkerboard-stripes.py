"""torchflows 1.2.1: the checkerboard coupling keeps columns of an image, not squares of one color.

In a checkerboard no two neighbours, along either axis, are in the same part: Dinh et al. 2017, Real
NVP (arXiv:1605.08803), section 3.4 and figure 3.
"""

import sys

import torch
from torchflows.bijections.finite.multiscale.coupling import Checkerboard

mask = Checkerboard((1, 4, 4)).source_mask.view(4, 4).int()
row, column = torch.arange(4)[:, None], torch.arange(4)
expected = ((row + column) % 2).int()
# The bug: Checkerboard.__init__ takes `torch.arange(height * width) % 2`, row by row. With an even
# width, which the class asks for, every row begins with the same color.
print(f"which pixels of a 4 x 4 image are kept: {mask.tolist()}")
print(f"a checkerboard, or its complement:      {expected.tolist()}")
wrong = not (torch.equal(mask, expected) or torch.equal(mask, 1 - expected))
print("VIOLATED coupling/masks[checkerboard]" if wrong else "holds")
sys.exit(wrong)
