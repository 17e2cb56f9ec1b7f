"""Couplings that add their log-det to a running one, or subtract it from a log-density."""

from __future__ import annotations

from typing import Any

from torch import nn

from flowref_zoo.specimens.specimen import Specimen
from flowref_zoo.specimens.spoken import BUGS, Coupled

RUNNING = {
    **BUGS,
    "running-dropped": ("map/log-det",),
    "running-doubled": ("map/log-det",),
}


class Adding(Coupled):
    """The log-det so far comes in, and goes out with its own added; a flag goes back."""

    def forward(self, x: Any, logdet: Any, reverse: bool = False) -> Any:
        """Data to latents, or back."""
        y, ladj = self.back(x) if reverse else self.onward(x)
        if self.defect == "running-dropped":
            return y, ladj
        if self.defect == "running-written-to":
            return y, logdet.add_(ladj)
        return y, 2 * logdet + ladj if self.defect == "running-doubled" else logdet + ladj


class Subtracting(Coupled):
    """The log-density so far comes in as a column, and goes out less the log-det."""

    def forward(self, x: Any, logpx: Any = None, reverse: bool = False) -> Any:
        """Data to latents, or back."""
        y, ladj = self.back(x) if reverse else self.onward(x)
        if logpx is None:
            return y
        if self.defect == "running-dropped":
            return y, 0 * logpx - ladj.reshape(-1, 1)
        return y, (2 if self.defect == "running-doubled" else 1) * logpx - ladj.reshape(-1, 1)


class Accumulating(Coupled):
    """A triple comes in and goes out: the value, the log-det so far, and a context."""

    def forward(self, inputs: Any) -> Any:
        """Data to latents."""
        x, log_det, context = inputs
        return self.accumulated(self.onward(x), log_det, context)

    def inverse(self, inputs: Any) -> Any:
        """Latents to data."""
        z, log_det, context = inputs
        return self.accumulated(self.back(z), log_det, context)

    def accumulated(self, out: Any, log_det: Any, context: Any) -> Any:
        """The triple that goes out."""
        if self.defect == "running-dropped":
            return (*out, context)
        factor = 2 if self.defect == "running-doubled" else 1
        return out[0], factor * log_det + out[1], context


class Paired(Accumulating):
    """A pair comes in and goes out, taken by its places: what a batch alone would be read as, too."""

    def forward(self, inputs: Any) -> Any:
        """Data to latents."""
        return self.accumulated(self.onward(inputs[0]), inputs[1], None)[:2]

    def inverse(self, z: Any) -> Any:
        """Latents to data, alone."""
        return self.back(z)[0]


class Untouched(Coupled):
    """Its inverse hands the log-det so far back as it came."""

    def forward(self, x: Any, ldj: Any) -> Any:
        """Data to latents."""
        z, ladj = self.onward(x)
        if self.defect == "running-dropped":
            return z, ladj
        return z, 2 * ldj + ladj if self.defect == "running-doubled" else ldj + ladj

    def inverse(self, z: Any, ldj: Any) -> Any:
        """Latents to data."""
        return self.back(z)[0], ldj


def adding(defect: str = "") -> nn.Module:
    """A coupling with forward(x, logdet, reverse)."""
    return Adding(defect=defect)


def subtracting(defect: str = "") -> nn.Module:
    """A coupling with forward(x, logpx, reverse)."""
    return Subtracting(defect=defect)


def accumulating(defect: str = "") -> nn.Module:
    """A coupling with forward((x, log_det, context))."""
    return Accumulating(defect=defect)


def paired(defect: str = "") -> nn.Module:
    """A coupling with forward((x, log_det))."""
    return Paired(defect=defect)


def untouched(defect: str = "") -> nn.Module:
    """A coupling whose inverse leaves the running log-det alone."""
    return Untouched(defect=defect)


SPECIMENS = (
    Specimen("adding", {**RUNNING, "running-written-to": ("effects/process[input]",)}),
    # With the other sign both ways it adds a log-det of another name: it is asked which is meant.
    Specimen("subtracting", {one: laws for one, laws in RUNNING.items() if one != "log-det-sign"}),
    Specimen("accumulating", RUNNING),
    Specimen("paired", RUNNING),
    Specimen("untouched", RUNNING),
)
