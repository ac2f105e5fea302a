"""A web application with one client for its lifetime: POST /orders sends the body as a message."""

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gantrymq.client import Client, Message, Producer


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Producer]]:
    async with Client() as client:
        yield {"orders": client.producer("web_desk")}


async def order(request: Request) -> JSONResponse:
    sent = await request.state.orders.send(Message("WebOrders", await request.body()))
    return JSONResponse({"id": sent.message_id, "status": sent.status.name}, 202)


app = Starlette(routes=[Route("/orders", order, methods=["POST"])], lifespan=lifespan)
