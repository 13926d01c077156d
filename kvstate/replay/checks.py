"""What is asked of a single setting of a replay. Errors: `ConfigError` from each, for a value that makes no sense."""

from __future__ import annotations

import math


class ConfigError(ValueError):
    """A setting that makes no sense: one sentence with the `option`, the value and the remedy."""

    def __init__(self, option: str, sentence: str) -> None:
        super().__init__(f"{option} {sentence}")
        self.option = option


def whole(option: str, value: object, least: int, most: int) -> None:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(option, f"is {value!r}; give a whole number.")
    if not least <= value <= most:
        raise ConfigError(option, f"is {value}; give a number from {least} to {most}.")


def number(option: str, value: object, least: float, most: float) -> None:
    """A number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise ConfigError(option, f"is {value!r}; give a number.")
    if not least <= value <= most:
        raise ConfigError(option, f"is {value:g}; give a number from {least:g} to {most:g}.")


def share(option: str, value: object) -> None:
    """A share of a whole."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ConfigError(option, f"is {value!r}; give a share from 0 to 1, such as 0.05 or 5%.")


def choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """One of these words."""
    if value not in choices:
        raise ConfigError(option, f"is {value!r}; give one of {', '.join(choices)}.")
