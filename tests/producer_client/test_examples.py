"""Every example names its request by what that does: whoever copies it can ask again safely."""

import re

import pytest

from producer_client import AsyncClient, Client
from producer_client.commands.commands import cli
from tests.documents import documents, examples

EXAMPLES = {
    "documents": "\n".join(examples().values()),
    "Client": Client.__doc__ or "",
    "AsyncClient": AsyncClient.__doc__ or "",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_send_of_an_example_has_a_request_id(name: str) -> None:
    calls = re.findall(r"client\.send\((?!…).*?topic=.*?\)(?:\n|\.wait)", EXAMPLES[name], re.DOTALL)
    assert calls
    assert [one for one in calls if "request_id=" not in one] == []


def test_every_command_of_an_example_names_its_request() -> None:
    helped = cli.commands["send"].help or ""
    shown = re.findall(r"onceward-client send '.*", "\n".join([helped, *documents().values()]))
    assert len(shown) > 2
    assert [one for one in shown if "--id " not in one] == []
    assert '"request_id": "order-7"' in helped


@pytest.mark.parametrize("send", [Client.send, AsyncClient.send])
def test_a_send_says_when_an_id_that_it_makes_is_enough(send: object) -> None:
    assert "ever asks again" in " ".join((send.__doc__ or "").split())
