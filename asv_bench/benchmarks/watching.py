"""What `flowref.watch` costs: steps of a training that is watched over the same steps unwatched."""

from __future__ import annotations

import tempfile
from typing import Any

import flowref

from . import _cases
from ._grid import skipped
from ._models import reference_flow, reference_model
from ._sizes import VECTORS
from ._timing import one_thread, ratio_samples

# Steps between two checks, which are also the steps of one sample: each has one check in it.
EVERY, ROUNDS = 100, 12


class WatchedStep:
    """Steps of Adam on the likelihood of the reference's flow of vectors, with a check in every hundred."""

    version = "1"
    unit = "ratio"
    timeout = 600.0
    params = (["small", "medium"], ["cpu"])
    param_names = ("size", "device")
    skip_params = tuple(rest for _, *rest in map(tuple, skipped(["flowref"], *params)))

    def track_ratio(self, size: str, device: str) -> dict[str, Any]:
        """The time of a watched step over that of one that is not."""
        one_thread()
        watched, plain = (
            reference_flow(VECTORS[size]),
            reference_flow(VECTORS[size]),
        )
        x = _cases.vector_flow("flowref", "training_step", size, device).inputs[0]
        step, unwatched = _steps(watched, x), _steps(plain, x)
        with tempfile.TemporaryDirectory() as folder, flowref.watch(watched, EVERY, folder=folder):
            step()  # the first check recognizes the model
            return {"samples": ratio_samples(step, unwatched, ROUNDS), "number": 1}


def _steps(model: Any, x: Any) -> Any:
    step = _cases.operation(reference_model(model, "flowref"), "training_step", len(x))

    def run() -> None:
        for _ in range(EVERY):
            step(x)

    return run
