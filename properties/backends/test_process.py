"""What foreign code does to the process is undone, whatever framework it is written in."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flowref import backends
from flowref.backends.process import process_settings, quarantine, random_state

DEEDS: dict[str, Callable[[], Any]] = {
    "working directory": lambda: os.chdir("/"),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
    "numpy error state": lambda: np.seterr(divide="raise"),
    "numpy's random state": lambda: np.random.rand(3),
    "random's state": random.random,
    "warnings": lambda: warnings.simplefilter("error"),
}


def state() -> Any:
    """All that is to be as it was."""
    return process_settings(), random_state(), list(warnings.filters)


@pytest.mark.parametrize("deed", DEEDS.values(), ids=list(DEEDS))
@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
def test_the_process_is_as_it_was(deed: Callable[[], Any], raises: bool) -> None:
    """Settings, random states and filters are put back, also where the code raises; each deed shows
    while it lasts.
    """
    before = state()
    try:
        with quarantine(0):
            inside = state()
            deed()
            assert state() != inside
            if raises:
                raise KeyError
    except KeyError:
        assert raises
    assert state() == before


def test_what_is_printed_is_kept_off_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Both streams of Python go to what the sandbox yields."""
    with quarantine(0) as printed:
        print("noise")
        print("more", file=sys.stderr)
    assert printed.getvalue() == "noise\nmore\n"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("enter", [quarantine, backends.sandbox, backends.find("torch").sandbox])
def test_the_random_states_are_those_of_the_seed(enter: Any) -> None:
    """The same seed gives the same numbers of every generator, and another one others."""
    draws = []
    for seed in (1, 1, 2):
        with enter(seed):
            draws.append((np.random.rand(), random.random()))
    assert draws[0] == draws[1] != draws[2]
