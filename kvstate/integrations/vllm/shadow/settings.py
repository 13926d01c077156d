"""What the observer is told: `kvstate_shadow` in `kv_connector_extra_config`, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from kvstate.integrations.vllm.settings import ConnectorConfigError, _checked, _meant

PLACE: Final = "kvstate_shadow"
"""The key in `kv_connector_extra_config`; the stock connector passes over it."""


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """The settings of the observer, all of them with a default. Errors: `ConnectorConfigError`."""

    record: str = ""
    """The folder for records and reports; where it is empty, none are written."""
    records: int = 8
    """So many records are written in one process, at most."""
    ring_events: int = 5000
    """So many rows and inputs are kept for a record."""
    deadline_seconds: float = 60.0
    """A job that has not ended in so long has no end."""
    tape_events: int = 1024
    """So much may wait for the thread; what comes beyond that is dropped and counted."""
    every_seconds: float = 0.05
    """So often the thread looks at the tape."""
    allow_untested: bool = False
    """Observe a version of vLLM that was not tested, too, and warn."""

    @classmethod
    def of(cls, extra: Mapping[str, Any] | None) -> ShadowSettings:
        """The settings in the connector's whole extra configuration, which has them under `PLACE`."""
        given = (extra or {}).get(PLACE, {})
        if not isinstance(given, Mapping):
            raise ConnectorConfigError(
                f"kv_connector_extra_config.{PLACE}: {given!r} is no mapping; give an object with settings, or nothing"
            )
        known = {field.name: field for field in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            where = f"{PLACE}.{name}"
            if name not in known:
                meant = _meant(name, list(known))
                raise ConnectorConfigError(f"kv_connector_extra_config.{where}: there is no such setting{meant}")
            values[name] = _checked(where, value, type(known[name].default))
        settings = cls(**values)
        for name in ("ring_events", "tape_events", "every_seconds", "deadline_seconds"):
            if not getattr(settings, name):
                raise ConnectorConfigError(f"kv_connector_extra_config.{PLACE}.{name}: 0 is too few; give more than 0")
        return settings
