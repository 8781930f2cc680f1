"""`World`: a boto3 client on a server, things to ask about, and every answer held against the model."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import requests
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract.s3tables.model import error_faults, success_faults
from tests.process.servers import Server

REGION, ACCOUNT = "us-east-1", "000000000000"
HOME = f"arn:aws:s3tables:{REGION}:{ACCOUNT}:bucket/"
SUCCESS = "success"
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


def boto_client(url: str, **config: Any) -> Any:
    """An S3 Tables client as a user would make it."""
    return boto3.client(
        "s3tables",
        endpoint_url=f"{url}/s3tables",
        region_name=REGION,
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}, **config),
    )


@dataclass
class World:
    """One server and names that nobody used before."""

    server: Server
    client: Any = None
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each operation was answered how, by the exception's name."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The client must not refuse what the server is to refuse.
        self.client = boto_client(self.server.url, parameter_validation=False)
        self.client.meta.events.register("before-parse.s3tables", self._check)

    def _check(self, operation_model: Any, response_dict: Any, **_: Any) -> None:
        status, headers, body = (response_dict[name] for name in ("status_code", "headers", "body"))
        assert headers.get("x-amzn-requestid"), operation_model.name
        if status < 300:
            found = success_faults(operation_model, status, body)
        else:
            found = error_faults(operation_model, status, headers, body)
        assert not found, (operation_model.name, status, found, body)
        self.answers[operation_model.name, headers.get("x-amzn-errortype", SUCCESS)] += 1

    def fresh(self, start: str = "n") -> str:
        """A name that is a bucket's, a namespace's or a table's."""
        return f"{start}{next(self._numbers)}x"

    def new_bucket(self, **options: Any) -> str:
        """A bucket of its own: the ARN."""
        arn: str = self.client.create_table_bucket(name=self.fresh("bucket"), **options)["arn"]
        return arn

    def new_namespace(self, bucket: str | None = None) -> str:
        """A namespace of its own."""
        name = self.fresh("ns")
        self.client.create_namespace(tableBucketARN=bucket or self.bucket, namespace=[name])
        return name

    def new_table(self, namespace: str | None = None, bucket: str | None = None) -> dict[str, str]:
        """A table of its own, made by an Iceberg client: the parameters that name it."""
        arn, levels, name = bucket or self.bucket, namespace or self.new_namespace(bucket), self.fresh("t")
        url = f"{self.server.iceberg}/v1/{arn.removeprefix(HOME)}/namespaces/{levels}/tables"
        answer = requests.post(url, json={"name": name, "schema": SCHEMA}, timeout=60)
        assert answer.status_code == 200, answer.text
        return {"tableBucketARN": arn, "namespace": levels, "name": name}

    @property
    def bucket(self) -> str:
        """The ARN of a bucket that nobody deletes or changes."""
        return str(self._once("bucket", self.new_bucket))

    @property
    def table(self) -> dict[str, str]:
        """The parameters of a table that nobody deletes or changes."""
        found: dict[str, str] = self._once("table", self.new_table)
        return dict(found)

    def _once(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def protect_bucket(self, arn: str) -> None:
        """Let the bucket refuse to be deleted."""
        answer = self.management(
            "PUT",
            f"/buckets/{arn.removeprefix(HOME)}",
            {"properties": {}, "storage": {}, "credentials": None, "protected": True},
        )
        assert answer.status_code == 200, answer.text

    def code(self, operation: str, **parameters: Any) -> str:
        """How the operation is answered: the exception's name, or `SUCCESS`."""
        try:
            ask(self, operation, parameters)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return SUCCESS

    def management(self, method: str, path: str, body: Any = None) -> requests.Response:
        """A request to our own API."""
        return requests.request(method, f"{self.server.api}{path}", json=body, timeout=60)


@dataclass(frozen=True)
class Case:
    """One thing that an operation must do; `outcome` is `SUCCESS` or the exception's name."""

    operation: str
    outcome: str
    what: str
    run: Callable[[World], None]
    text: str = ""
    """What the message must hold."""

    @property
    def id(self) -> str:
        return f"{self.operation}-{self.outcome}-{self.what}"


@dataclass
class Cases:
    """The cases of one module, written as functions."""

    all: list[Case] = field(default_factory=list)

    def success(self, operation: str, what: str = "plain") -> Callable[[Callable[[World], None]], None]:
        """The function asks for it and checks what comes."""
        return lambda run: self.all.append(Case(operation, SUCCESS, what, run))

    def refused(
        self, operation: str, outcome: str, what: str, text: str = ""
    ) -> Callable[[Callable[[World], dict[str, Any]]], None]:
        """The function gives the parameters of a request that is answered with that exception."""
        return lambda make: self.all.append(
            Case(operation, outcome, what, lambda world: ask(world, operation, make(world)), text)
        )


def ask(world: World, operation: str, parameters: dict[str, Any]) -> Any:
    """One request by the name of its operation."""
    method = next(
        name for name, model in world.client.meta.method_to_api_mapping.items() if model == operation
    )
    return getattr(world.client, method)(**parameters)
