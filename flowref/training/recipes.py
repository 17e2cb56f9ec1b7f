"""Recipes: all that a training run depends on, saved with the run and read again to resume it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from flowref.training.data import DRAWN, NAMES
from flowref.training.extras import RunError
from flowref.training.flows import FLOWS, REAL_NVP

SCHEMA = 1


@dataclass(frozen=True)
class Recipe:
    """The flow, its data, and the settings of the training.

    ``flow``: the family, for points one of `FLOWS`. ``model``: its options; ``variants``: changes
    to the built model (see `variants.VARIANTS`). ``epochs``: at most; the learning rate falls from
    ``rate`` along half a cosine until then. ``patience``: epochs without a better validation value
    after which training stops. ``penalty``: weight of the squared scales of the couplings.
    ``clip``: largest norm of a gradient. ``flips``: whether half of the images are mirrored.
    ``threads``: of torch; sums depend on it, so a run keeps its first number.
    """

    dataset: str
    path: str | None = None
    size: int | None = None
    limit: int | None = None
    seed: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    variants: tuple[str, ...] = ()
    epochs: int = 100
    batch: int = 256
    rate: float = 1e-3
    penalty: float = 5e-5
    clip: float = 10.0
    patience: int = 20
    flips: bool = False
    threads: int = 1
    flow: str = REAL_NVP

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "rate", "clip", "patience", "threads"):
            if not getattr(self, name) > 0:
                raise RunError(f"{name} is {getattr(self, name)}; expected a positive number")

    def to_json(self) -> str:
        """The recipe as JSON."""
        return json.dumps({"flowref-run": SCHEMA, **asdict(self)}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Recipe:
        """Reads a recipe; raises `RunError` if the text is not one."""
        try:
            row = json.loads(text)
        except ValueError as error:
            raise RunError(
                f"{where} is no JSON ({error}); the run cannot be read: start another one"
            ) from None
        if not isinstance(row, dict) or "flowref-run" not in row:
            raise RunError(
                f"{where} does not describe a run; expected the file that flowref fit writes"
            )
        if row.pop("flowref-run") != SCHEMA:
            raise RunError(f"{where} was written by another version of flowref; start another run")
        names = {field.name for field in fields(cls)}
        if (
            row.get("dataset") not in NAMES
            or not set(row) <= names
            or row.get("flow", REAL_NVP) not in FLOWS
            or not isinstance(row.get("model", {}), dict)
        ):
            raise RunError(
                f"{where} was changed, or written by another version of flowref; start another run"
            )
        try:
            return cls(**{**row, "variants": tuple(row.get("variants", ()))})
        except TypeError as error:
            raise RunError(f"{where} was changed: {error}; start another run") from None


# Points: six times a coupling, a batch norm with running averages and a 1x1 convolution.
POINTS = Recipe(
    "moons", model={"depth": 6, "hidden": [64, 64]}, epochs=75, batch=512, rate=5e-3, patience=40
)
# Images: networks grow with the number of images and pixels, so that a small machine finishes
# within hours or minutes.
RECIPES: dict[str, Recipe] = {
    **{name: replace(POINTS, dataset=name) for name in DRAWN},
    "digits": Recipe(
        "digits",
        # A small alpha, since most pixels have the lowest level; averages fast enough for the few
        # steps of an epoch.
        model={
            "scales": 2,
            "couplings": 3,
            "final": 2,
            "hidden": 24,
            "blocks": 1,
            "alpha": 0.003,
            "momentum": 0.02,
        },
        epochs=40,
        batch=32,
        rate=2e-3,
        patience=12,
    ),
    "mnist": Recipe(
        "mnist",
        model={"scales": 3, "hidden": 32, "blocks": 2},
        epochs=50,
        batch=128,
        rate=1e-3,
        patience=8,
        threads=2,
    ),
    "cifar10": Recipe(
        "cifar10",
        model={"scales": 3, "hidden": 48, "blocks": 3},
        epochs=100,
        batch=64,
        rate=1e-3,
        patience=10,
        flips=True,
        threads=2,
    ),
    "celeba": Recipe(
        "celeba",
        model={"scales": 3, "hidden": 48, "blocks": 3},
        epochs=50,
        batch=64,
        rate=1e-3,
        patience=8,
        flips=True,
        threads=2,
    ),
}
