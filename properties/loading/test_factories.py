"""What a factory says of what it makes counts like what the object says, and sets are declared
coordinate by coordinate.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import constraints

from flowref import checking, registry
from flowref.adapters.common.torch_supports import declared_support
from flowref.loading.options import parse_shape
from flowref.loading.recipe import Recipe, recipe_of
from flowref.model import SpecError, Status, Support, TargetError, draw_points


class Logarithms(nn.Module):
    """(x, y) -> (log x, logit y)."""

    bug = 0.0

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x[:, :1], x[:, 1:]
        ladj = -torch.log(a) - torch.log(b) - torch.log1p(-b)
        ladj = torch.where(b > 0.9, ladj + self.bug, ladj)
        return torch.cat([torch.log(a), torch.log(b) - torch.log1p(-b)], -1), ladj.squeeze(-1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        x = torch.cat([z[:, :1].exp(), torch.sigmoid(z[:, 1:])], -1)
        return x, torch.log(x[:, 0]) + torch.log(x[:, 1]) + torch.log1p(-x[:, 1])


class Outspoken(Logarithms):
    """It says another thing than its factory."""

    event_shape = (2,)
    domain = "positive"


def constrained() -> nn.Module:
    """A map of a product set."""
    return Logarithms()


constrained.domain = constraints.cat(  # type: ignore[attr-defined]  # an attribute of a function
    [constraints.positive, constraints.unit_interval], -1, [1, 1]
)


def buggy() -> nn.Module:
    """The same, wrong near one end."""
    made = Logarithms()
    made.bug = 0.01
    return made


buggy.domain = ("positive", "unit")  # type: ignore[attr-defined]  # an attribute of a function


def overruled() -> nn.Module:
    """The factory knows better."""
    return Outspoken()


overruled.domain = ("positive", "unit")  # type: ignore[attr-defined]  # an attribute of a function


def misfit() -> nn.Module:
    """Three coordinates of an event of two."""
    return Outspoken()


misfit.domain = ("positive", "unit", "real")  # type: ignore[attr-defined]  # an attribute of a function


def recipe(name: str) -> Recipe:
    """The recipe of something in this file."""
    return recipe_of(registry.parse_target(f"{__file__}:{name}"))


@pytest.mark.parametrize("name", ["constrained", "overruled", "Logarithms?domain=positive,unit"])
def test_a_set_is_declared_coordinate_by_coordinate(name: str) -> None:
    """A constraint, a tuple and an option say the same, and the event shape follows."""
    facts = recipe(name).facts
    assert (str(facts.domain), facts.event_shape, facts.declared) == ("positive,unit", (2,), True)


def test_an_option_stands_before_the_factory_and_the_factory_before_the_object() -> None:
    """The later wins, an option where it is told to override, and what differs is remarked."""
    with pytest.raises(
        SpecError, match="domain=unit contradicts its factory, which says positive,unit"
    ):
        recipe("overruled?domain=unit")
    found = recipe("overruled?domain=unit&override=true")
    assert str(found.facts.domain) == "unit"
    assert any("though the object says positive" in told for told in found.recognized.conflicts)


def test_a_set_of_another_size_than_the_event_is_refused() -> None:
    """Both numbers are named."""
    with pytest.raises(TargetError, match="3 coordinates, but an event of shape"):
        recipe("misfit")


@pytest.mark.parametrize(("name", "status"), [("constrained", "HOLDS"), ("buggy", "VIOLATED")])
def test_a_product_set_is_searched_to_its_ends(name: str, status: str) -> None:
    """A bug near the end of one coordinate is found, and nothing is asked outside the set."""
    target = registry.parse_target(f"{__file__}:{name}")
    assert checking.pair_verdict(target, "map/log-det").status is Status[status]


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (constraints.real, "real"),
        (constraints.greater_than(2.0), "(2,inf)"),
        (constraints.interval(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0])), "unit,(1,3)"),
        (constraints.stack([constraints.real, constraints.unit_interval], -1), "real,unit"),
        (constraints.independent(constraints.positive, 1), "positive"),
        (constraints.simplex, "simplex"),
        (constraints.integer_interval(0, 5), "None"),
    ],
)
def test_a_constraint_is_a_set(constraint: Any, text: str) -> None:
    """Each kind of constraint is understood, or said not to be a set of reals."""
    assert str(declared_support(constraint)) == text


@pytest.mark.parametrize("text", ["unit,real", "(0,1),(-1,1),positive"])
def test_a_product_set_holds_what_is_drawn_from_it(text: str) -> None:
    """Draws lie inside, and a point beyond the end of one coordinate does not."""
    support = Support.parse(text)
    x = draw_points(support, (50, len(support.coordinates)), np.random.default_rng(0))
    beyond = x.copy()
    beyond[:, 0] = -1.0
    assert support.holds(x).all()
    assert not support.holds(beyond).any()


@pytest.mark.parametrize("text", ["4,", "(4,)"])
def test_a_tuple_of_one_is_a_tuple(text: str) -> None:
    """As an event shape and as a keyword of a factory."""
    assert (parse_shape(text, "event"), registry.literal(text)) == ((4,), (4,))


def test_a_bare_name_finds_its_variants() -> None:
    """A construction that exists with brackets only is found without them."""
    assert [target.component for target in registry.expand("nflows:GatedLinearUnit")] == [
        "GatedLinearUnit[ctx]"
    ]


def test_a_path_is_a_path(tmp_path: Path) -> None:
    """What has a slash is a file, and one that is missing is no such file."""
    with pytest.raises(TargetError, match="no such file"):
        recipe_of(registry.parse_target(f"{tmp_path}/folder/missing:make"))


def test_a_file_finds_its_neighbors(tmp_path: Path) -> None:
    """A file that imports from the root of its repository, or relatively, is imported."""
    (tmp_path / "layers").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "layers" / "__init__.py").touch()
    code = "from properties_of_factories import Logarithms\n"
    (tmp_path / "properties_of_factories.py").write_text(Path(__file__).read_text())
    (tmp_path / "models" / "model.py").write_text(code)
    (tmp_path / "layers" / "model.py").write_text("from .other import Logarithms\n")
    (tmp_path / "layers" / "other.py").write_text(code)
    for folder in ("models", "layers"):
        spec = f"{tmp_path}/{folder}/model.py:Logarithms?domain=positive,unit"
        assert recipe_of(registry.parse_target(spec)).facts.event_shape == (2,)


def test_packages_of_one_name_are_each_their_own(tmp_path: Path) -> None:
    """Two repositories, and a lone file, that have a name in common are audited in one run."""
    for repository, features in (("one", 2), ("two", 3)):
        package = tmp_path / repository / "likenamed"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "size.py").write_text(f"FEATURES = {features}\n")
        (package / "flow.py").write_text("from .size import FEATURES\n" + SIZED)
    (tmp_path / "likenamed.py").write_text("FEATURES = 4\n" + SIZED)
    for file, features in (("likenamed", 4), ("one/likenamed/flow", 2), ("two/likenamed/flow", 3)):
        facts = recipe_of(registry.parse_target(f"{tmp_path}/{file}.py:Sized")).facts
        assert facts.event_shape == (features,)


WHOLE = """
import torch


class Shifted(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return x + self.shift, torch.zeros(len(x))


class Whole:
    def __init__(self, first=torch.nn.Sequential):
        self.table = {"last": Shifted(2)}
        self.layers = [first(torch.nn.Tanh(), Shifted(3))]

    def forward(self, x):
        return 2 * x, torch.full((len(x),), 0.6931471805599453 * x.shape[-1])
"""


@pytest.mark.parametrize(
    ("part", "features", "way"),
    [
        ("Shifted", 2, ".table['last']"),  # the nearest
        ("table.last", 2, ".table['last']"),
        ("layers.0.1", 3, ".layers[0][1]"),
    ],
)
def test_a_part_is_named_by_its_class_or_by_its_path(
    tmp_path: Path, part: str, features: int, way: str
) -> None:
    """It is loaded by itself, with the Python that leads to it for a program."""
    (tmp_path / "whole.py").write_text(WHOLE)
    recipe = recipe_of(registry.parse_target(f"{tmp_path}/whole.py:Whole?part={part}"))
    assert recipe.facts.event_shape == (features,)
    assert recipe.source.way() == way


def test_a_part_takes_the_events_that_the_whole_gives_it(tmp_path: Path) -> None:
    """Whatever else it takes: what it is called with first."""
    text = (
        WHOLE
        + """

class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x, torch.full((len(x),), 0.6931471805599453 * x[0].numel())


class Five(torch.nn.Module):
    event_shape = (5,)

    def __init__(self):
        super().__init__()
        self.inner = Doubled()

    def forward(self, x):
        return self.inner(x)
"""
    )
    (tmp_path / "whole.py").write_text(text)
    recipe = recipe_of(registry.parse_target(f"{tmp_path}/whole.py:Five?part=Doubled"))
    assert recipe.facts.event_shape == (5,)


def test_a_layer_of_the_last_axis_is_not_held_to_all_axes(tmp_path: Path) -> None:
    """The whole gives it sequences, of which its log-det is one number for each position."""
    text = (
        WHOLE
        + """

class Positions(torch.nn.Module):
    def forward(self, x):
        return 2 * x, torch.full((len(x),), 0.6931471805599453 * x.shape[-1])


class Sequences(torch.nn.Module):
    event_shape = (4, 3)

    def __init__(self):
        super().__init__()
        self.inner = Positions()

    def forward(self, x):
        value, ladj = self.inner(x)
        return value, ladj * x.shape[1]
"""
    )
    (tmp_path / "whole.py").write_text(text)
    target = registry.parse_target(f"{tmp_path}/whole.py:Sequences?part=Positions")
    verdict = checking.pair_verdict(target, "map/log-det")
    assert verdict.status is Status.INCONCLUSIVE
    assert "with (3,) it holds" in verdict.reason


def test_a_part_that_is_missing_is_told_from_those_that_are_there(tmp_path: Path) -> None:
    """The nearest name, and the classes of the parts."""
    (tmp_path / "whole.py").write_text(WHOLE)
    said = (
        r"no part 'Shiftd' \(did you mean Shifted\?\); its parts are of Shifted, Sequential, Tanh"
    )
    with pytest.raises(TargetError, match=said):
        recipe_of(registry.parse_target(f"{tmp_path}/whole.py:Whole?part=Shiftd"))


def test_a_factory_may_have_a_parameter_of_that_name(tmp_path: Path) -> None:
    """Then it is given what the option says."""
    file = tmp_path / "own.py"
    file.write_text(f"{WHOLE}\n\ndef make(part=3):\n    return Shifted(part)\n")
    assert recipe_of(registry.parse_target(f"{file}:make?part=4")).facts.event_shape == (4,)


SIZED = """
import torch


class Sized(torch.nn.Module):
    event_shape = (FEATURES,)

    def forward(self, x):
        return 2 * x, torch.full((len(x),), FEATURES * 0.6931471805599453)
"""

FACTORIES = """
import torch


class Scaled(torch.nn.Module):
    event_shape = (2,)

    def __init__(self, size):
        super().__init__()
        self.log_scale = torch.nn.Parameter(size * torch.ones(2))

    def forward(self, x):
        return x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


def named(kind="narrow"):
    return Scaled({"narrow": -0.5, "wide": 0.5}[kind])


def unnamed():
    return Scaled(0.1)
"""


def test_a_kind_that_is_the_factory_s_own_goes_there(tmp_path: Path) -> None:
    """A word that flowref does not know as a kind is an option of a factory that takes it; one that it knows
    is its own.
    """
    (tmp_path / "kinds.py").write_text(FACTORIES)
    made = [
        recipe_of(registry.parse_target(f"{tmp_path}/kinds.py:named?kind={kind}")).source.build()
        for kind in ("wide", "bijection")
    ]
    assert [float(one.log_scale[0].detach()) for one in made] == [0.5, -0.5]


def test_a_kind_that_no_factory_takes_is_refused_with_where_it_would_go(tmp_path: Path) -> None:
    """It may be misspelt, or meant for a factory."""
    (tmp_path / "kinds.py").write_text(FACTORIES)
    with pytest.raises(SpecError, match=r"expected batch-norm.*factory that has a parameter"):
        recipe_of(registry.parse_target(f"{tmp_path}/kinds.py:unnamed?kind=wide"))


PRIOR = """

class Scaled(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * self.scale, self.scale.log().sum().expand(len(x))

    def inverse(self, z):
        return z / self.scale


class Prior(torch.nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.flow = Scaled(size)

    def forward(self, x):
        return self.flow(x + torch.randn_like(x)), x
"""


def test_a_refused_object_names_the_flows_within(tmp_path: Path) -> None:
    """Where a class of a file is no flow, its parts that are flows are named as targets."""
    file = tmp_path / "whole.py"
    file.write_text(f"{WHOLE}{PRIOR}")
    hint = registry.parts_within(registry.parse_target(f"{file}:Prior"))
    assert f"{file}:Prior?part=Scaled" in hint
    assert registry.parts_within(registry.parse_target(f"{file}:Shifted")) == ""


def test_a_mistyped_ending_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file beside it is named, before a library of a similar name."""
    (tmp_path / "glow.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"did you mean glow\.py\?"):
        registry.expand("glow.pyy")
