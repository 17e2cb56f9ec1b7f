"""The table of promises is complete, docs/options.md has it, and what is not in it is refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from torch import nn

import flowref
from flowref import loading, registry
from flowref.cli import main
from flowref.loading import recipe_of
from flowref.model import PROMISES, Facts, SpecError
from flowref.model.promises import ADAPTERS, canonical, markdown

ROOT = Path(flowref.__file__).parent.parent
LIBRARIES = [
    name
    for name, adapter in registry.adapters().items()
    if adapter.package and registry.installed(name)
]
SPEC = "torch:SigmoidTransform"


def sources(*folders: str) -> Iterator[Path]:
    """The modules of some rooms, but the table itself."""
    for folder in folders:
        paths = (ROOT / "flowref" / folder).rglob("*.py")
        yield from (path for path in paths if path.name != "promises.py")


def asked(path: Path) -> Iterator[str]:
    """The promises that a module asks for by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        holder, key = None, None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            holder, key = node.func.value, node.args[0]
        if isinstance(node, ast.Subscript):
            holder, key = node.value, node.slice
        text = "" if holder is None else ast.unparse(holder)
        if text.endswith(".promises") and isinstance(key, ast.Constant):
            yield str(key.value)
        if isinstance(node, ast.keyword) and node.arg in ("promise", "rebuild"):
            yield from (
                str(value.value) for value in [node.value] if isinstance(value, ast.Constant)
            )


def promising(promises: Any) -> Any:
    """An object of a user's that promises something."""
    module = nn.Module()
    module.promises = promises
    module.event_shape = (2,)  # type: ignore[assignment]  # torch types attributes as tensors or modules
    module.log_prob = lambda x: -x.sum(-1)  # type: ignore[assignment]  # the same
    return module


def test_every_promise_that_is_asked_for_is_in_the_table() -> None:
    """Laws, backends and the judging rooms ask for promises of the table, by their canonical names."""
    names = {name for path in sources("laws", "backends", "checking") for name in asked(path)}
    assert len(names) > 20
    assert names - {"None"} <= set(PROMISES)


def test_nothing_in_the_table_is_dead() -> None:
    """Every promise of the table is spelled out by someone who asks for it, or composes it."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in sources("laws", "adapters", "loading", "model")
    )
    spelled = set(re.findall(r'"([a-z_-]+)"', text))
    dead = [name for name in PROMISES if not {name, name.replace("-", "_")} & spelled]
    assert dead == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_adapters_state_is_in_the_table(library: str) -> None:
    """Every promise of every construction is in the table, and its value is of the promise's kind."""
    for name, component in registry.components(library).items():
        facts = component.facts() if callable(component.facts) else component.facts
        for promise, value in facts.promises.items():
            assert PROMISES[promise].fits(value), (name, promise, value)


@pytest.mark.parametrize("promise", PROMISES.values(), ids=lambda promise: promise.name)
def test_a_promise_is_well_stated(promise: Any) -> None:
    """A promise has a canonical name and a meaning, its example can be typed, and its default is no
    statement.
    """
    assert promise.name == canonical(promise.name) and promise.meaning
    assert not promise.default
    if promise.by == ADAPTERS or promise.kind == "mapping":
        return
    facts = recipe_of(registry.parse_target(f"{SPEC}?promises={promise.typed}")).facts
    assert promise.name in facts.promises


def test_the_documents_have_the_table() -> None:
    """What docs/options.md says of promises is what the table says, and the README leads there."""
    assert "](docs/options.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    text = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"<!-- promises: .*? -->\n(.*?)\n<!-- promises end -->", text, re.DOTALL)
    assert found == markdown()


@pytest.mark.parametrize("name", ["inverse_tolerance", "inverse-tolerance"])
def test_both_spellings_are_one_promise(name: str) -> None:
    """Underscores and dashes name the same promise, in a spec, in an attribute and in facts."""
    expected = {"inverse-tolerance": 1e-3}
    assert Facts((2,), promises={name: 1e-3}).promises == expected
    stated = recipe_of(registry.parse_target(f"{SPEC}?promises={name}=1e-3")).facts.promises
    assert expected.items() <= stated.items()
    own = recipe_of(loading.snapshot(promising({name: 1e-3}))).facts.promises
    assert expected.items() <= own.items() and "inverse_tolerance" not in own


@pytest.mark.parametrize(
    ("promises", "said"),
    [
        ("volume-perserving", "no promise 'volume-perserving' .did you mean volume-preserving"),
        ("inverse_tolerence=1e-3", "did you mean inverse-tolerance"),
        ("fixed", "no promise 'fixed'"),
        ("inverse-tolerance", "expected a number, as in .promises=inverse-tolerance=1e-6"),
        ("inverse-tolerance=small", "was given as 'small'; expected a number"),
        ("vmap=often", "expected true or false"),
        ("ladj=forward", "expected inverse"),
        ("standard-normal-base=later", "expected true or false or initially"),
    ],
)
def test_what_is_no_promise_is_refused(promises: str, said: str) -> None:
    """A name that is not in the table, or not the user's to state, and a value of another kind are a
    sentence, in a spec and in an attribute.
    """
    with pytest.raises(SpecError, match=said):
        recipe_of(registry.parse_target(f"{SPEC}?promises={promises}"))
    name, equals, value = promises.partition("=")
    stated = {name: registry.literal(value) if equals else True}
    with pytest.raises(SpecError, match=said):
        recipe_of(loading.snapshot(promising(stated)))


@pytest.mark.parametrize("value", [None, "vmap", 3, [1, 2], lambda: ()])
def test_an_attribute_for_something_else_is_no_promise(value: Any) -> None:
    """An attribute ``promises`` that holds no names is left alone."""
    facts = recipe_of(loading.snapshot(promising(value))).facts
    assert set(facts.promises) == {"direction"}


def test_others_are_audited_beside_a_misspelt_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt promise exits 2 with one sentence, and the other target is judged."""
    monkeypatch.chdir(tmp_path)
    arguments = ["audit", f"{SPEC}?promises=elementwize", SPEC, "--laws", "map/log-det"]
    done = CliRunner().invoke(main, [*arguments, "--in-process", "--profile", "quick"])
    assert done.exit_code == 2
    assert "did you mean elementwise?" in done.output
    assert f"{SPEC}   preprocessing with inverse   1 check: 1 passed" in done.output
