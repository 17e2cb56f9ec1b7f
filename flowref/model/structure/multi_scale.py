"""Squeezes and multi-scale maps: what must be known of them before their entries can be followed."""

from __future__ import annotations

from dataclasses import dataclass

# The orders in which the channels of a squeeze are known to come out; see `Squeezing`.
ORDERS = ("pixel_unshuffle", "space_to_depth", "real_nvp")


@dataclass(frozen=True)
class Squeezing:
    r"""What is known of a squeeze, which makes windows of f by f positions channels:
    $(C, H, W) \to (f^2 C, H/f, W/f)$.

    ``call``: which call of its dialect makes positions channels, "forward" or "inverse".
    ``factor``: f.
    ``order``: where channel c at the corner (i, j) of a window goes, if that is documented, else
    "":
    "pixel_unshuffle" $f^2 c + f i + j$; "space_to_depth" $(f i + j)\,C + c$; "real_nvp", for f = 2,
    $k\,C + c$ where k numbers the corners 00, 11, 01, 10.
    """

    call: str = "forward"
    factor: int = 2
    order: str = ""


@dataclass(frozen=True)
class MultiScale:
    """What is known of a map in levels, after each of which but the last a part of the entries
    leaves.

    ``shapes``: of what leaves after each level, the first level that data meets first. ``levels``:
    the dotted names of the modules that make up each level, each of which returns (value, log-det)
    from ``forward`` and ``inverse``.
    ``entries``: which entries of the flattened latents each level's are; empty where they lie one
    level after the other.
    ``call``: which call of its dialect maps data to latents. ``around``: names of the other modules
    with a log-det of that call, such as a preprocessing. ``base``: "normal" where each latent is
    standard normal under its density.
    ``architecture``: per level, the kind ("checkerboard", "channel" or "squeeze") and the hidden
    width of each of its layers in order, as far as they are told; a squeeze has width 0.
    """

    shapes: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[str, ...], ...]
    entries: tuple[tuple[int, ...], ...] = ()
    call: str = "forward"
    around: tuple[str, ...] = ()
    base: str = ""
    architecture: tuple[tuple[tuple[str, int], ...], ...] = ()
