"""What code calls the things that it returns: where a statement ``return log_p, logdet, z`` names each of
them, their order is no guess.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from flowref.adapters.user.conventions.names import LOG_DETS, plain
from flowref.adapters.user.conventions.readings import is_tensor

# A log-density of latents under the base.
PRIORS = re.compile(r"(log)?prior(log)?(probs?|p)?|log(p|prob)z")
# What else is returned beside a value and its log-det: log-densities, likelihoods and losses.
LIKELIHOODS = re.compile(r"(sum|total)?logp\w*|loglik\w*")
DENSITIES = re.compile(r"(sum|total)?logp\w*|n?ll\w{0,3}|loglik\w*|bpd|bits\w*|loss\w*")


def named_by_return(obj: Any, method: str, out: Any, rows: int, entries: int) -> str:
    """What ?returns= would say of what a method returned for ``rows`` events of so many entries, by the
    names in its return statements; empty where they do not tell one value and one log-det apart from
    all else, or where the value comes first in a pair, as everybody returns it.
    """
    if not isinstance(out, tuple) or len(out) < 2:
        return ""
    if len(out) == 2 and _entries(out[0]) == rows * entries:
        return ""
    names = _names(obj, method, out)
    if not names:
        return ""
    said = [_role(name, part, rows, entries) for name, part in zip(names, out, strict=True)]
    alone = (said.count("z"), said.count("ladj")) == (1, 1) and said.count("log_prior") <= 1
    return ",".join(said) if alone and "" not in said else ""


def unjudged_by_return(obj: Any, method: str, out: Any, rows: int, told: str) -> str:
    """What to say of a log-density that comes beside a value and its log-det and has no part in what
    ``told`` reads: whether it is one of latents or of data its name does not tell. Empty where there is
    none.
    """
    roles = told.split(",")
    if not told or {"log_prior", "log_prob"} & set(roles):
        return ""
    for index, (name, part) in enumerate(zip(_names(obj, method, out), out, strict=True)):
        if roles[index] == "_" and LIKELIHOODS.fullmatch(plain(name)) and _entries(part) == rows:
            prior, data = (
                ",".join([*roles[:index], role, *roles[index + 1 :]])
                for role in ("log_prior", "log_prob")
            )
            return (
                f"{name} is returned and not judged: say ?returns={prior} if it is the log-density of latents, "
                f"?returns={data} if it is that of the data"
            )
    return ""


def _names(obj: Any, method: str, out: Any) -> tuple[str, ...]:
    """What a return statement calls each of the things that came back; nothing where several differ."""
    told = {names for names in _returned(obj, method) if len(names) == len(out)}
    return told.pop() if len(told) == 1 else ()


def _role(name: str, part: Any, rows: int, entries: int) -> str:
    """What a returned thing is by its name and its size; empty where these do not tell."""
    size = _entries(part)
    if size == rows * entries and size != rows:
        return "z"
    if size not in (rows, 1):
        return ""
    if plain(name) in LOG_DETS:
        return "ladj"
    if PRIORS.fullmatch(plain(name)):
        return "log_prior"
    return "_" if DENSITIES.fullmatch(plain(name)) else ""


def _entries(part: Any) -> int:
    """The entries of a tensor or of a list of them; -1 of all else."""
    if isinstance(part, tuple | list):
        return sum(map(_entries, part)) if part and all(map(is_tensor, part)) else -1
    return math.prod(part.shape) if is_tensor(part) else -1


def _returned(obj: Any, method: str) -> Iterator[tuple[str, ...]]:
    """The names in each return statement of a method that returns several things by name."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(getattr(type(obj), method))))
    except (AttributeError, OSError, TypeError, SyntaxError):  # it has no code that can be read
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield tuple(getattr(one, "id", getattr(one, "attr", "")) for one in node.value.elts)
