"""What an object declares in `__flow__` is read as options of its spec, and never believed against calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import jsonschema
import pytest
import torch
from torch import nn
from torch.distributions import Normal, constraints

from declaration import written
from flowref import loading, registry
from flowref.loading.declaration import declaration_of, stated_as
from flowref.loading.recipe import recipe_of
from flowref.model import FlowrefError, SpecError
from flowref.model.declaration import FLOW, KEYS, OF_A_RUN, Key, schema
from flowref.registry.file_flows import full_listing

ROOT = Path(__file__).parents[2]
zuko: Any = pytest.importorskip("zuko")
ENTRIES = {"version": 1, "forward": "ahead", "inverse": "behind", "event": (3,)}
FILE = """
import torch
from torch import nn


class Affine(nn.Module):
    __flow__ = {entries}
    {more}

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.1, -0.2, 0.3]))
        self.base = torch.distributions.Normal(torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))

    def ahead(self, x):
        return x * self.log_scale.exp(), self.log_scale.sum().expand(len(x))

    def behind(self, z):
        return z * (-self.log_scale).exp(), -self.log_scale.sum().expand(len(z))

    def density(self, x):
        z, ladj = self.ahead(x)
        return self.base.log_prob(z).sum(-1) + ladj


def make():
    return Affine()
"""


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """The recipe of a class of a file with such a declaration."""
    monkeypatch.chdir(tmp_path)

    def recipe(options: str = "", more: str = "", name: str = "Affine", **entries: Any) -> Any:
        text = FILE.format(entries={**ENTRIES, **entries}, more=more.replace("\n", "\n    "))
        Path("flows.py").write_text(text, encoding="utf-8")
        loading.forget()
        return recipe_of(registry.parse_target(f"flows.py:{name}{options}"))

    yield recipe
    loading.forget()


def test_every_option_is_a_key_or_belongs_to_a_run() -> None:
    """The keys are the options: one table, but for what no object states of itself."""
    keys = {key.option or name for name, key in KEYS.items()}
    assert keys.isdisjoint(OF_A_RUN)
    assert keys | set(OF_A_RUN) == set(registry.OURS)


def test_the_page_and_the_schema_have_the_table() -> None:
    """What docs/guides say of the keys is what the table says."""
    page = (ROOT / "docs/guides/declaration.md").read_text(encoding="utf-8")
    assert written(page) == page
    assert (ROOT / "docs/guides/flow.schema.json").read_text(encoding="utf-8") == schema()


@pytest.mark.parametrize("name", KEYS)
def test_the_example_of_a_key_is_read(name: str) -> None:
    """The example is a value of the key, and the schema has it."""
    key, owner = KEYS[name], SimpleNamespace(__flow__={"version": 1, name: KEYS[name].example})
    ((option, text),) = declaration_of(owner, None, "it").items()
    assert option == (key.option or name)
    assert stated_as(option, text).partition(" ")[0] == name
    assert json.loads(schema())["properties"][name]["examples"] == [
        json.loads(json.dumps(key.example))
    ]


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_the_laws_that_check_a_key_exist(key: Key) -> None:
    """Those that its row names are laws, or begin the names of some."""
    for name in re.findall(r"`([a-z-]+/[a-z.-]+)`", key.check):
        assert any(law.startswith(name.removesuffix("...")) for law in registry.statements()), name


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_the_schema_takes_the_example_and_no_mistake(key: Key) -> None:
    """What is read is valid in JSON, and what is of no type is not."""
    for value, valid in ((key.example, True), (None, True), ({"no": {}}, False)):
        stated = json.loads(json.dumps({"version": 1, key.name: value}))
        assert jsonschema.Draft202012Validator(json.loads(schema())).is_valid(stated) is valid


SETS = [
    ("domain", constraints.unit_interval, "unit"),
    ("domain", [(0, 1), (0.1234567, 2), "real"], "(0.0,1.0),(0.1234567,2.0),real"),
    ("codomain", (-1, 1), "(-1.0,1.0)"),
    ("event", 3, "3"),
    ("event", (), "()"),
    ("event", torch.Size([2, 4]), "2,4"),
    ("context", "labels", "labels"),
    ("promises", ("vmap", "constant_jacobian"), "vmap=True,constant-jacobian=True"),
    ("promises", {"inverse_tolerance": 1e-6}, "inverse-tolerance=1e-06"),
    ("context", None, None),
]


@pytest.mark.parametrize(("key", "value", "text"), SETS)
def test_values_are_options_without_loss(key: str, value: Any, text: str | None) -> None:
    """A typed value is the text of its option, with all digits; None states nothing."""
    owner = SimpleNamespace(__flow__={"version": 1, key: value})
    assert declaration_of(owner, None, "it").get(key) == text


REFUSED = [
    ({"version": 1, "evnt": 3}, "'evnt' is no key of version 1 .did you mean event"),
    ({"version": 1, "weights": "run.pt"}, "'weights' is an option of a run"),
    ({"version": 2}, "says version 2; this flowref reads version 1"),
    ({"version": True}, "says version True"),
    ({"event": 3}, "says no version"),
    ("version 1", "is 'version 1'; expected a dictionary"),
    ({"version": 1, "event": "three"}, "'event' is 'three'; expected a size"),
    ({"version": 1, "event": (0,)}, "expected a size"),
    ({"version": 1, "forward": 3}, "'forward' is 3; expected a text"),
    ({"version": 1, "direction": "up"}, "expected 'data->latent' or 'latent->data'"),
    ({"version": 1, "domain": "reel"}, "a support was given as 'reel'"),
    ({"version": 1, "promises": ("vmpa",)}, "no promise 'vmpa' .did you mean vmap"),
    ({"version": 1, "promises": {"momentum": "often"}}, "momentum was given as 'often'"),
]


@pytest.mark.parametrize(("stated", "said"), REFUSED)
def test_what_is_no_declaration_is_refused_in_a_sentence(stated: Any, said: str) -> None:
    """An unknown key, version or type is named, with what is expected."""
    with pytest.raises(SpecError, match=said) as raised:
        declaration_of(SimpleNamespace(__flow__=stated), None, "it")
    assert str(raised.value).startswith(f"it: {FLOW} of SimpleNamespace")
    assert "\n" not in str(raised.value)


def test_what_answers_to_every_name_declares_nothing() -> None:
    """An attribute that nobody wrote is no declaration."""
    assert declaration_of(MagicMock(), None, "it") == {}


def test_calls_are_found_by_their_declared_names(read: Callable[..., Any]) -> None:
    """Names that no convention knows are read as declared, and the reader is told."""
    recipe = read()
    assert recipe.recognized.kind == "bijection with inverse" and recipe.facts.event_shape == (3,)
    assert "forward ahead, inverse behind, event 3" in recipe.recognized.why[0]


def test_what_is_typed_counts_before_the_declaration(read: Callable[..., Any]) -> None:
    """An option wins, and the report says so."""
    recipe = read("?event=2,3")
    assert recipe.facts.event_shape == (2, 3)
    assert recipe.recognized.conflicts == ("?event=2,3 stands, though its __flow__ says 3",)


def test_promises_add_up(read: Callable[..., Any]) -> None:
    """Those that are typed stand beside those that are declared."""
    promises = read("?promises=vmap", promises=("constant-jacobian",)).facts.promises
    assert promises["vmap"] and promises["constant-jacobian"]


def test_what_a_factory_declares_counts_before_its_object() -> None:
    """Of a factory and its object, the factory has the last word on each key."""

    def make() -> None: ...

    make.__flow__ = {"version": 1, "event": 4}  # type: ignore[attr-defined]  # a function has any
    obj = SimpleNamespace(__flow__={"version": 1, "event": 3, "forward": "go"})
    assert declaration_of(obj, make, "it") == {"event": "4", "forward": "go"}


CALLED = {"version": 1, "forward": "call_and_ladj", "inverse": "inv", "event": (3,)}


def test_an_object_of_a_library_is_read_as_it_declares() -> None:
    """A declaration of calls comes before what is known of a library."""

    class Own(zuko.transforms.SoftclipTransform):  # type: ignore[misc]  # it is Any
        __flow__ = CALLED

    recipe = recipe_of(loading.snapshot(Own()))
    assert recipe.adapter.name == "user" and recipe.facts.event_shape == (3,)


def test_a_library_that_declares_itself_is_read_by_its_adapter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is known of its classes is more than a declaration says."""
    kind = zuko.transforms.SoftclipTransform
    monkeypatch.setattr(kind, FLOW, CALLED, raising=False)
    assert recipe_of(loading.snapshot(kind())).adapter.name == "zuko"


def test_a_library_that_declares_what_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its declaration is held to its calls all the same."""
    kind = zuko.transforms.SoftclipTransform
    monkeypatch.setattr(kind, FLOW, {**CALLED, "forward": "call_and_ldaj"}, raising=False)
    with pytest.raises(FlowrefError, match="did you mean call_and_ladj"):
        recipe_of(loading.snapshot(kind()))


CONTRADICTED = [
    ({"event": (4,)}, r"says event 4, and calls raise RuntimeError: .*\(4\).*write 'event': \(3,\)"),
    ({"forward": "ahed"}, r"forward was given as 'ahed', .*did you mean ahead"),
    ({"latent": 2}, r"says latent 2, and forward returns values of shape \(3,\)"),
    ({"context": 2}, r"says context 2, and calls raise TypeError"),
    ({"log_prob": "behind"}, r"says log_prob behind, and it returns a tuple, and no log-density"),
    (
        {"log_prob": "density", "direction": "latent->data"},
        r"says direction latent->data, and its log-density is that of its base through forward",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "said"), CONTRADICTED, ids=lambda one: str(one)[:30])
def test_a_declaration_that_calls_contradict_is_refused(
    read: Callable[..., Any], entries: dict[str, Any], said: str
) -> None:
    """It is one sentence: what was declared, what was seen, and what to write."""
    with pytest.raises(FlowrefError) as raised:
        read(**entries)
    text = str(raised.value)
    assert text.startswith("flows.py:Affine: its __flow__ says") and "\n" not in text
    assert re.search(said, text)


def test_the_right_direction_is_taken(read: Callable[..., Any]) -> None:
    """The direction that calls confirm is no contradiction."""
    assert read(log_prob="density", direction="data->latent").dialect.normalizing == "forward"


def test_an_attribute_that_says_otherwise_is_refused(read: Callable[..., Any]) -> None:
    """The object contradicts itself: one of both is to go."""
    with pytest.raises(SpecError, match=r"__flow__, event=3 contradicts the object, which says 4"):
        read(more="event_shape = (4,)")


def test_a_base_class_is_not_contradicted(read: Callable[..., Any]) -> None:
    """Calls that raise NotImplementedError are those of others."""
    with pytest.raises(FlowrefError) as raised:
        read(more="def ahead_of(self, x):\n    raise NotImplementedError", forward="ahead_of")
    assert FLOW not in str(raised.value)


def test_classes_that_declare_themselves_are_listed(read: Callable[..., Any]) -> None:
    """Whatever their methods are called."""
    read()
    assert [str(one) for one in full_listing("flows.py").targets] == ["flows.py:Affine"]


class Plain(nn.Module):
    """A flow with usual names and no declaration."""

    base = Normal(torch.zeros(3), torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        """The identity."""
        return x + 0, torch.zeros(len(x), dtype=x.dtype)


def test_nothing_changes_without_a_declaration() -> None:
    """An object without one has no options but those of its spec."""
    source = recipe_of(loading.snapshot(Plain())).source
    assert source.declared == {} and source.options == dict(source.target.options)


def test_a_latent_that_is_typed_is_checked_too(read: Callable[..., Any]) -> None:
    """An option that calls contradict is refused as a declaration is."""
    with pytest.raises(FlowrefError, match=r"latent was given as 2, and forward returns values"):
        read("?latent=2")
