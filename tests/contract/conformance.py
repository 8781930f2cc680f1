"""`Contract`: what one document says of recorded exchanges, in words that name the place."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

import jsonschema_rs

from tests.contract.recording import Exchange
from tests.contract.upstream import Document, parameters, resolve

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FORM = "application/x-www-form-urlencoded"


@dataclass
class Contract:
    """One document, and the statuses that it lacks and that we answer all the same."""

    document: Document
    also: Collection[str] = ()

    def __post_init__(self) -> None:
        self._validators: dict[int, Any] = {}

    @cached_property
    def _paths(self) -> list[tuple[re.Pattern[str], str]]:
        return [
            (re.compile(re.sub(r"\\{[^}]+\\}", "[^/]+", re.escape(path))), path)
            for path in self.document["paths"]
        ]

    def operation(self, exchange: Exchange) -> tuple[str, str] | None:
        """The path and verb that an exchange belongs to; None for none."""
        for pattern, path in self._paths:
            if pattern.fullmatch(exchange.path) and exchange.method.lower() in self.document["paths"][path]:
                return path, exchange.method.lower()
        return None

    def faults(self, exchange: Exchange) -> list[str]:
        """Everything in which the exchange is not as the document says."""
        found = self.operation(exchange)
        if found is None:
            return [] if exchange.status in {404, 405} else [f"{exchange}: no such operation"]
        path, verb = found
        faults = self._of_answer(exchange, self.document["paths"][path][verb])
        if exchange.status < 400:
            faults += self._of_parameters(exchange, path, verb)
            faults += self._of_request(exchange, self.document["paths"][path][verb].get("requestBody"))
        return [f"{exchange}: {fault}" for fault in faults]

    def _of_answer(self, exchange: Exchange, operation: dict[str, Any]) -> list[str]:
        status, answers = str(exchange.status), operation["responses"]
        if status not in answers:
            if status in self.also:
                return self._of_body(
                    {"$ref": "#/components/schemas/IcebergErrorResponse"}, exchange.answered()
                )
            return [f"status {status} is not declared"]
        content = resolve(self.document, answers[status]).get("content")
        if exchange.method == "HEAD" or not content:
            return [f"a body where none is declared: {exchange.answer[:80]!r}"] if exchange.answer else []
        kind = exchange.headers.get("content-type")
        if kind not in content:
            return [f"content type {kind} is not declared"]
        return self._of_body(content[kind]["schema"], exchange.answered())

    def _of_parameters(self, exchange: Exchange, path: str, verb: str) -> list[str]:
        sent = {name for name, _ in parse_qsl(exchange.query, keep_blank_values=True)}
        declared = {name for place, name in parameters(self.document, path, verb) if place == "query"}
        return [f"query parameter {name} is not declared" for name in sorted(sent - declared)]

    def _of_request(self, exchange: Exchange, declared: dict[str, Any] | None) -> list[str]:
        if declared is None:
            return [f"a body where none is declared: {exchange.request[:80]!r}"] if exchange.request else []
        content = resolve(self.document, declared)["content"]
        if _FORM in content:
            form = dict(parse_qsl(exchange.request.decode(), keep_blank_values=True))
            return self._of_body(content[_FORM]["schema"], form)
        return self._of_body(content["application/json"]["schema"], exchange.sent())

    def _of_body(self, schema: dict[str, Any], body: Any) -> list[str]:
        validator = self._validators.get(id(schema))
        if validator is None:
            rooted = {"$schema": _DIALECT, "components": self.document["components"], **schema}
            validator = self._validators[id(schema)] = jsonschema_rs.Draft202012Validator(rooted)
        return [_told(error) for error in validator.iter_errors(body)]


def _told(error: Any) -> str:
    return f"at {'/'.join(map(str, error.instance_path)) or 'the top'}: {error.message[:300]}"
