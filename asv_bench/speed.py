"""How long a person waits, in figures: `python asv_bench/speed.py [SPEC ...]`.

Prints the time of `flowref --help`, and for each target the seconds that all laws of the standard profile take after imports,
with the resident memory that the process reached. Figures are for reading; nothing is asserted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

TARGETS = ("torch:SigmoidTransform", "nflows:AffineCouplingTransform", "zuko:NSF", "FrEIA:AllInOneBlock[img]")
TRIES = 5


def help_seconds() -> float:
    """The best of several cold starts of `flowref --help`."""
    times = []
    for _ in range(TRIES):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "flowref", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def target_seconds(spec: str) -> tuple[float, float]:
    """Wall seconds and CPU seconds of all laws on one target, imports left out."""
    from flowref import checking, registry

    target, laws = registry.parse_target(spec), registry.laws()
    checking.check(target, laws[0])  # imports the library
    wall, cpu = time.perf_counter(), time.process_time()
    for law in laws:
        checking.check(target, law)
    return time.perf_counter() - wall, time.process_time() - cpu


def main(specs: list[str]) -> None:
    """Print the figures."""
    print(f"flowref --help: {help_seconds():.2f} s")
    import torch

    torch.set_num_threads(1)
    for spec in specs or list(TARGETS):
        wall, cpu = target_seconds(spec)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{spec}: all laws in {wall:.1f} s ({cpu:.1f} s of CPU), {peak:.0f} MiB resident")


if __name__ == "__main__":
    main(sys.argv[1:])
