"""What went wrong, as a value: stable codes, one record of an error, and translations that never raise.

`codes` is generated from `spec/errors.toml`. A copier or a tier makes a `Failure` at the boundary (`translate` for a
driver's raw code, `from_exception` for an exception); the ledger adds what only it knows and keeps a `KVError`; an
embedder who wants to raise wraps that in a `KVException`. Standard library only, and nothing here imports torch:
exceptions of other packages are known by the names of their classes. `registry` and `generate` read the data and are
not imported here.

A broken invariant is not an error of this kind: it is `Fatal`, and it is loud.
"""

from kvstate.errors.codes import Code, Properties
from kvstate.errors.kverror import KVError, KVException, code_of, may_retry, properties_of
from kvstate.errors.outcome import outcome_of
from kvstate.errors.translate import from_exception, translate

__all__ = [
    "Code",
    "KVError",
    "KVException",
    "Properties",
    "code_of",
    "from_exception",
    "may_retry",
    "outcome_of",
    "properties_of",
    "translate",
]
