"""The optional packages of training, and its errors."""

from __future__ import annotations

import functools

from flowref.model import FlowrefError
from flowref.model.extras import import_optional


class RunError(FlowrefError):
    """A run that cannot be read or resumed."""


# Imports a module of an optional package.
package = functools.partial(import_optional, extra="training", user="training")
