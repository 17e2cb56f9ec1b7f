"""The packages that training needs besides those of flowref, and the errors of training."""

from __future__ import annotations

import functools

from flowref.model import FlowrefError
from flowref.model.extras import import_optional


class RunError(FlowrefError):
    """A run that cannot be read, or gone on with."""


# A module of an optional package, imported when it is used.
package = functools.partial(import_optional, extra="training", user="training")
