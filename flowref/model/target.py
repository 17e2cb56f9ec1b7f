"""Targets: what is audited, as a value that prints as, and parses from, what a user types."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from flowref.model.errors import SpecError

History = Literal["warm", "fresh", "trained"]
Mode = Literal["eval", "train"]
Direction = Literal["forward", "inverse"]

# Options that name an object's calling conventions where they are ambiguous.
CONVENTIONS = (
    "forward", "inverse", "inverse_ladj", "running", "ladj_list", "ladj_form", "latents", "returns", "log_prob", "sample",
    "columns", "normalizing", "offset", "cells", "batch_axis", "draws", "padded", "beside", "score", "log_det",
    "inverse_log_det",
)  # fmt: skip

OBJECT = "object"
USER = "user"


@dataclass(frozen=True, order=True)
class Target:
    """One thing to audit: ``adapter:component?option=value``.

    For user code the adapter is "user" and is not printed: the component is ``module.path:factory``
    or
    ``path/to/file.py:factory``. For a live object the adapter is "object" and the component
    ``Class#digest``.

    >>> str(Target.parse("zuko:NSF?features=3", {"zuko"}))
    'zuko:NSF?features=3'
    >>> Target.parse("pkg.flows:make?event=4", {"zuko"}).adapter
    'user'
    """

    adapter: str
    component: str
    options: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def parse(cls, spec: str, adapters: set[str]) -> Target:
        """Read a spec. ``adapters`` are the names of adapters, matched without regard to case.

        Raises `SpecError` when the spec has no component or an option has no value.
        """
        head, _, query = spec.strip().partition("?")
        options = []
        for item in filter(None, query.split("&")):
            key, equals, value = item.partition("=")
            options.append((key.strip(), value.strip() if equals else "true"))
            if not key.strip():
                raise SpecError(
                    f"the option {item!r} of {spec!r} has no name; expected ?name=value&name=value"
                )
        prefix, colon, component = (
            head.partition(":") if not head.startswith(("/", ".")) else ("", ":", head)
        )
        names = {name.casefold(): name for name in adapters}
        if colon and component and prefix.casefold() in names:
            return cls(names[prefix.casefold()], component, tuple(sorted(options)))
        module, colon, factory = head.rpartition(":")
        if not colon or not module or not factory:
            raise SpecError(
                f"the target {spec!r} cannot be read; expected library:Component, "
                "package.module:factory "
                "or path/to/file.py:factory"
            )
        return cls(USER, head, tuple(sorted(options)))

    def option(self, name: str) -> str | None:
        """The value of one option, or None."""
        return dict(self.options).get(name)

    def with_options(self, **options: str) -> Target:
        """This target with options added or replaced."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    def without(self, name: str) -> Target:
        """This target without one option."""
        return replace(self, options=tuple(one for one in self.options if one[0] != name))

    @property
    def portable(self) -> str:
        """The target without the folder of its file or the package of its module: seeds depend on this,
        and not on where code lies.

        >>> Target.parse("/home/me/flows.py:make?event=4", set()).portable
        'flows:make?event=4'
        """
        if self.adapter != USER:
            return str(self)
        place, _, name = self.component.rpartition(":")
        path = PurePath(place)
        module = path.stem if path.suffix in (".py", ".ipynb") else place.rpartition(".")[2]
        return str(replace(self, component=f"{module}:{name}"))

    def __str__(self) -> str:
        head = self.component if self.adapter == USER else f"{self.adapter}:{self.component}"
        query = "&".join(f"{key}={value}" for key, value in self.options)
        return f"{head}?{query}" if query else head


@dataclass(frozen=True)
class Condition:
    """The circumstances under which a target is loaded.

    ``scale``: standard deviation of the noise added to each trainable parameter; 0 keeps the weights as
        given;
    ``history``: "warm" (two train-mode batches, none with weights from a file; then eval), "fresh" (as
        built, in eval mode) or "trained" (warm, then some 30 steps of Adam on its own log-likelihood, then
        eval);
    ``mode``: the mode of its calls after that, each on its own copy;
    ``direction``: "inverse" if forward and inverse are exchanged (see `inverse_subject`);
    ``grad``: whether calls record gradients;
    ``contextual``: whether an optional context is passed; ``one_context``: whether all calls get the same
        one;
    ``resized``: whether events have another size than usual;
    ``part``: index path of a sub-component, for locating a violation;
    ``weights``: digest of the weights file, empty if none;
    ``device``: name of the device that laws of devices use, empty for a simulated one;
    ``data``: whether it is measured at a user's data, which count as inside the domain.
    """

    dtype: str = "float64"
    seed: int = 0
    scale: float = 0.0
    history: History = "warm"
    part: tuple[int, ...] = ()
    weights: str = ""
    data: bool = False
    mode: Mode = "eval"
    direction: Direction = "forward"
    grad: bool = True
    contextual: bool = False
    one_context: bool = False
    resized: bool = False
    device: str = ""
