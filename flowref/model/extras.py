"""Optional packages, and the extra that installs each, named in errors."""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

from flowref.model.errors import FlowrefError

# Modules whose distribution has another name.
DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "Pillow"}


def installation(extra: str) -> str:
    """The command that installs an extra.

    An installed flowref satisfies ``flowref[extra]`` itself, wherever it came from (an index, a wheel,
    a checkout), so that only the packages of the extra are looked up. Where flowref runs from a source
    tree without being installed, the command names that tree.
    """
    try:
        importlib.metadata.distribution("flowref")
    except importlib.metadata.PackageNotFoundError:
        return f"pip install '{Path(__file__).resolve().parents[2]}[{extra}]'"
    return f"pip install 'flowref[{extra}]'"


def missing(package: str, extra: str, user: str = "") -> str:
    """A sentence: who needs a missing package, and the command that installs it."""
    needs = f"{user} needs {package}, which" if user else package
    return f"{needs} is not installed; `{installation(extra)}` installs it"


def import_optional(
    module: str, extra: str, user: str = "", error: type[FlowrefError] = FlowrefError
) -> Any:
    """A module of an optional package. Raises ``error`` with an installation command if the package is
    missing; other import errors pass.
    """
    top = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as reason:
        if (reason.name or "").partition(".")[0] != top:
            raise
        raise error(missing(DISTRIBUTIONS.get(top, top), extra, user)) from None
