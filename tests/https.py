"""Leads a program that insists on the addresses of Google's services, by https://, to the servers of the tests."""

import contextlib
import datetime
import http.server
import socket
import ssl
import threading
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

STORAGE = ("storage.googleapis.com", "www.googleapis.com")
"""Hosts of Cloud Storage."""


@contextlib.contextmanager
def answered_by(servers, folder):
    """A proxy on loopback that answers as each host of `servers` with what the server at its address answers.

    Gives the address of the proxy, and the path of a certificate to trust, which is written to `folder`.
    """
    certificate = write_certificate(folder, servers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Server(("127.0.0.1", 0), Proxy) as server:
        server.context = context
        server.upstreams = {host: urllib.parse.urlsplit(url) for host, url in servers.items()}
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", str(certificate)
        finally:
            server.shutdown()
            thread.join()


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of connections that end early."""

    context: ssl.SSLContext
    upstreams: dict[str, urllib.parse.SplitResult]

    def handle_error(self, *_):
        """Say nothing."""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Takes the place of the hosts that it is told to connect to; refuses all others."""

    server: Server

    def do_CONNECT(self):
        upstream = self.server.upstreams.get(self.path.partition(":")[0])
        self.send_response(200 if upstream else 403)
        self.end_headers()
        if upstream is None:
            return
        with (
            self.server.context.wrap_socket(self.connection, server_side=True) as client,
            socket.create_connection((upstream.hostname, upstream.port)) as answering,
        ):
            threading.Thread(target=pass_on, args=(answering, client), daemon=True).start()
            pass_on(client, answering)

    def do_GET(self):
        """Pass on a request by http, which names the whole address."""
        parts = urllib.parse.urlsplit(self.path)
        upstream = self.server.upstreams.get(parts.hostname)
        if upstream is None:
            self.send_error(403)
            return
        lines = [
            f"{self.command} {parts.path or '/'} HTTP/1.1",
            *(f"{key}: {value}" for key, value in self.headers.items()),
        ]
        with socket.create_connection((upstream.hostname, upstream.port)) as answering:
            answering.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            pass_on(answering, self.connection)
        self.close_connection = True

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        """Say nothing."""


def pass_on(source, target):
    """Send what `source` says to `target` until it has said all; neither can speak after that."""
    with contextlib.suppress(OSError):
        while content := source.recv(2**16):
            target.sendall(content)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def write_certificate(folder, hosts):
    """A key and a certificate of the hosts, which is its own authority; the path of the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName(map(x509.DNSName, hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = folder / "hosts.pem"
    path.write_bytes(
        key.private_bytes(encoding, form, serialization.NoEncryption()) + certificate.public_bytes(encoding)
    )
    return path
