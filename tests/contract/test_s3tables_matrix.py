"""Every operation of the S3 Tables model, asked with boto3: what succeeds, each documented error, each limit.

All answers are held against the model (`World`). An operation or a documented error without a case fails the tests
at the end, so that a newer model is noticed.
"""

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from catalog_server.api.s3tables.router import OPERATIONS as ROUTED
from tests.contract.s3tables import (
    cases_buckets,
    cases_maintenance,
    cases_namespaces,
    cases_not_offered,
    cases_settings,
    cases_table_maintenance,
    cases_tables,
    cases_tags,
)
from tests.contract.s3tables.model import MODEL, OPERATIONS
from tests.contract.s3tables.world import SUCCESS, Case, World
from tests.process.servers import serving

pytestmark = pytest.mark.process

CASES: list[Case] = [
    case
    for module in (
        cases_buckets,
        cases_maintenance,
        cases_namespaces,
        cases_not_offered,
        cases_settings,
        cases_table_maintenance,
        cases_tables,
        cases_tags,
    )
    for case in module.CASES.all
]
# What this server never answers, whatever is asked.
NEVER = {
    "TooManyRequestsException": "nobody is throttled",
    "AccessDeniedException": "nobody is told apart",
    "InternalServerErrorException": "the server's own faults; see test_s3tables_door",
}
# Only what is protected is forbidden.
FORBIDDEN = {"DeleteTableBucket", "DeleteTable"}
# Only what is made, moved or removed can be in the way of something.
CONFLICTS = {
    "CreateTableBucket",
    "DeleteTableBucket",
    "CreateNamespace",
    "DeleteNamespace",
    "CreateTable",
    "DeleteTable",
    "RenameTable",
    "UpdateTableMetadataLocation",
}
# Nothing that they name can be missing, or all that can be wrong is that.
NOT_MISSING = {"CreateTableBucket", "ListTableBuckets"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving(tmp_path_factory.mktemp("s3tables")) as server:
        yield World(server)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(world: World, case: Case) -> None:
    before = world.answers[case.operation, case.outcome]
    if case.outcome == SUCCESS:
        case.run(world)
    else:
        with pytest.raises(ClientError) as caught:
            case.run(world)
        assert caught.value.operation_name == case.operation
        assert caught.value.response["Error"]["Code"] == case.outcome, caught.value
        assert case.text in caught.value.response["Error"]["Message"]
    assert world.answers[case.operation, case.outcome] > before, (
        "the operation was not asked, or not answered so"
    )


def test_the_model_is_the_one_that_the_matrix_was_made_for() -> None:
    assert len(OPERATIONS) == 58


def test_every_operation_of_the_model_is_routed() -> None:
    assert {operation.name for operation in ROUTED} == set(OPERATIONS)


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_has_its_cases(operation: str) -> None:
    claimed = {case.outcome for case in CASES if case.operation == operation}
    if operation in cases_not_offered.NOT_OFFERED:
        assert claimed
        assert SUCCESS not in claimed
        return
    wanted = {SUCCESS} | {shape.name for shape in MODEL.operation_model(operation).error_shapes} - set(NEVER)
    if operation not in FORBIDDEN:
        wanted.discard("ForbiddenException")
    if operation not in CONFLICTS:
        wanted.discard("ConflictException")
    if operation in NOT_MISSING:
        wanted.discard("NotFoundException")
    assert wanted <= claimed, f"no case for {sorted(wanted - claimed)}"


def test_no_two_cases_are_the_same() -> None:
    assert len({case.id for case in CASES}) == len(CASES)
