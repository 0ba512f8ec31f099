"""Which requests are let in: middleware that checks keys, names of this server, and pages of
browsers.

Starlette's own middleware for hosts and origins is not used. It answers in plain text and before a
key is checked, and it tells a page that is not allowed so. test_access.py has the answers that
clients get here.
"""

import hmac
from collections.abc import Collection
from hashlib import sha256

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mini_vllm.errors import shown
from mini_vllm.serving.openai.protocol import ApiError
from mini_vllm.serving.options import ServerOptions

PUBLIC_PATHS = frozenset({"/", "/health"})  # that need no key; with tenants only the latter
# that no tenant may see
OPERATOR_PATHS = frozenset({"/", "/engine/steps", "/get_load", "/metrics"})


class Guard:
    """Lets a request through if its key, the server's name in it and its page are right.

    The name of the tenant that asks is in scope["tenant"] then. The operator is the tenant without
    a name. scope["turn"]: of the tenant; where there are none, of the key if there are
    several, and else of the client's address.
    """

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app = app
        self._options = options
        self._keys = [("", sha256(key.encode()).hexdigest()) for key in options.api_keys]
        self._keys += options.tenants.items()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]  # not request.url, which a Host header can bend
        # a proxy before this server may see the end of the body elsewhere (RFC 9112, 6.3)
        if {b"content-length", b"transfer-encoding"} <= dict(scope["headers"]).keys():
            raise ApiError(
                400,
                "a body has either Content-Length or Transfer-Encoding",
                headers={"Connection": "close"},
            )
        if path not in PUBLIC_PATHS or (self._options.tenants and path != "/health"):
            headers = Headers(scope=scope)
            scope["tenant"], key = self._tenant_of(scope)
            client = key if len(self._keys) > 1 else (scope.get("client") or [""])[0]
            scope["turn"] = scope["tenant"] if self._options.tenants else f"/{client}"
            self._check_host(headers.get("host", ""))
            if scope["method"] == "POST":
                self._check_origin(headers)
            # which a pattern of a route does not see: it would be another name of the path
            if path.endswith("\n"):
                raise HTTPException(404)
        await self._app(scope, receive, send)

    def _tenant_of(self, scope: Scope) -> tuple[str, str]:
        """The tenant that asks, and the sha256 of its key."""
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        digest = sha256(given.lstrip(b" ")).hexdigest()
        fits = [name for name, key in self._keys if hmac.compare_digest(key, digest)]
        if self._keys and not (fits and scheme.lower() == b"bearer"):
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(
                401, "the API key is wrong or missing", code="invalid_api_key", headers=headers
            )
        tenant = fits[0] if fits else ""
        if tenant and scope["path"] in OPERATOR_PATHS:
            raise ApiError(
                403, f"{scope['path']} shows what other tenants do: it needs an operator's key"
            )
        return tenant, digest

    def _check_host(self, host: str) -> None:
        host = host.lower()
        name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if (names := self._options.allowed_hosts) and name not in names:
            raise ApiError(
                403, f"the host {shown(host)} is none of this server's: {', '.join(names)}"
            )

    def _check_origin(self, headers: Headers) -> None:
        """What a browser sends for a page of another host without asking first is no JSON, and is
        not answered.
        """
        origin, kind = headers.get("origin"), headers.get("content-type", "")
        own = [f"{scheme}://{headers.get('host', '')}" for scheme in ("http", "https")]
        is_foreign = origin not in (None, *own, *self._options.allowed_origins)
        if is_foreign and kind.partition(";")[0].strip().lower() != "application/json":
            raise ApiError(
                403, f"a page of {shown(origin)} may not call this server: see --allowed-origin"
            )


class AllowedOrigins:
    """Tells browsers that pages of these origins may call and read.

    Other pages are told nothing.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None or origin not in self._origins:
            await self._app(scope, receive, send)
            return
        seen = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Expose-Headers": "*",
            "Vary": "Origin",
        }

        async def send_to_page(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(seen)
            await send(message)

        app = self._app
        # a browser asks whether the page may call; it has no key yet
        if scope["method"] == "OPTIONS":
            asked = headers.get("access-control-request-headers", "authorization, content-type")
            allowed = {"Methods": "GET, POST", "Headers": asked, "Max-Age": "600"}
            app = Response(
                status_code=204,
                headers={f"Access-Control-Allow-{k}": v for k, v in allowed.items()},
            )
        await app(scope, receive, send_to_page)
