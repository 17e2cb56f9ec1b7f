"""What continuous flows do for log-densities that are equally exact, as a table in Markdown: `python
asv_bench/tools/continuous.py`.

The tolerance of each, the largest error of its log-densities beside those of the reference at 1e-12, of the
points for which the tolerance was chosen and of a whole batch, in double precision; how often the field is
evaluated, and how often with its divergence; and the operators that a call in single precision dispatches,
which on a GPU are kernels.
"""

from __future__ import annotations

import sys
import warnings

from _running import BENCH

sys.path.insert(0, str(BENCH))


def row(impl: str, size: str) -> str:
    """One implementation."""
    from benchmarks import _cases, _continuous, _counts
    from benchmarks._sizes import VECTORS

    tolerance, _ = _continuous.knob(impl, size, _continuous.ACCURACY)
    errors = []
    for rows in (_continuous.ROWS, VECTORS[size].batch):
        error, field = _continuous.measured(impl, size, tolerance, rows)
        errors.append(error)
    operators = [
        _counts.dispatched(_cases.continuous(impl, op, size, "cpu").call).operators
        for op in ("log_prob", "sample", "training_step")
    ]
    found = [f"{tolerance:.1e}", *(f"{error:.1e}" for error in errors), field.calls, field.derived]
    return f"| {size}: {impl} | " + " | ".join(map(str, [*found, *operators])) + " |"


def main() -> int:
    """Print the table."""
    from benchmarks import _continuous

    warnings.simplefilter("ignore")
    print(
        "| | tolerance | error, nats | of a batch | evaluations | with divergence "
        "| operators: log prob | sample | training step |"
    )
    print("|---|" + "--:|" * 8)
    for size in ("small", "medium"):
        for impl in _continuous.CONTINUOUS:
            print(row(impl, size), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
