"""The application behind the page: its routes, their users, and the answers to errors."""

# FastAPI reads the annotations when the program runs, so they are not postponed here.
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse

from penstock.airflow.page.answers import TaggedRoute
from penstock.airflow.page.documents import Mistake
from penstock.airflow.page.routes import router as panels
from penstock.errors import PenstockError, WrongUseError

JAVASCRIPT = "text/javascript"


def make_app() -> FastAPI:
    """Make the application. Every route needs a user, also one that somebody adds without thinking of it."""
    app = FastAPI(
        title="Penstock",
        description="The figures of the page. All routes only read; actions are runs of DAGs.",
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(get_user)],
    )
    assets = APIRouter(route_class=TaggedRoute)
    assets.add_api_route("/bundle.js", read_bundle, response_class=Response, include_in_schema=False)
    assets.add_api_route("/ui/{file}", read_module, response_class=Response, include_in_schema=False)
    app.include_router(assets)
    api = APIRouter(route_class=TaggedRoute)
    api.include_router(panels, prefix="/api")
    api.add_api_route("/openapi.json", _describe_with(app), include_in_schema=False)
    app.include_router(api)
    app.add_exception_handler(PenstockError, answer_error)  # type: ignore[arg-type]
    return app


def read_bundle(_: GetUserDep) -> Response:
    """The module that Airflow loads. The modules of the page lie in one folder, and import one another from there."""
    return Response('import "./ui/main.js";\n', media_type=JAVASCRIPT)


def read_module(_: GetUserDep, file: str) -> Response:
    """One module of the page."""
    return _read_asset(file)


def _read_asset(name: str) -> Response:
    folder = files("penstock.airflow.page").joinpath("ui")
    if name not in {file.name for file in folder.iterdir() if file.name.endswith(".js")}:
        raise HTTPException(404, f"the page has no module {name[:100]!r}")
    return Response(folder.joinpath(name).read_bytes(), media_type=JAVASCRIPT)


def _describe_with(app: FastAPI) -> Callable[[], dict[str, Any]]:
    def describe() -> dict[str, Any]:
        return app.openapi()

    return describe


async def answer_error(_: Request, error: PenstockError) -> JSONResponse:
    """Answer an error with its text and its next step; neither holds a secret or a value of a row."""
    status = 400 if isinstance(error, WrongUseError) else 503
    return JSONResponse(Mistake(error=error.what, next_step=error.next_step).model_dump(), status)
