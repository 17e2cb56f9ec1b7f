"""Whether a returned log-det is that of the returned value's Jacobian."""

from __future__ import annotations

from typing import Any

# Maximal entries for a Jacobian, number of points, and the tolerance.
FEW, ROWS, NEAR = 64, 3, 1e-4


def volume_log_det_gaps(obj: Any, call: Any, x: Any, context: Any) -> list[float]:
    """Returned log-det minus that of the Jacobian, at a few vectors; empty if the Jacobian cannot be
    computed.
    """
    import torch

    if len(x.shape) != 2 or x.shape[-1] > FEW:
        return []
    found = []
    for row in range(min(ROWS, len(x))):
        given = None if context is None else context[row : row + 1]
        try:
            jacobian = torch.autograd.functional.jacobian(
                lambda point, given=given: call(obj, point[None], given)[0][0], x[row]
            )
            ladj = call(obj, x[row : row + 1], given)[1]
            found.append(float((ladj.reshape(-1)[0] - torch.linalg.slogdet(jacobian)[1]).detach()))
        except Exception:  # exceptions are reported by laws
            return []
    return found


def agrees(obj: Any, call: Any, x: Any, context: Any = None) -> bool:
    """Whether a log-det is that of the Jacobian, at a few points."""
    apart = volume_log_det_gaps(obj, call, x, context)
    return bool(apart) and all(abs(gap) <= NEAR for gap in apart)
