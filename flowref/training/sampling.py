"""Samples of a run as a file: a picture, or an array."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowref.model import SpecError
from flowref.reference import Dequantize
from flowref.training import plots, runs

KINDS = (".png", ".npz")
CHUNK = 500


def sample_run(folder: Path, count: int, seed: int) -> tuple[NDArray[Any], int | None]:
    """Samples ``(count, *event)`` of a run, and the number of pixel values or None; images are
    rounded down to levels.
    """
    flow, levels = runs.load(str(folder)), runs.levels_of(folder)
    random = runs.seeded(seed, "samples")
    drawn = np.concatenate(
        [flow.sample(min(CHUNK, count - start), random).numpy() for start in range(0, count, CHUNK)]
    )
    if levels is None:
        return drawn, None
    import torch

    whole = Dequantize(levels).inverse(torch.as_tensor(drawn))[0].numpy()
    return whole.astype(np.uint8 if levels <= 256 else np.int64), levels


def write_samples(folder: Path, count: int, seed: int, out: Path) -> None:
    """Draws samples into a PNG (a scatter plot, or a grid of images) or an NPZ (the array
    ``samples``).

    Raises `SpecError` for other file types.
    """
    kind = out.suffix.casefold()
    if kind not in KINDS:
        raise SpecError(
            f"{out} is to be a file of kind {kind or 'nothing'}; expected {' or '.join(KINDS)}"
        )
    samples, levels = sample_run(folder, count, seed)
    if kind == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, samples=samples)
        runs.replace_file(out, buffer.getvalue())
        return
    with plots.figure(out, 1, (5.0, 5.0)) as (axes,):
        if levels is not None:
            plots.show(axes, samples, levels, f"{folder.name}: {count} samples")
            return
        axes.scatter(*samples.T, s=8 if count < 1000 else 4, c=plots.MODEL, alpha=0.7, linewidths=0)
        axes.set(
            aspect="equal", xlabel="$x_1$", ylabel="$x_2$", title=f"{folder.name}: {count} samples"
        )
