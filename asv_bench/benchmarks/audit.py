"""The auditor: seconds per target, per law, to the first violation, and before it starts. Processor
time, imports left out.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from asv_runner.benchmarks.mark import SkipNotImplemented

from ._grid import installed
from ._jax_cases import one_thread as one_jax_thread
from ._timing import one_thread

TARGETS = (
    "torch:SigmoidTransform",
    "nflows:AffineCouplingTransform",
    "zuko:NSF",
    "FrEIA:AllInOneBlock[img]",
)
JAX_TARGETS = ("flowjax:Affine", "flowjax:coupling_flow", "numpyro:InverseAutoregressiveTransform")
# One of each kind: values, derivatives, noise, modes, hygiene; each with what earlier commits call it.
FORMER = {
    "map/inverse[latents]": ("bijection/forward-roundtrip",),
    "map/inverse": ("bijection/inverse-roundtrip",),
    "map/log-det": ("bijection/log-det",),
    "map/one-to-one": ("bijection/injective",),
    "composition/algebra[inverse]": ("composition/inverse-reverses",),
    "same/rows": ("mode/rows-independent",),
    "dtype/accurate": ("conduct/float32-agrees", "hygiene/float32-agrees"),
    "effects/process[input]": ("conduct/input-not-mutated", "hygiene/input-not-mutated"),
}
LAWS = tuple(FORMER)
MUTANTS = (
    "map/inverse#inverse-scaled",
    "map/log-det#log-det-sign",
    "effects/process[input]#writes-its-input",
)
PROFILE = "quick"


def names_of(law_or_mutant: str) -> tuple[str, ...]:
    """An id of a law, or of a mutant of one, and what earlier commits call it."""
    law, sign, mutant = law_or_mutant.partition("#")
    return tuple(f"{name}{sign}{mutant}" for name in (law, *FORMER[law]))


def present(spec: str) -> bool:
    """Whether the library of a target is installed."""
    return installed(spec.partition(":")[0])


def prepared(spec: str) -> tuple[Any, Any]:
    """A target whose library is imported, and the settings."""
    from flowref import checking, model, registry

    if installed("torch"):
        one_thread()
    target = registry.parse_target(spec)
    settings = checking.Settings(profile=PROFILE)
    try:
        registry.find_component(target)
    except model.SpecError as error:
        raise SkipNotImplemented(f"this commit does not know {spec}") from error
    checking.pair_verdict(target, registry.laws()[0], settings)
    return target, settings


def audited(spec: str, law_ids: tuple[str, ...] = ()) -> float:
    """Processor seconds of these laws, or of all, on one target."""
    from flowref import checking, registry

    target, settings = prepared(spec)
    wanted = {name for law_id in law_ids for name in names_of(law_id)}
    chosen = [law for law in registry.laws() if not law_ids or law.id in wanted]
    if not chosen:
        raise SkipNotImplemented(f"this commit has no law {', '.join(law_ids)}")
    began = time.process_time()
    for law in chosen:
        checking.pair_verdict(target, law, settings)
    return time.process_time() - began


class Target:
    """All laws on one target."""

    version = "1"
    unit = "s"
    params = (list(TARGETS),)
    param_names = ("target",)
    skip_params = tuple((spec,) for spec in TARGETS if not present(spec))

    def track_seconds(self, target: str) -> float:
        """Of processor time."""
        return audited(target)


class JaxTarget:
    """All laws on one target in JAX: in a process that compiled nothing yet, and again."""

    version = "1"
    unit = "s"
    params = (list(JAX_TARGETS),)
    param_names = ("target",)
    skip_params = tuple((spec,) for spec in JAX_TARGETS if not present(spec))

    def track_seconds(self, target: str) -> float:
        """Of processor time, tracing and compiling included."""
        one_jax_thread()
        return audited(target)

    def track_again_seconds(self, target: str) -> float:
        """Of processor time, with the programs of the first time."""
        one_jax_thread()
        audited(target)
        return audited(target)


class Law:
    """One law on one target."""

    version = "1"
    unit = "s"
    params = (list(LAWS),)
    param_names = ("law",)
    skip_params = tuple((law,) for law in LAWS if not present("nflows"))

    def track_seconds(self, law: str) -> float:
        """Of processor time, on an affine coupling of nflows."""
        return audited("nflows:AffineCouplingTransform", (law,))


class FirstViolation:
    """A damaged target."""

    version = "1"
    unit = "s"
    params = (list(MUTANTS),)
    param_names = ("mutant",)
    skip_params = tuple((mutant,) for mutant in MUTANTS if not present("nflows"))

    def track_seconds(self, mutant: str) -> float:
        """Of processor time from the first law, in the order of an audit, to the first violation,
        confirmed and simplified.
        """
        from flowref import checking, registry

        known = {known.id: known for known in registry.mutants()}
        name = next((name for name in names_of(mutant) if name in known), None)
        if name is None:
            raise SkipNotImplemented(f"this commit has no mutant {mutant}")
        host = known[name].host
        prepared(host)
        target = registry.parse_target(host).with_options(mutant=name)
        settings = checking.Settings(profile=PROFILE)
        began = time.process_time()
        for law in registry.laws():
            if checking.pair_verdict(target, law, settings).status.name == "VIOLATED":
                return time.process_time() - began
        raise AssertionError(f"no law is violated by {mutant}")


def track_help_seconds() -> float:
    """Wall seconds of `flowref --help` from a cold start, the best of several."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "flowref", "--help"], check=True, capture_output=True)
        taken.append(time.perf_counter() - began)
    return min(taken)


vars(track_help_seconds).update(version="1", unit="s")  # asv reads them off the function
