"""The how-to page's Flask application with the front door's pages, as it stands there."""

# example:begin
from flask import Flask, request

from onceward.http import Caller, NotAuthenticated, flask_blueprint

USERS = {"Bearer of-anna": "anna", "Bearer of-bert": "bert"}


def caller() -> Caller:
    user = USERS.get(request.headers.get("Authorization", ""))
    if user is None:
        raise NotAuthenticated("no such user")
    return Caller(user)


app = Flask(__name__)
app.register_blueprint(flask_blueprint("onceward.toml", caller))
# example:end
