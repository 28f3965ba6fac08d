"""The how-to page's FastAPI application with the front door's routes, as it stands there."""

# example:begin
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI

from onceward import AsyncClient
from onceward.http import Caller, NotAuthenticated, routes

USERS = {"Bearer of-anna": "anna", "Bearer of-bert": "bert"}


class Users:
    def caller(self, headers: Mapping[str, str], address: str) -> Caller:
        user = USERS.get(headers.get("authorization", ""))
        if user is None:
            raise NotAuthenticated("no such user")
        return Caller(user)


client = AsyncClient("onceward.toml")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with client:
        yield


app = FastAPI(lifespan=lifespan)
app.router.routes.extend(routes(client, Users()))
# example:end
