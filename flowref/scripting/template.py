"""Templates: a law measured with a framework, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """Lines of a program that end with ``off``, the residual of the law, or with ``wrong``.

    They use ``flow``, the points ``x``, ``(batch, *event)``, and the calls ``forward(x) -> (y,
    log-det)``, ``inverse``, ``log_prob``, ``sample`` and so on; ``build()`` if they need the object
    more than once. Placeholders are written ``$name`` (see `filling` of each framework).

    ``whole``: the recorded batch is measured; else its points one by one. ``when``: a pattern that
    the reason of the verdict must contain. ``which``: the call, if it is always the same; ``size``:
    of the events, 0 for any. ``within``: largest ratio between ``off`` and the recorded residual.
    """

    text: str
    whole: bool = False
    within: float = 10.0
    when: str = ""
    which: str = ""
    size: int = 0

    @property
    def lines(self) -> list[str]:
        """The lines."""
        return self.text.strip("\n").splitlines()
