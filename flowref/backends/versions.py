"""Versions of the frameworks that flowref works with, found without importing them."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Iterable

from flowref.model.extras import installation

# The oldest version that works and the newest that was tested, by the name of the backend, which is
# also that of its distribution and of our extra.
OLDEST = {"torch": "2.6", "jax": "0.7.2"}
NEWEST = {"torch": "2.14", "jax": "0.10"}


def too_old(name: str) -> str:
    """Returns a sentence if the installed framework is too old, otherwise ""."""
    version = _version(name)
    if not version or _version_numbers(version) >= _version_numbers(OLDEST[name]):
        return ""
    return (
        f"{name} {version} is installed, and flowref needs {name}>={OLDEST[name]}; "
        f"`{installation(name)}` upgrades it"
    )


def untested(names: Iterable[str] = tuple(OLDEST)) -> list[str]:
    """Returns a sentence for each installed framework, of ``names``, whose version was not
    tested.
    """
    found = {name: _version(name) for name in names}
    return [
        f"{name} {version} is not among the versions that flowref was tested with "
        f"({OLDEST[name]} to {NEWEST[name]}); a rounding error may be judged too strictly or too mildly"
        for name, version in found.items()
        if version
        and (too_old(name) or _version_numbers(version)[:2] > _version_numbers(NEWEST[name])[:2])
    ]


@functools.cache
def _version(name: str) -> str:
    """The version of an installed distribution, or ""."""
    if name not in OLDEST:
        return ""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _version_numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in found.groups()) if found else (0, 0, 0)
