"""Settings shared by all tests: property tests are small and repeat exactly; HYPOTHESIS_PROFILE=thorough digs deeper."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.nightly import Nightly

settings.register_profile(
    "ci", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="2,000 examples for every property test")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--nightly"):
        os.environ["AICORE_SIM_NIGHTLY"] = "1"  # read on import by tests/properties/profile.py, in workers too
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(Nightly())
