"""A network that acknowledges late: each send fails, and is repeated through the outbox.

The topic holds duplicates, the work is done once each, and what is repeated stays as many as were
sent: nothing is repeated for having been repeated.
"""

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy import NullPool, create_engine, func, select

from feedback.records.envelope import decode_headers
from feedback.settings.settings import load
from feedback.status import State
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from producer_client import Client, Submission
from producer_client.outbox import migrate
from producer_client.outbox.tables import row
from tests.eventually import eventually
from tests.left_open import left_open
from tests.outages.conftest import MakeStage
from tests.producer_client.outbox.conftest import relaying
from tests.producer_client.records import records_of
from tests.stack.toxiproxy import Link, Links

pytestmark = pytest.mark.waits

COUNT = 60
# Half of it is Kafka's: a client that is kept from its processor for so long sends it nothing, and
# then there is nothing to be repeated.
SEND_TIMEOUT_S = 6.0
LATE_MS = 4500
ROUNDS = 2
TOLD_S = 120.0


@pytest.fixture(scope="module")
def link() -> Iterator[Link]:
    """Yield the way to a broker that tells its clients this way."""
    with left_open(), Keeper() as keeper:
        port = free_port()
        made = Links(keeper).to(f"{HOST}:{port}")
        launch(keeper, lambda: Broker(port=port, advertised=made.address))
        yield made


def test_what_is_acknowledged_late_is_repeated_and_done_once(
    make_stage: MakeStage, link: Link, postgres_url: str
) -> None:
    migrate(postgres_url)
    section = {"url": postgres_url, "lease_s": 3}
    stage = make_stage(kafka_at=link.address, outbox=section)
    stage.start()
    settings = load(stage.config(client={"send_timeout_s": SEND_TIMEOUT_S}))
    topic, names = stage.topics["work"], list[str]()
    with relaying(settings):
        for _ in range(ROUNDS):
            some = [f"late-{len(names) + number}" for number in range(COUNT)]
            names += some
            # A new client each round: one that knows Kafka to be away would not try it at first.
            with Client(settings, outbox=postgres_url, durability="fast") as client:
                client.send({}, topic=topic).wait(TOLD_S)
                with link.slow(LATE_MS):
                    asked = (Submission({}, topic=topic, request_id=name) for name in some)
                    assert all(one.sent for one in client.send_many(asked))
                ended = list(client.wait_many(some, timeout_s=TOLD_S))
            assert {one.state for one in ended} == {State.SUCCEEDED}
        # The relay is done with what it has, before the duplicates are counted.
        eventually(lambda: not waiting(postgres_url), timeout_s=TOLD_S)
    runs = Counter(run["request_id"] for run in stage.runs())
    assert {runs[name] for name in names} == {1}
    sent = sent_of(link, topic)
    # Kafka had some, at least the first of each round, and the relay, which heard of none of that,
    # has sent them again. How many more were under way is the machine's to say.
    assert sum(sent[name] - 1 for name in names) >= ROUNDS
    # Twice by the client, whose own producer tries again, and by the relay.
    assert max(sent.values()) <= 4


def sent_of(link: Link, topic: str) -> Counter[str]:
    """Return how often each request lies in the topic."""
    return Counter(decode_headers(one).request_id for one in records_of(link.address, topic))


def waiting(url: str) -> int:
    """Return how many rows of the outbox wait."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        wanted = select(func.count()).where(row.c.state == "WAITING")
        return int(connection.execute(wanted).scalar_one())
