"""Ids of laws that were renamed."""

from __future__ import annotations

import importlib

import pytest

from flowref import registry
from flowref.model import Law, SpecError, statement_of

# Each older id that no law has today, with the law.
RENAMED = [(old, registry.find_law(new)) for old, new in registry.former().items()]


@pytest.mark.parametrize(("old", "law"), RENAMED)
def test_an_old_id_means_the_law_and_says_so(old: str, law: Law) -> None:
    """An id of an earlier release selects the law alone, with a sentence that names the new one."""
    assert registry.find_law(old) is law
    assert registry.select_laws((old,)) == (law,)
    (hint,) = registry.renamings([old])
    assert f"{old} is {law.id} now" in hint


def test_no_two_laws_draw_the_same() -> None:
    """Seeds derive from keys, of which every law has one of its own."""
    keys = [law.key for law in registry.laws()]
    assert len(set(keys)) == len(keys)


def test_an_id_selects_its_law_and_a_statement_its_cases() -> None:
    """The law of an id alone; of a name that no law has, and of brackets with globs, all that fit; commas
    between cases part no globs.
    """
    assert [law.id for law in registry.select_laws(("map/log-det",))] == ["map/log-det"]
    (exact,) = registry.select_laws(("map/log-det[ inverse,estimate ]",))
    assert exact.id == "map/log-det[inverse, estimate]"
    history = registry.select_laws(("same/history",))
    assert len(history) > 1 and {statement_of(law.id) for law in history} == {"same/history"}
    cases = {law.id for law in registry.select_laws(("map/log-det[con*]", "map/log-det[train]"))}
    assert cases == {"map/log-det[context]", "map/log-det[train]"}
    assert registry.globs_of("a/b[c, d], e/*,f/g[h,i]") == ["a/b[c, d]", "e/*", "f/g[h,i]"]


def test_every_law_is_a_case_of_a_statement() -> None:
    """The table of statements has a sentence for each law, and none for what no law is a case of."""
    assert {statement_of(law.id) for law in registry.laws()} == set(registry.statements())


def test_a_present_id_needs_no_hint() -> None:
    """Globs over present ids are silent, and a glob that matches neither is refused."""
    assert registry.renamings(["map/*", "same/history[repeat]"]) == []
    with pytest.raises(SpecError, match="no law matches"):
        registry.select_laws(("hygien/*",))


@pytest.mark.parametrize("old", ["flowref.adapters.common.described", "flowref.zoo.seeds.flows"])
def test_a_renamed_module_says_its_new_name(old: str) -> None:
    """A module that pages showed under an older name is refused with the new one; so is what was in it."""
    with pytest.raises(ModuleNotFoundError, match=r"is named .* now$"):
        importlib.import_module(old)


def test_a_misspelt_module_is_not_found_as_usual() -> None:
    """A name that no module ever had gets Python's own sentence."""
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'flowref\.zoos'$"):
        importlib.import_module("flowref.zoos")


def test_a_renamed_function_says_its_new_name() -> None:
    """The helper of adapters that CONTRIBUTING showed under an older name."""
    with pytest.raises(ImportError, match=r"is named class_promises now$"):
        exec("from flowref.adapters.common.promises import promised")
