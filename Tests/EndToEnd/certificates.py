"""Certificates for tests, made with the openssl command: a private authority, and what can be wrong with a certificate."""

import ssl
import subprocess


class Authority:
    """A certification authority of its own in `folder`."""

    def __init__(self, folder, name="uploadfs test authority"):
        self.folder = folder
        folder.mkdir(parents=True)
        self.certificate = folder / "ca.pem"
        self.key = folder / "ca.key"
        _openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
            "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate,
            "-addext", "basicConstraints=critical,CA:true", "-addext", "keyUsage=critical,keyCertSign")

    def issue(self, name, hosts="DNS:localhost,IP:127.0.0.1", expired=False, usage="serverAuth"):
        """A certificate and its key, as two paths."""
        certificate, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        _openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", key, "-out", request)
        database = self.folder / f"{name}.db"
        database.mkdir()
        (database / "index.txt").touch()
        (database / "serial").write_text("01\n")
        settings = database / "openssl.cnf"
        settings.write_text(f"""
[ca]
default_ca = here
[here]
dir = {database}
database = {database}/index.txt
serial = {database}/serial
new_certs_dir = {database}
default_md = sha256
policy = any
[any]
commonName = supplied
[server]
basicConstraints = CA:false
keyUsage = digitalSignature
extendedKeyUsage = {usage}
subjectAltName = {hosts}
""")
        dates = ("20200101000000Z", "20200201000000Z") if expired else ("20200101000000Z", "20991231000000Z")
        _openssl(
            "ca", "-batch", "-notext", "-config", settings, "-extensions", "server", "-startdate", dates[0], "-enddate",
            dates[1], "-cert", self.certificate, "-keyfile", self.key, "-in", request, "-out", certificate)
        return certificate, key


def _openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}"


def tls_1_3(certificate, key):
    """What a server needs that speaks TLS 1.3 and nothing older."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    return context
