"""Templates: how a law is measured in the words of a framework, in a few lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """Lines of a program that end with ``off``, how far the law is from holding, or with ``wrong``.

    They speak of ``flow``, of the points ``x``, ``(batch, *event)``, and of the calls ``forward(x)
    -> (y, log-det)``, ``inverse``, ``log_prob``, ``sample`` and so on; of ``build()`` where they
    need the object more than once. What depends on the case is written ``$name`` (see
    `torch.writing.parts`).

    ``whole``: the batch is measured as it was recorded; else its points one by one.
    ``when``: what the reason of the verdict must contain, a pattern, for the template to be tried.
    ``which``: the call that it is about, where it is always the same; ``size``: that of the events
    that it is for, 0 for any.
    ``within``: how many times larger or smaller than the recorded residual ``off`` may be.
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
