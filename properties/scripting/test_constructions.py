"""Constructions as expressions: a library's construction, written out, builds the same object."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
import torch

from flowref import registry
from flowref.backends.torch.state import named_state
from flowref.model import Component, TargetError
from flowref.scripting.inlined_calls import Inliner
from flowref.scripting.layout import WIDTH, import_block, unparsed, wrapped_line
from flowref.scripting.names import Names, Unwritable
from flowref.scripting.numbers import tensor
from flowref.scripting.operands import Operand

NAMES = ("torch", "nflows", "normflows", "zuko", "FrEIA", "pyro", "glasflow", "torchflows")


def seeded(build: Any) -> Any:
    """An object built in a fixed random state."""
    # What is allocated and never written to is nan then, and equal to nothing.
    torch.use_deterministic_algorithms(True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            np.random.seed(3)
            return build()
    finally:
        torch.use_deterministic_algorithms(False)


def written(build: Any, **options: Any) -> str:
    """A program that builds an object, as ``flow``."""
    inliner = Inliner(Names({"flow", "x"}), ours=[__name__.partition(".")[0]])
    given = {name: Operand(value) for name, value in options.items()}
    made = inliner.expression(build, **given)
    flow = ast.Assign([ast.Name("flow", ast.Store())], made, lineno=0)
    lines = unparsed([*inliner.definitions, *inliner.lines, flow])
    return "\n".join([*import_block(inliner.names.imports), *lines])


def executed(text: str) -> Any:
    """What a program builds."""
    names: dict[str, Any] = {}
    exec(compile(text, "program", "exec"), names)
    return names["flow"]


def difference(component: Component) -> str:
    """Why the written construction is not that of a component; empty if it is."""
    text = written(component.build)
    if "flowref" in text:
        return "it speaks of flowref"
    builds = (component.build, component.build, lambda: executed(text))
    first, again, second = (seeded(build) for build in builds)
    if type(first) is not type(second):
        return f"it builds a {type(second).__name__}"
    states = [named_state(one) for one in (first, again, second)]
    steady = [name for name, one in states[0].items() if torch.equal(one, states[1][name])]
    missing = torch.zeros(0)
    unequal = [
        name for name in steady if not torch.equal(states[0][name], states[2].get(name, missing))
    ]
    return ", ".join(unequal)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", NAMES)
def test_every_construction_can_be_written_out(library: str) -> None:
    """Run, the lines build an object of the same class with the same parameters and buffers."""
    try:
        components = registry.components(library)
    except TargetError:
        pytest.skip("the library is not installed")
    assert {name: difference(one) for name, one in components.items()} == dict.fromkeys(
        components, ""
    )


def stacked(features: int = 4, depth: int = 2) -> Any:
    """Linear layers, put in a list by a loop."""
    layers: list[Any] = []
    for _ in range(depth):
        layers += [helped(features), torch.nn.Tanh()]
    layers.append(torch.nn.Identity())
    return torch.nn.Sequential(*layers)


def helped(features: int) -> Any:
    """A layer, made by a helper in two steps."""
    half = features // 2
    return torch.nn.Linear(features, half + half)


def chosen(kind: str = "Tanh", wide: bool = False) -> Any:
    """A class by its name, and one of two branches."""
    if wide:
        return torch.nn.Sequential(getattr(torch.nn, kind)(), torch.nn.Linear(8, 8))
    return getattr(torch.nn, kind)()


@pytest.mark.parametrize(
    ("build", "options", "text"),
    [
        (helped, {"features": 6}, "from torch import nn\nflow = nn.Linear(6, 6)"),
        (chosen, {"kind": "Sigmoid"}, "from torch import nn\nflow = nn.Sigmoid()"),
        (
            stacked,
            {"depth": 3},
            "from torch import nn\nlayers = []\nfor _ in range(3):\n"
            "    layers += [nn.Linear(4, 4), nn.Tanh()]\n"
            "layers.append(nn.Identity())\nflow = nn.Sequential(*layers)",
        ),
        (
            chosen,
            {"wide": True},
            "from torch import nn\nflow = nn.Sequential(nn.Tanh(), nn.Linear(8, 8))",
        ),
    ],
)
def test_helpers_are_put_in_place(build: Any, options: dict[str, Any], text: str) -> None:
    """What is known is put in place of its name, branches are taken, loops stay."""
    assert written(build, **options) == text


def test_what_is_not_understood_is_refused() -> None:
    """A builder with a statement that nobody foresaw is no guess."""

    def odd() -> Any:
        with torch.no_grad():
            return torch.nn.Identity()

    with pytest.raises(Unwritable, match="has a With"):
        written(odd)


@pytest.mark.parametrize(
    "line",
    [
        f"flow = build({', '.join(f'name_{i}=Part({i}, [{i}, {i}])' for i in range(12))})",
        f"x = [{', '.join(['0.1234567890123456'] * 20)}]",
        f"wrong_{'x' * 16} = ({' + '.join(['some_long_name'] * 5)}) ** 2",
        f"names_{'x' * 20} = [one for one in {'a' * 20} if one.device != {'b' * 20!r} and one.{'c' * 9}]",
        f"net = build({'a' * 60}, lambda inputs, outputs: Net(inputs, outputs), {'b' * 30})",
    ],
)
def test_long_lines_are_broken_and_mean_the_same(line: str) -> None:
    """Broken at commas, a line is the same program, and no piece is wider than a page."""
    pieces = wrapped_line(line)
    assert ast.dump(ast.parse("\n".join(pieces))) == ast.dump(ast.parse(line))
    assert len(pieces) > 1
    assert max(map(len, pieces)) <= WIDTH


def test_inputs_keep_every_bit() -> None:
    """Signed zeros, subnormal, infinite and undefined inputs read back as they were."""
    values = np.array([[0.1, -0.0, 5e-324, np.inf], [-np.inf, np.nan, 1e300, 2.0**-53 + 1]])
    names: dict[str, Any] = {"torch": torch}
    text = "\n".join(tensor("x", values)).replace("])", "], dtype=torch.float64)")
    exec(text, names)
    assert names["x"].numpy().tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("shape", "place", "lines"),
    [((2, 3), None, 1), ((1, 4, 4, 4), 37, 2), ((40,), None, 1)],
)
def test_sparse_inputs_are_short(shape: tuple[int, ...], place: int | None, lines: int) -> None:
    """Zeros are a call; an array that is zero but for a few entries is those entries."""
    values = np.zeros(shape)
    if place is not None:
        values.reshape(-1)[place] = 0.25
    text = tensor("x", values)
    names: dict[str, Any] = {"torch": torch}
    exec("\n".join(text), names)
    assert len(text) == lines
    assert np.array_equal(names["x"].numpy(), values)
