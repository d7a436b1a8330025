import pytest

from harness import BIN, Server, model_path


def pytest_collection_modifyitems(items):
    if not (BIN / "tercet").exists():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"{BIN}/tercet is not built"))
    elif not model_path("smollm2").exists():
        for item in items:
            if item.get_closest_marker("no_model") is None:
                item.add_marker(pytest.mark.skip(reason=f"{model_path('smollm2')} is missing; fetch it with: tercet pull smollm2"))


def pytest_configure(config):
    config.addinivalue_line("markers", "no_model: runs without a model file")


@pytest.fixture(scope="session")
def server():
    """One server that all tests share which do no harm to it."""
    with Server() as running:
        yield running


@pytest.fixture
def client(server):
    return server.openai


@pytest.fixture
def own_server():
    """Makes servers that one test has for itself: own_server(flags=[…], env={…})."""
    started = []

    def start(*args, **kwargs):
        started.append(Server(*args, **kwargs))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop()
