"""How many examples the property tests draw: 100 an API in CI, 2,000 with `pytest --nightly`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("AICORE_SIM_NIGHTLY") == "1"

PROPERTY = settings(
    max_examples=2000 if NIGHTLY else 100, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
"""Decorator of every property test: `@PROPERTY` above `@given(...)`."""
