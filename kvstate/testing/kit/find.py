"""From `module:Class` to the class of an adapter, or a sentence that says what is wrong with it."""

from __future__ import annotations

import difflib
import importlib
import inspect

from kvstate.testing.adapter import FAULTS, Adapter
from kvstate.testing.kit.laws import AdapterError

OWN = "kvstate.testing.own:KVStateEngine"
"""The adapter of kvstate's own ledger."""


def find_adapter(name: str) -> type[Adapter]:
    """The adapter's class. Raises `AdapterError`."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise AdapterError(f"{name!r} names no adapter; write it module:Class, such as my.engine:MyAdapter")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise AdapterError(
                f"there is no module {error.name}; run it where the module can be imported, or set PYTHONPATH"
            ) from None
        raise AdapterError(f"{module_name} can't be imported: it needs {error.name}, which is not installed") from None
    except Exception as error:
        raise AdapterError(f"{module_name} can't be imported: {type(error).__name__}: {error}") from error
    found: object = module
    for part in attribute.split("."):
        try:
            there = hasattr(found, part)
        except ImportError as error:  # a module that gets its names when they are asked for
            raise AdapterError(str(error)) from None
        if not there:
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AdapterError(f"there is no {part} in {module_name}{hint}")
        found = getattr(found, part)
    if not (inspect.isclass(found) and issubclass(found, Adapter)):
        raise AdapterError(f"{name} is no adapter; it has to be a subclass of kvstate.testing.Adapter")
    lacking = sorted(getattr(found, "__abstractmethods__", ()))
    if lacking:
        raise AdapterError(
            f"{name} lacks {', '.join(lacking)}; what each has to answer stands in kvstate.testing.adapter"
        )
    unknown = sorted(set(found.faults) - set(FAULTS))
    if unknown:
        raise AdapterError(f"{name} declares the fault {unknown[0]!r}; there are {', '.join(FAULTS)}")
    return found
