"""How the management API logs what it could not do."""

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs

from catalog_server.api.management import problems
from table_format.errors import Internal, Unavailable

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_database_that_is_away_is_logged_in_one_line_and_a_fault_of_ours_with_its_traceback() -> None:
    app = FastAPI()
    problems.install(app)

    @app.get("/away")
    async def away() -> None:
        raise Unavailable("the database is away") from OSError("refused")

    @app.get("/broken")
    async def broken() -> None:
        raise Internal("odd")

    with capture_logs() as logs:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://frazil") as http:
            answers = [await http.get(path) for path in ("/away", "/broken")]
    assert [answer.status_code for answer in answers] == [503, 500]
    first, second = (line for line in logs if line["event"] == "request_failed")
    assert (first["error"], first["cause"]) == ("the database is away", "OSError('refused')")
    assert "exc_info" not in first
    assert isinstance(second["exc_info"], Internal)
