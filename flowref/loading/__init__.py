"""From a target to a subject, a stage at a time; a module imports only earlier ones.

| stage | module | from | to | |---|---|---|---| | text | `user_code`, `source` | what is typed | how it is
built | | object | `instance`, `estimators` | | the object, built once, and fitted where it has to be | |
kind | `recognition`, `declared_options` | its class, attributes, options | what it offers, and what is
declared of it | | shapes | `shapes` | calls of a copy | an `Inquiry`: event and context | | calls | `calls`
| | a `Draft`: how it is called and read | | facts | `experiments` | tables of rows, run in order | the
draft with domain, solver, estimate, ... | | subject | `call_probes`, `recipe`, `load_subject` | a round
trip | what laws measure |

`user_objects` takes a user's object from kind to facts, `kernels` a layer declared as stochastic.
"""

from flowref.backends import single_threaded
from flowref.backends.process import numpy_apart
from flowref.loading.data import Rows, open_rows
from flowref.loading.estimators import fitting_to
from flowref.loading.live_objects import LIVE, alias_live_target
from flowref.loading.load_subject import forget, load, snapshot, weights_digest
from flowref.loading.methods import entered_methods
from flowref.loading.recipe import Recipe, recipe_of
from flowref.loading.recognition import adapter_of

__all__ = [
    "LIVE",
    "Recipe",
    "Rows",
    "adapter_of",
    "alias_live_target",
    "entered_methods",
    "fitting_to",
    "forget",
    "load",
    "numpy_apart",
    "open_rows",
    "recipe_of",
    "single_threaded",
    "snapshot",
    "weights_digest",
]
