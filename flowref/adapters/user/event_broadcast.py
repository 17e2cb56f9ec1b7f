"""Whether a guessed event shape stretches a number of each point over several entries: a coupling of
two features that slices ``x[..., :1]`` runs at four, where its one scale is stretched over three
entries and counted once in the log-det.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flowref.adapters.common.broadcast_detection import stretched_over
from flowref.model import Shape


def told_shapes(obj: Any, names: Sequence[str]) -> Iterator[Shape]:
    """The event shapes that the attributes of an object name."""
    for name in ("event_shape", *names):
        value = getattr(obj, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            yield (value,)
        elif isinstance(value, tuple | list) and all(isinstance(one, int) for one in value):
            yield tuple(value)


def stretches_tensors(call: Any, rows: int) -> bool:
    """Whether a call of torch does so."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[str] = []

    class Watching(TorchDispatchMode):
        """Looks at the shapes of each operation."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Nothing is compiled under it, and the wrapper that keeps the compiler out takes a second to import.
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                given = [tuple(one.shape) for one in args if isinstance(one, torch.Tensor)]
                if stretched_over(given, tuple(out.shape), rows):
                    found.append(str(func))
            return out

    # What it raises is no affair of shapes.
    with contextlib.suppress(Exception), Watching():  # type: ignore[no-untyped-call]  # torch's class is untyped
        call()
    return bool(found)
