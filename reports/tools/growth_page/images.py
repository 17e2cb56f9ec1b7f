"""The flows of images that are measured."""

from __future__ import annotations

from flowref.reference import RealNVP


def build(side: int = 4, layers: int = 2, width: int = 16) -> RealNVP:
    """Real NVP of two levels on images of three channels, with so many couplings before and after
    the squeeze, and networks of one block.
    """
    return RealNVP((3, side, side), couplings=layers, final=layers, hidden=width, blocks=1)
