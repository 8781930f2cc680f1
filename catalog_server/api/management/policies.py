"""Maintenance policies at three scopes, and what they come to for one table.

A PUT with `If-Match` only replaces the version it names; the ETag of every answer is that version.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Response

from catalog_server.api.management import wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    IfVersion,
    InNamespace,
    OnPlatform,
    TableName,
)
from catalog_server.services.policies import PolicyScope, PolicyView
from table_format.ident import TableIdent

router = APIRouter(tags=["policies"])

_BUCKET = "/v1/buckets/{bucket}"
_NAMESPACE = _BUCKET + "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_POLICY = "/policies/{policy_type}"

PolicyType = Annotated[str, Path(description="For example icebergCompaction.")]


def _bucket_scope(bucket: BucketName) -> PolicyScope:
    return PolicyScope(bucket=bucket)


def _namespace_scope(bucket: BucketName, namespace: InNamespace) -> PolicyScope:
    return PolicyScope(bucket=bucket, namespace=namespace)


def _table_scope(bucket: BucketName, namespace: InNamespace, table: TableName) -> PolicyScope:
    return PolicyScope(bucket=bucket, namespace=namespace, table=table)


@router.get(_TABLE + "/policies")
async def effective_policies(
    platform: OnPlatform, principal: By, bucket: BucketName, namespace: InNamespace, table: TableName
) -> wire.EffectivePolicies:
    """The policies that hold for a table, each value with the scope that it comes from."""
    found = await platform.policies.effective(principal, bucket, TableIdent(namespace, table))
    return wire.EffectivePolicies(
        policies=[
            wire.EffectivePolicy(
                type=policy.policy_type,
                status="enabled" if policy.enabled else "disabled",
                settings=policy.settings,
                sources=policy.sources,
            )
            for policy in found
        ]
    )


def _serve_scope(path: str, name: str, scope_of: Callable[..., PolicyScope]) -> None:
    """The same three operations at one scope."""
    scope_type = Annotated[PolicyScope, Depends(scope_of)]

    async def get_policy(
        platform: OnPlatform, principal: By, scope: Any, policy_type: PolicyType, response: Response
    ) -> wire.Policy:
        view = await platform.policies.get(principal, scope, policy_type)
        response.headers["ETag"] = f'"{view.version}"'
        return _policy(view, name)

    async def put_policy(
        platform: OnPlatform,
        principal: By,
        scope: Any,
        policy_type: PolicyType,
        document: Annotated[wire.PolicyDocument, Body()],
        if_version: IfVersion,
        response: Response,
    ) -> wire.Policy:
        view = await platform.policies.put(
            principal,
            scope,
            policy_type,
            {"status": document.status, "settings": document.settings},
            if_version=if_version,
        )
        response.headers["ETag"] = f'"{view.version}"'
        return _policy(view, name)

    async def delete_policy(
        platform: OnPlatform, principal: By, scope: Any, policy_type: PolicyType, if_version: IfVersion
    ) -> None:
        await platform.policies.delete(principal, scope, policy_type, if_version=if_version)

    operations: tuple[tuple[str, Callable[..., Awaitable[Any]], int], ...] = (
        ("GET", get_policy, 200),
        ("PUT", put_policy, 200),
        ("DELETE", delete_policy, 204),
    )
    for method, operation, status in operations:
        # FastAPI reads the dependency from the annotation, which differs per scope.
        operation.__annotations__["scope"] = scope_type
        verb = method.lower()
        router.add_api_route(
            path + _POLICY,
            operation,
            methods=[method],
            status_code=status,
            name=f"{verb}_{name}_policy",
            summary=f"{verb.capitalize()} the policy that is set at one {name}",
        )


def _serve_list(path: str, name: str, scope_of: Callable[..., PolicyScope]) -> None:
    async def list_policies(platform: OnPlatform, principal: By, scope: Any) -> wire.Policies:
        views = await platform.policies.list(principal, scope)
        return wire.Policies(policies=[_policy(view, name) for view in views])

    list_policies.__annotations__["scope"] = Annotated[PolicyScope, Depends(scope_of)]
    router.add_api_route(
        path + "/policies",
        list_policies,
        methods=["GET"],
        name=f"list_{name}_policies",
        summary=f"The policies that are set at one {name}",
    )


def _policy(view: PolicyView, scope: str) -> wire.Policy:
    return wire.Policy(
        type=view.policy_type,
        scope=scope,
        status=view.document["status"],
        settings=view.document["settings"],
        version=view.version,
        updated_at_ms=view.updated_at_ms,
    )


_serve_scope(_BUCKET, "bucket", _bucket_scope)
_serve_scope(_NAMESPACE, "namespace", _namespace_scope)
_serve_scope(_TABLE, "table", _table_scope)
_serve_list(_BUCKET, "bucket", _bucket_scope)
_serve_list(_NAMESPACE, "namespace", _namespace_scope)
