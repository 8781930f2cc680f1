"""Probes, metrics and the start page: what a person or a machine asks first."""

import html

import orjson
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from catalog_server.bootstrap import Platform
from catalog_server.telemetry import REGISTRY
from table_format.errors import TableFormatError

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Frazil</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}}
code{{background:#eee;padding:.1em .3em}}</style></head><body>
<h1>Frazil</h1>
<p>A self-hosted table-bucket service: an Iceberg REST catalog with built-in table maintenance.</p>
<ul>
<li>Iceberg REST catalog, for engines: <code>{base}/iceberg</code>,
its <a href="/iceberg/openapi.json">OpenAPI document</a></li>
<li>S3 Tables API, for AWS's SDKs: <code>{base}/s3tables</code> as their endpoint,
its <a href="/s3tables/openapi.json">OpenAPI document</a></li>
<li>Management API: <code>{base}/api/v1/buckets</code>, its <a href="/api/openapi.json">OpenAPI document</a></li>
<li>Probes: <a href="/health/live">/health/live</a>, <a href="/health/ready">/health/ready</a>;
metrics: <a href="/metrics">/metrics</a></li>
</ul>
<p>With PyIceberg:</p>
<pre><code>from pyiceberg.catalog import load_catalog
catalog = load_catalog("frazil", type="rest", uri="{base}/iceberg")</code></pre>
</body></html>
"""


def routes(platform: Platform) -> list[Route]:
    """The routes that are of no API."""

    async def live(_: Request) -> Response:
        return _state(200, "live")

    async def ready(_: Request) -> Response:
        try:
            await platform.ready()
        except TableFormatError as error:
            return _state(503, "not ready", error.message)
        return _state(200, "ready")

    async def metrics(_: Request) -> Response:
        await platform.job_figures.refresh()
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    async def start_page(request: Request) -> Response:
        return HTMLResponse(_PAGE.format(base=html.escape(str(request.base_url).rstrip("/"))))

    return [
        Route("/health/live", live, methods=["GET"]),
        Route("/health/ready", ready, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        Route("/", start_page, methods=["GET"]),
    ]


def _state(status: int, state: str, reason: str | None = None) -> Response:
    body = {"status": state} if reason is None else {"status": state, "reason": reason}
    return Response(orjson.dumps(body), status_code=status, media_type="application/json")
