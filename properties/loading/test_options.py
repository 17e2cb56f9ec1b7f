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


CLASSES = """
from torch import nn


class Needy(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()


class Free(nn.Module):
    def __init__(self, dim=3):
        super().__init__()
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("Needy", "needs dim, hidden: say 'flows.py:Needy?dim=3&hidden=8'"),
        ("Needy?hidden=4", "needs dim: say 'flows.py:Needy?hidden=4&dim=3'"),
        (
            "Needy?dim=3&hiden=8",
            "needs hidden: say 'flows.py:Needy?dim=3&hidden=8'; there is no option 'hiden' (did you mean hidden?)",
        ),
        ("Free?dmi=4", "there is no option 'dmi' (did you mean dim?)"),
        (
            "Free?equivariant=sign",
            "there is no option 'equivariant' (did you mean promises=equivariant?)",
        ),
    ],
)
def test_arguments_of_a_class_are_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, said: str
) -> None:
    """Those that are missing are named as they are given, and one that is mistyped with its neighbor."""
    (tmp_path / "flows.py").write_text(CLASSES)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError) as refused:
        loading.load(registry.parse_target(f"flows.py:{options}"))
    assert said in str(refused.value)


def test_files_of_weights_are_compared_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is missing is near no Python file."""
    (tmp_path / "flows.py").write_text(CLASSES)
    (tmp_path / "nopes.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TargetError, match=r"nope.pt cannot be read: there is no such file$"):
        loading.load(registry.parse_target("flows.py:Free?weights=nope.pt"))
