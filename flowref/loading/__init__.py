"""From a target to a subject, a stage at a time; each module is one stage, and imports only earlier
ones: source, instance, recognition, declared, probing, recipe.
"""

from flowref.backends import single_threaded
from flowref.backends.process import numpy_apart
from flowref.loading.data import Rows, open_rows
from flowref.loading.live_objects import LIVE, renamed
from flowref.loading.load_subject import digest_of, forget, load, snapshot
from flowref.loading.methods import methods_of
from flowref.loading.recipe import Recipe, recipe_of
from flowref.loading.recognition import adapter_of

__all__ = [
    "LIVE",
    "Recipe",
    "Rows",
    "adapter_of",
    "digest_of",
    "forget",
    "load",
    "methods_of",
    "numpy_apart",
    "open_rows",
    "recipe_of",
    "renamed",
    "single_threaded",
    "snapshot",
]
