"""What there is, by name: laws, mutants, specimens and libraries; and what a spec means."""

from flowref.registry.catalogue import (
    adapters,
    components,
    find_component,
    find_law,
    find_mutant,
    importable,
    installed,
    laws,
    library_version,
    mutants,
    problems,
    promises,
    published,
    renamings,
    select_laws,
    specimens,
)
from flowref.registry.specs import (
    RESERVED,
    WEIGHTS,
    builder_options,
    expand,
    literal,
    parse_target,
    run_of,
)

__all__ = [
    "RESERVED", "WEIGHTS", "adapters", "builder_options", "components", "expand", "find_component", "find_law",
    "find_mutant", "importable", "installed", "laws", "library_version", "literal", "mutants", "parse_target", "problems",
    "promises", "published", "renamings", "run_of", "select_laws", "specimens",
]  # fmt: skip
