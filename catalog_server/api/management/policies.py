"""Maintenance policies at three scopes, what they come to at each, and who changed them.

A PUT with `If-Match` only replaces the version it names; the ETag of every answer is that version.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Path, Query, Response

from catalog_server.api.management import wire
from catalog_server.api.management.parameters import (
    BucketName,
    By,
    IfVersion,
    InNamespace,
    OnePage,
    OnPlatform,
    TableName,
)
from catalog_server.services.policies import PolicyScope, PolicyView

router = APIRouter(tags=["policies"])

_BUCKET = "/v1/buckets/{bucket}"
_NAMESPACE = _BUCKET + "/namespaces/{namespace}"
_TABLE = _NAMESPACE + "/tables/{table}"
_POLICY = "/policies/{policy_type}"

PolicyType = Annotated[str, Path(description="For example icebergCompaction.")]
OfType = Annotated[
    str | None, Query(alias="policyType", description="Only of this type, for example icebergCompaction.")
]


def _bucket_scope(bucket: BucketName) -> PolicyScope:
    return PolicyScope(bucket=bucket)


def _namespace_scope(bucket: BucketName, namespace: InNamespace) -> PolicyScope:
    return PolicyScope(bucket=bucket, namespace=namespace)


def _table_scope(bucket: BucketName, namespace: InNamespace, table: TableName) -> PolicyScope:
    return PolicyScope(bucket=bucket, namespace=namespace, table=table)


def _serve_effective(path: str, name: str, scope_of: Callable[..., PolicyScope]) -> None:
    """What holds at one scope; served before the policies by type, which would take its path."""

    async def effective_policies(platform: OnPlatform, principal: By, scope: Any) -> wire.EffectivePolicies:
        found = await platform.policies.effective_at(principal, scope)
        return wire.EffectivePolicies(
            policies=[
                wire.EffectivePolicy(
                    type=policy.policy_type,
                    status="enabled" if policy.enabled else "disabled",
                    settings=policy.settings,
                    sources=policy.sources,
                    disabled_reason=policy.disabled_reason,
                    notes=list(policy.notes),
                )
                for policy in found
            ]
        )

    _add_get(
        path,
        effective_policies,
        scope_of,
        name=name,
        summary="The policies that hold here, each value with where it comes from",
    )


def _serve_history(path: str, name: str, scope_of: Callable[..., PolicyScope]) -> None:
    async def policy_history(
        platform: OnPlatform, principal: By, scope: Any, page: OnePage, policy_type: OfType = None
    ) -> wire.PolicyChanges:
        found = await platform.policies.history(principal, scope, policy_type, page)
        return wire.PolicyChanges(
            changes=[
                wire.PolicyChange(
                    id=change.id,
                    type=change.policy_type,
                    before=change.before,
                    after=change.after,
                    by=change.principal,
                    at_ms=change.at_ms,
                )
                for change in found.items
            ],
            next_page_token=found.next_token,
        )

    _add_get(
        path + "/history",
        policy_history,
        scope_of,
        name=f"{name}_policy_history",
        summary=f"Changes of the policies that are set at one {name}, the newest first",
    )


def _add_get(
    path: str, operation: Callable[..., Any], scope_of: Callable[..., PolicyScope], *, name: str, summary: str
) -> None:
    # FastAPI reads the dependency from the annotation, which differs per scope.
    operation.__annotations__["scope"] = Annotated[PolicyScope, Depends(scope_of)]
    router.add_api_route(path, operation, methods=["GET"], name=name, summary=summary)


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

    _add_get(
        path + "/policies",
        list_policies,
        scope_of,
        name=f"list_{name}_policies",
        summary=f"The policies that are set at one {name}",
    )


def _policy(view: PolicyView, scope: str) -> wire.Policy:
    return wire.Policy(
        type=view.policy_type,
        scope=scope,
        status=view.document.get("status"),
        settings=view.document["settings"],
        version=view.version,
        updated_at_ms=view.updated_at_ms,
    )


for _path, _name, _scope in (
    (_BUCKET, "bucket", _bucket_scope),
    (_NAMESPACE, "namespace", _namespace_scope),
    (_TABLE, "table", _table_scope),
):
    _serve_effective(f"{_path}/policies/effective", f"{_name}_effective_policies", _scope)
    _serve_history(f"{_path}/policies", _name, _scope)
    _serve_scope(_path, _name, _scope)
    _serve_list(_path, _name, _scope)
