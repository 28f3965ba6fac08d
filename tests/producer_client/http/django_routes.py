"""The how-to page's `urls.py` of Django with the front door's pages, as it stands there."""

# example:begin
from django.http import HttpRequest
from django.urls import include, path

from onceward.http import Caller, NotAuthenticated, django_urls

USERS = {"Bearer of-anna": "anna", "Bearer of-bert": "bert"}


def caller(request: HttpRequest) -> Caller:
    user = USERS.get(request.headers.get("Authorization", ""))
    if user is None:
        raise NotAuthenticated("no such user")
    return Caller(user)


urlpatterns = [path("", include(django_urls("onceward.toml", caller)))]
# example:end
