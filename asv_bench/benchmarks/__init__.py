"""The asv suite of flowref: components of Real NVP beside peers, the auditor, scaling, counts and
controls.
"""

import importlib
import importlib.util
import os
import warnings

# A server that forks a process per measurement imports once what every process would import for
# itself, for a second each.
if os.environ.get("FLOWREF_BENCH_PREIMPORT"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _name in (
            "nflows.flows",
            "normflows",
            "zuko",
            "FrEIA.framework",
            "FrEIA.modules",
            "glasflow",
            "torchflows.flows",
        ):
            if importlib.util.find_spec(_name.partition(".")[0]):
                importlib.import_module(_name)
        importlib.import_module("torch._dynamo")  # optimisers import it
