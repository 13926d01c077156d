"""A profile of Hypothesis for the rule machines: `pytest tests/stateful --hypothesis-profile=dev`.

`ci` is Hypothesis's own: the same examples on every machine. `dev` draws new ones each time and remembers what failed.
A machine switches the health checks off: a rule that does nothing where it does not apply is how these rules are meant
(`tests/stateful/machines.py`).
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("dev", deadline=None)
