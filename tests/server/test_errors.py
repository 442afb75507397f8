"""What an error says to do."""

import pytest

from netgain.errors import EngineDeadError
from netgain.server.errors import as_api_error


@pytest.mark.parametrize(
    "reason", ["the engine ended (signal 9)", "the engine is still loading; try again shortly"]
)
def test_a_client_whose_engine_ended_is_told_once_to_try_again(reason: str) -> None:
    error = as_api_error(EngineDeadError(reason))
    assert error.status == 503
    assert str(error).startswith(reason)
    assert str(error).count("try again") == 1
