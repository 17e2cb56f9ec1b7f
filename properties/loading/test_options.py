"""Options that a construction does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowref import loading, registry
from flowref.model import SpecError, TargetError


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("zuko:NSF?feature=3", "did you mean features"),
        ("torch:AffineTransform?featurs=3", "did you mean features"),
        ("nflows:SqueezeTransform?width=2", "it takes none"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(spec: str, hint: str) -> None:
    """A misspelt option of a library's construction is named, with what the construction takes."""
    with pytest.raises(SpecError, match=hint):
        loading.load(registry.parse_target(spec))


def test_a_misspelt_option_of_ours_is_told_where_a_factory_refuses_it(tmp_path: Path) -> None:
    """What a factory does not take may be meant for flowref: the nearest of its options is named."""
    file = tmp_path / "flows.py"
    file.write_text("def make():\n    return None\n", encoding="utf-8")
    with pytest.raises(TargetError, match="did you mean event"):
        loading.load(registry.parse_target(f"{file}:make?evnt=3"))


@pytest.mark.parametrize(
    ("spec", "size"), [("zuko:NSF?context=2", 2), ("zuko:NSF?context=0", None)]
)
def test_a_context_is_built_and_stated(spec: str, size: int | None) -> None:
    """One option says both where a builder takes the size of contexts."""
    flow = loading.load(registry.parse_target(spec))
    assert flow.context_shape == (None if size is None else (size,))
