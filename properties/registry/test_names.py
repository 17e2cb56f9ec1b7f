"""Ids of laws that were renamed."""

from __future__ import annotations

import pytest

from flowref import registry
from flowref.model import Law, SpecError

RENAMED = [law for law in registry.laws() if law.former]


@pytest.mark.parametrize("law", RENAMED, ids=lambda law: law.former)
def test_an_old_id_means_the_law_and_says_so(law: Law) -> None:
    """The id of the last release selects the law, alone or in a glob, with a sentence that names
    the new one.
    """
    assert registry.find_law(law.former) is law
    assert registry.select_laws((law.former,)) == (law,)
    (hint,) = registry.renamings([law.former])
    assert f"{law.former} is {law.id} now" in hint


def test_a_present_id_needs_no_hint() -> None:
    """Globs over present ids are silent, and a glob that matches neither is refused."""
    assert registry.renamings(["bijection/*", "conduct/deterministic"]) == []
    with pytest.raises(SpecError, match="no law matches"):
        registry.select_laws(("hygien/*",))
