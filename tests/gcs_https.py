"""Leads a program that knows no other Cloud Storage than https://storage.googleapis.com to the one of the tests.

TensorFlow reads `gs://` by code of its own (xla/tsl/platform/cloud/gcs_file_system.cc), which TensorFlow Serving
is linked with (tensorflow_serving/model_servers/BUILD). It obeys the variables of libcurl.
"""

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

HOSTS = ("storage.googleapis.com", "www.googleapis.com")


@contextlib.contextmanager
def as_googles(url, folder):
    """The environment of such a program: a proxy on loopback, which answers as HOSTS with what `url` answers.

    A certificate is written to `folder`.
    """
    certificate = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        server.context, server.upstream = context, urllib.parse.urlsplit(url)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield {
                "https_proxy": f"http://127.0.0.1:{server.server_port}",
                "CURL_CA_BUNDLE": str(certificate),
                "NO_GCE_CHECK": "true",  # this machine has no account
            }
        finally:
            server.shutdown()
            thread.join()


class Proxy(http.server.BaseHTTPRequestHandler):
    """Takes the place of the hosts that it is told to connect to."""

    def do_CONNECT(self):
        host = self.path.partition(":")[0]
        self.send_response(200 if host in HOSTS else 403)
        self.end_headers()
        if host not in HOSTS:
            return
        address = self.server.upstream.hostname, self.server.upstream.port
        with (
            self.server.context.wrap_socket(self.connection, server_side=True) as client,
            socket.create_connection(address) as storage,
        ):
            threading.Thread(target=pass_on, args=(storage, client), daemon=True).start()
            pass_on(client, storage)

    def log_message(self, *_):
        """Say nothing."""


def pass_on(source, target):
    """Send what `source` says to `target` until it has said all; neither can speak after that."""
    with contextlib.suppress(OSError):
        while content := source.recv(2**16):
            target.sendall(content)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def write_certificate(folder):
    """A key and a certificate of HOSTS, which is its own authority; the path of the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOSTS[0])])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(1))
        .not_valid_after(now + datetime.timedelta(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = folder / "storage.pem"
    path.write_bytes(
        key.private_bytes(encoding, form, serialization.NoEncryption()) + certificate.public_bytes(encoding)
    )
    return path
