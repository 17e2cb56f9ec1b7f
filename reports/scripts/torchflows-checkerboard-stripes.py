"""The checkerboard coupling of torchflows keeps columns of an image, not the squares of one colour of a checkerboard.

The law coupling/checkerboard-mask of flowref: neighbours, along either axis, are not in the same part.
Source: Dinh et al. 2017, Real NVP (arXiv:1605.08803), section 3.4 and figure 3.

Run it with Python: it exits with 1 as long as the law is violated, and with 0 once it holds. It needs torchflows and torch.
"""

import sys

import torch
from torchflows.bijections.finite.multiscale.coupling import Checkerboard

mask = Checkerboard((1, 4, 4)).source_mask.view(4, 4).int()
row, column = torch.arange(4)[:, None], torch.arange(4)
expected = (row + column) % 2
print("which pixels of a 4 x 4 image are kept:")
print(mask)
print("a checkerboard, or its complement:")
print(expected)
holds = torch.equal(mask, expected.int()) or torch.equal(mask, 1 - expected.int())
print("HOLDS" if holds else "VIOLATED: the rows are all alike, so that whole columns are kept")
sys.exit(0 if holds else 1)
