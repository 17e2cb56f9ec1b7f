"""Which versions of the frameworks flowref works with, without importing one."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Iterable

from flowref.model.extras import installation

# The oldest version that can be used, by the name of the backend, which is that of its distribution
# and of our extra, and the newest that was tested.
OLDEST = {"torch": "2.6", "jax": "0.7.2"}
NEWEST = {"torch": "2.14", "jax": "0.10"}


def too_old(name: str) -> str:
    """A sentence about an installed framework that is too old; empty otherwise."""
    version = _version(name)
    if not version or _version_numbers(version) >= _version_numbers(OLDEST[name]):
        return ""
    return (
        f"{name} {version} is installed, and flowref needs {name}>={OLDEST[name]}; "
        f"`{installation(name)}` upgrades it"
    )


def untested(names: Iterable[str] = tuple(OLDEST)) -> list[str]:
    """A sentence for each framework of these of which a version is installed that flowref was not tested
    with.
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
    """The version of an installed distribution; empty where there is none."""
    if name not in OLDEST:
        return ""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _version_numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release, of major, minor and patch version."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in found.groups()) if found else (0, 0, 0)
