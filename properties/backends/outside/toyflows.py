"""A flow library of numpy arrays, as somebody else might write it: it knows nothing of flowref."""

from __future__ import annotations

from typing import Any


class Affine:
    """x -> a x + b, entry by entry."""

    def __init__(self, scale: list[float], shift: list[float], *, wrong: bool = False) -> None:
        import numpy as np

        self.scale, self.shift, self.wrong = np.array(scale), np.array(shift), wrong

    def push(self, x: Any) -> tuple[Any, Any]:
        """The image of each row, and its log-det; without its last entry if ``wrong``."""
        import numpy as np

        terms = np.log(np.abs(self.scale))
        ladj = terms[:-1].sum() if self.wrong else terms.sum()
        return x * self.scale + self.shift, np.full(len(x), ladj)

    def pull(self, y: Any) -> tuple[Any, Any]:
        """The other way round."""
        import numpy as np

        ladj = -np.log(np.abs(self.scale)).sum()
        return (y - self.shift) / self.scale, np.full(len(y), ladj)
