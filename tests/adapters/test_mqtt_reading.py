"""What an MQTT connection has read, and must not keep to itself: outcomes at its end, what TLS has decrypted."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from tests.adapters.stub_mqtt import StubBroker, packet, publish_packet

from inorder.ports import Outgoing
from inorder.protocol.names import exact
from inorder.testing.ens_recorder import Recorder
from inorder.testing.services import Certificates
from inorder_adapters.mqtt import open_ens


def _open(stub: StubBroker, scheme: str = "mqtt", **options: Any) -> Any:
    how = {"close_timeout": 0.2, "keepalive": 0, **options}
    return open_ens(f"{scheme}://127.0.0.1:{stub.port}", client_id="c", options=how)


class _Ending(Recorder):
    """Notes what was accepted when the connection was lost."""

    accepted_then: list[int] | None = None

    def connection_lost(self, error: Exception) -> None:
        self.accepted_then = list(self.accepted_tokens)
        super().connection_lost(error)


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_is_known_of_publishes_is_told_before_the_connection_is_lost(qos: int) -> None:
    """R16: acknowledgements and the broker's good-bye come in one segment. Whoever is not told of the former hands the
    events over once more, though they may be abandoned meanwhile."""
    async with StubBroker() as stub:
        stub.puback_code = stub.pubrec_code = -1
        ens, recorder = _open(stub), _Ending()
        await ens.connect(recorder)
        ens.publish(Outgoing("t", b"x", b"s", qos=qos), 7)
        await stub.until(3, 1)
        _, _, body = stub.received[-1]
        message_id = body[3:5]  # behind the topic
        answers = [packet(0x40, message_id)] if qos == 1 else [packet(0x50, message_id), packet(0x70, message_id)]
        stub.send(b"".join([*answers, packet(0xE0, b"\x8b")]))
        await recorder.until(lambda: bool(recorder.losses))
        assert recorder.accepted_then == [7]
        await ens.close()


class _TlsBroker(StubBroker):
    """The same behind TLS."""

    def __init__(self, certificates: Certificates) -> None:
        super().__init__()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(certificates.certificate, certificates.key)


async def test_what_tls_has_decrypted_is_read_though_the_socket_is_silent() -> None:
    """A record holds more packets than are read at once. There is no keepalive, which would look again later."""
    with Certificates() as certificates:
        async with _TlsBroker(certificates) as stub:
            ens, recorder = _open(stub, "mqtts", tls_ca=str(certificates.ca)), Recorder()
            await ens.connect(recorder)
            await ens.subscribe(exact("t"))
            stub.send(b"".join(publish_packet(b"t", b"%d" % at) for at in range(300)))
            await recorder.until_arrived(300)
            assert recorder.payloads == [b"%d" % at for at in range(300)]
            await ens.close()
