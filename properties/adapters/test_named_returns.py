"""Code tells what it returns: by the names in a return statement, by the pixels of an image, and by a pair
of methods beside a likelihood.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import checking, registry
from flowref.loading.recipe import Recipe, recipe_of
from flowref.model import Ambiguous, Status, TargetError

NAMING = Path(__file__).with_name("naming.py")
INVERSE_LOG_DET = "map/log-det[inverse]"
DIFFERENCES, SAMPLES = "map/log-det[differences]", "sampling/follows-density"
LOG_DET, SHAPE, BACK = "map/log-det", "shape/one-number-per-point[log-det]", "map/inverse"


def recipe(name: str) -> Recipe:
    """The recipe of something named."""
    return recipe_of(registry.parse_target(f"{NAMING}:{name}"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Levels", "returns _,ladj,z, as its code names them"),
        ("Levels", "inverse: reverse()"),
        ("Prior", "log_prob = log_prior + ladj, as its code names them"),
        ("Turned", "returns ladj,z, as its code names them"),
        ("Pixels", "log-det per pixel, summed"),
        ("Likely", "forward: f()"),
        ("Likely", "one log-det for all rows"),
        ("Masses", "named arrays in, and out: log_m1, log_m2 -> total, ratio"),
        ("Sky", "named arrays in, and out: ra, dec -> ra, dec"),
        ("Blocks", "named arrays in, and out: theta, data -> theta, data"),
        ("Hierarchy", "log_prob of named arrays: location, value"),
        ("Hierarchy", "sample: sample(), named arrays"),
        ("Precisions", "log_prob of named arrays: mu, tau"),
        ("Precisions", "domain: real,positive, since it is not finite elsewhere"),
    ],
)
def test_what_code_names_is_read_and_told(name: str, words: str) -> None:
    """The target's line says how its results were read."""
    assert words in recipe(name).recognized.conventions


@pytest.mark.parametrize("name", ["Nameless", "Crossed", "TurnedBothWays"])
def test_names_that_tell_nothing_are_asked_about(name: str) -> None:
    """Neither letters nor statements that differ decide an order."""
    with pytest.raises(Ambiguous, match=r"\?returns="):
        recipe(name)


def test_a_likelihood_whose_f_is_no_map_is_a_density() -> None:
    """f is a map only where one number comes back beside as many entries as came in."""
    dialect = recipe("Regression").dialect
    assert dialect.forward is None
    assert dialect.log_prob is not None


@pytest.mark.parametrize(
    ("name", "law", "status"),
    [
        ("Levels", LOG_DET, Status.HOLDS),
        ("Levels?bug=0.5", LOG_DET, Status.VIOLATED),
        ("Pixels", SHAPE, Status.HOLDS),
        ("Pixels", LOG_DET, Status.HOLDS),
        ("Pixels?bug=true", LOG_DET, Status.VIOLATED),
        ("TurnedBothWays?returns=ladj,z", LOG_DET, Status.HOLDS),
        ("TurnedBothWays?returns=ladj,z", BACK, Status.HOLDS),
        ("TurnedBothWays?returns=ladj,z", INVERSE_LOG_DET, Status.HOLDS),
        ("TurnedBothWays?returns=ladj,z&bug=0.1", INVERSE_LOG_DET, Status.VIOLATED),
        ("Masses", LOG_DET, Status.HOLDS),
        ("Masses", BACK, Status.HOLDS),
        ("Masses?bug=0.5", LOG_DET, Status.VIOLATED),
        ("Sky", DIFFERENCES, Status.HOLDS),
        ("Sky?bug=0.5", DIFFERENCES, Status.VIOLATED),
        ("Blocks", LOG_DET, Status.HOLDS),
        ("Blocks?bug=0.5", LOG_DET, Status.VIOLATED),
        ("Hierarchy", SAMPLES, Status.HOLDS),
        ("Hierarchy?bug=1.5", SAMPLES, Status.VIOLATED),
        ("Precisions", "density/mass", Status.HOLDS),
        ("Precisions?bug=1.5", "density/mass", Status.VIOLATED),
        ("Likely", BACK, Status.HOLDS),
        ("Likely?bug=0.1", BACK, Status.VIOLATED),
    ],
)
def test_what_was_read_is_judged(name: str, law: str, status: Status) -> None:
    """What is right holds, and a bug in it is found."""
    assert checking.pair_verdict(registry.parse_target(f"{NAMING}:{name}"), law).status is status


def test_the_sizes_of_named_arrays_are_not_guessed(tmp_path: Path) -> None:
    """A log-det that is right for an image beside its label is held against no other size."""
    lines = (
        "import math, torch",
        "class Images:",
        "    def forward(self, batch):",
        "        numbers = torch.full((len(batch['image']),), 16 * math.log(2))",
        "        return {'image': 2 * batch['image'], 'label': batch['label']}, numbers",
    )
    (tmp_path / "images.py").write_text("\n".join(lines))
    with pytest.raises(TargetError, match="event_shapes"):
        recipe_of(registry.parse_target(f"{tmp_path}/images.py:Images"))
