"""A listener that is asked why its certificate is refused."""

from feedback.kafka.listener import fault_of_certificate
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port


def test_a_file_that_is_gone_by_then_ends_nobody() -> None:
    settings = KafkaSection.model_construct(ssl_cafile="/no/such/ca.pem")
    assert fault_of_certificate(HOST, free_port(), settings) is None
