"""Options of the programs here when pytest runs them, in the manner of pyasc's own kernel tests."""

import pytest
from asc.runtime import config


def pytest_addoption(parser):
    parser.addoption("--backend", default=config.Backend.Model)
    parser.addoption("--platform", default=config.Platform.Ascend910B1)


@pytest.fixture
def backend(request):
    return request.config.getoption("--backend")


@pytest.fixture
def platform(request):
    return config.Platform(request.config.getoption("--platform"))
