"""`SecureKafka`: a node of Apache Kafka that is reached over TLS, with a login by PLAIN or SCRAM or with none.

Its certificate is for 127.0.0.1 and localhost, and nobody trusts it who is not given it.
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Final, Literal

from benchmarks.apache_kafka import _LOGGING, _SERVER, ApacheKafka
from benchmarks.kafka_jars import java_program
from streams.embedded.child import free_port
from tests.support.brokers import KafkaSettingsByName, apache_kafka

USER: Final = "app"
PASSWORD: Final = "pw-7f3a9c51e2"
"""Like nothing else that the program prints."""

Mechanism = Literal["PLAIN", "SCRAM-SHA-512"]

_STORE_PASSWORD: Final = "changeit"
_QUICK: Final = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
_PLAIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def secure_kafka(folder: Path) -> SecureKafka:
    """Return a node, not started; where there are no jars or no Java the test is skipped, or fails if they must be."""
    apache_kafka(folder)
    return SecureKafka(folder)


class SecureKafka(ApacheKafka):
    """The node; its listener for brokers stays plain.

    Attributes:
        login_servers: address where SASL_SSL is spoken.
        tls_servers: address where SSL is spoken, without a login.
        ca: file with the certificate to trust, in PEM format; there as soon as the node runs.

    Raises:
        KafkaMissing: when there are no jars or no Java that runs them.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.login_servers = f"127.0.0.1:{free_port()}"
        self.tls_servers = f"127.0.0.1:{free_port()}"
        self.ca = folder / "ca.pem"
        self._keys = folder / "broker.p12"

    def login(self, mechanism: Mechanism, password: str = PASSWORD) -> KafkaSettingsByName:
        """Return the settings of a client that logs in."""
        return {
            "bootstrap_servers": self.login_servers,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            "sasl_username": USER,
            "sasl_password": password,
            "ssl_cafile": str(self.ca),
        }

    def tls(self) -> KafkaSettingsByName:
        """Return the settings of a client that does not log in."""
        return {"bootstrap_servers": self.tls_servers, "security_protocol": "SSL", "ssl_cafile": str(self.ca)}

    async def _format(self) -> None:
        """Write the configuration and make the storage, in which the user of SCRAM is."""
        self._folder.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._certify)
        listeners = {
            "BROKER": self.bootstrap_servers,
            "CONTROLLER": self._controller,
            "LOGIN": self.login_servers,
            "TLS": self.tls_servers,
        }
        properties = _SERVER | {
            "log.dirs": str(self._data),
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGIN:SASL_SSL,TLS:SSL",
            "controller.quorum.bootstrap.servers": self._controller,
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": _PLAIN,
            "listener.name.login.scram-sha-512.sasl.jaas.config": _SCRAM,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._keys),
            "ssl.keystore.password": _STORE_PASSWORD,
        }
        self._logging.write_text(_LOGGING)
        new = self._properties.with_suffix(".new")
        new.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        await asyncio.to_thread(
            _run,
            *self._java,
            f"-Dlog4j2.configurationFile={self._logging}",
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            f"--cluster-id={self.cluster_id}",
            f"--config={new}",
            f"--add-scram=SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
        )
        new.rename(self._properties)

    def _certify(self) -> None:
        """Make a key with a certificate that is its own authority: of several programs each takes a second."""
        keytool = str(Path(java_program()).resolve().with_name("keytool"))
        store = ("-keystore", str(self._keys), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD, "-alias", "node")
        uses = ("bc:critical=ca:true", "ku:critical=digitalSignature,keyCertSign", "san=dns:localhost,ip:127.0.0.1")
        extensions = [word for use in uses for word in ("-ext", use)]
        _run(keytool, "-genkeypair", *store, "-keyalg", "EC", "-dname", "CN=localhost", *extensions, *_QUICK)
        _run(keytool, "-exportcert", *store, "-rfc", "-file", str(self.ca), *_QUICK)


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False, timeout=60
    )
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
