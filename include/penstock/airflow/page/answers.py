"""Answers with an ETag: a browser that has the same answer gets 304 and no body."""

# FastAPI reads the annotations when the program runs, so they are not postponed here.
import hashlib
from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from fastapi.routing import APIRoute

NOT_CACHED = "no-cache"  # a browser asks each time, and gets 304 if nothing has changed
NOT_STORED = "no-store"  # the contents of a record: no browser keeps them


class TaggedRoute(APIRoute):
    """A route whose answers have an ETag: a browser that has the same answer gets 304 and no body."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Add the tag to the answer of the route."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            response = await handle(request)
            if response.status_code != 200:
                return response
            response.headers["X-Content-Type-Options"] = "nosniff"
            if response.headers.get("cache-control") == NOT_STORED:
                return response
            tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:32]}"'
            headers = {"ETag": tag, "Cache-Control": f"{NOT_CACHED}, private"}
            if request.headers.get("if-none-match") == tag:
                return Response(status_code=304, headers=headers)
            response.headers.update(headers)
            return response

        return answer
