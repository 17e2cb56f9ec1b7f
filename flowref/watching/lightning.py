"""The watch as a callback of Lightning, which is not imported; its other hooks do nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flowref.watching import watch
from flowref.watching.modules import Watch as ModuleWatch


class Watch:
    """A callback: ``Trainer(callbacks=[Watch("flow")])`` watches the attribute ``flow`` of the
    Lightning module, by default the module itself. The other arguments are those of
    `flowref.watch`.
    """

    state_key = "flowref.watch"

    def __init__(
        self,
        model: str = "",
        every: int = 100,
        rows: int = 4,
        report: Callable[[str], Any] = print,
        folder: str | Path = ".flowref/watch",
    ) -> None:
        self.model, self.every, self.rows = model, every, rows
        self.report, self.folder = report, folder
        self.watch: ModuleWatch | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Start the watch."""
        for name in filter(None, self.model.split(".")):
            module = getattr(module, name)
        self.watch = watch(module, self.every, self.rows, self.report, self.folder)
        self.watch.__enter__()

    def on_train_end(self, trainer: Any, module: Any) -> None:
        """End the watch."""
        if self.watch is not None:
            self.watch.__exit__(None, None, None)
            self.watch = None

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """End the watch of a training run that failed."""
        self.on_train_end(trainer, module)

    def state_dict(self) -> dict[str, Any]:
        """Checkpoints hold no state of the watch."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Checkpoints hold no state of the watch."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in ("setup", "teardown"):
            return _nothing
        raise AttributeError(name)


def _nothing(*_: Any, **__: Any) -> None:
    return None
