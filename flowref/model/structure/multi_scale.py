"""Squeezes and multi-scale maps: the facts needed to follow their entries."""

from __future__ import annotations

from dataclasses import dataclass

# Known channel orders of a squeeze; see `Squeezing`.
ORDERS = ("pixel_unshuffle", "space_to_depth", "real_nvp")


@dataclass(frozen=True)
class Squeezing:
    r"""A squeeze of f by f windows into channels: $(C, H, W) \to (f^2 C, H/f, W/f)$.

    ``call``: the call of its dialect that squeezes, "forward" or "inverse". ``factor``: f. ``order``: the
    documented target of channel c at corner (i, j), or "": "pixel_unshuffle" $f^2 c + f i + j$;
    "space_to_depth" $(f i + j)\,C + c$; "real_nvp", for f = 2, $k\,C + c$ with corners 00, 11, 01, 10
    numbered by k.
    """

    call: str = "forward"
    factor: int = 2
    order: str = ""


@dataclass(frozen=True)
class MultiScale:
    """A map in levels, after each of which but the last some entries are factored out.

    ``shapes``: of the factored-out entries of each level, first level of the data first;
    ``levels``: dotted names of the modules of each level, each with (value, log-det) from ``forward`` and
        ``inverse``;
    ``entries``: indices of each level in the flattened latents; empty if levels are contiguous;
    ``call``: the call of its dialect that maps data to latents;
    ``around``: other modules with a log-det of that call, such as a preprocessing;
    ``base``: "normal" if each latent is standard normal;
    ``architecture``: per level the kind ("checkerboard", "channel" or "squeeze") and hidden width of its
        layers in order, as far as known; 0 for a squeeze.
    """

    shapes: tuple[tuple[int, ...], ...]
    levels: tuple[tuple[str, ...], ...]
    entries: tuple[tuple[int, ...], ...] = ()
    call: str = "forward"
    around: tuple[str, ...] = ()
    base: str = ""
    architecture: tuple[tuple[tuple[str, int], ...], ...] = ()
