"""`onceward init`: the settings and a first handler, which needs no other program to succeed."""

from __future__ import annotations

from pathlib import Path

import click

from feedback.console.commands import DEFAULT_FILE
from feedback.errors import SettingsError
from feedback.files import new_private_file
from onceward.dev.claims import DATA_FOLDER, make_data_folder

SETTINGS = """\
# Settings of Onceward. Each can also come from ONCEWARD_<SECTION>__<NAME>, as in
# ONCEWARD_KAFKA__BOOTSTRAP_SERVERS; those with a default that fits are left out here.

[kafka]
bootstrap_servers = "127.0.0.1:9092"
group = "{topic}"                       # names the requests in Redis and in the journal

[redis]
url = "redis://127.0.0.1:6379/0"        # what clients see

[journal]
url = "sqlite:///.onceward/journal.db"  # the truth; for several hosts postgresql+psycopg://…

[worker]
handlers = ["{topic}"]                  # modules to import: {topic}.py here
processes = 2                           # children that run handlers

[client]
topic = "{topic}"                       # where `onceward client send` sends

[audit]
topics = ["{topic}"]
output = "audit/"
"""

HANDLER = '''\
"""The handler of topic {topic}. `onceward worker run` calls it once for each request."""

from __future__ import annotations

import json
from pathlib import Path

from onceward import Rejected, Request, handler

# Stands in for the counterparty: replace `charge_card` by the call of yours.
BANK = Path("bank.jsonl")


@handler(topic="{topic}", effect="marked", in_doubt="park", time_limit_s=30, deadline_s=3600)
def charge(request: Request) -> dict[str, object]:
    """Charge a card: from the first line of the effect on, it may have happened."""
    payment = request.json()
    if payment["amount"] <= 0:
        raise Rejected("BAD_AMOUNT", "an amount is positive")
    with request.effect():
        receipt = charge_card(payment["amount"], key=request.idempotency_key)
    return {{"receipt": receipt}}


def charge_card(amount: float, *, key: str) -> str:
    """Write a charge into the file of the bank; a bank takes each key once."""
    with BANK.open("a", encoding="utf-8") as charges:
        charges.write(json.dumps({{"key": key, "amount": amount}}) + "\\n")
    return key
'''

NEXT = """\
{made}
This brings the first SUCCEEDED:

  onceward dev                        # Kafka, Redis, topics and a worker, until Ctrl-C
  onceward client send '{{"amount":5}}' --id order-7 --wait 10        # in a second terminal

With servers of your own, in the place of `onceward dev`:

  onceward worker migrate             # makes the journal's tables
  onceward worker run --create-topics # works until Ctrl-C
"""


@click.command()
@click.option("--topic", default="payments", show_default=True, help="Of the first handler.")
def init(topic: str) -> None:
    """Write `onceward.toml` and a first handler into this folder.

    It changes no file that is there.

    \b
    Examples:
      onceward init
      onceward init --topic bookings
    """
    if not topic.isidentifier():
        raise click.BadParameter("it also names a Python module: letters, digits and _")
    settings, handlers = Path(DEFAULT_FILE), Path(f"{topic}.py")
    files = {settings: SETTINGS.format(topic=topic), handlers: HANDLER.format(topic=topic)}
    there = [str(path) for path in files if path.exists()]
    if there:
        raise SettingsError(f"{' and '.join(there)} is there already: nothing was changed")
    make_data_folder(Path(DATA_FOLDER))
    new_private_file(settings).close()  # passwords will stand in it
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    click.echo(NEXT.format(made="\n".join(f"wrote {path}" for path in files)))
