"""Certificates with timestamps of certificate logs, logs, and OCSP responses, with keys of the tests': written as DER here, because no command
makes them, and signed with the openssl command."""

import base64
import hashlib
import ipaddress
import itertools
import json
import subprocess
import time

DAY = 86_400
_serials = itertools.count(int(time.time()) << 16)


def openssl(*arguments, given=None):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, input=given or b"")
    assert done.returncode == 0, f"openssl {arguments[0]}: {done.stderr.decode(errors='replace')}"
    return done.stdout


# MARK: DER


def tlv(tag, *parts):
    content = b"".join(parts)
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    count = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | count]) + size.to_bytes(count, "big") + content


def sequence(*parts):
    return tlv(0x30, *parts)


def integer(number):
    return tlv(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def octets(content):
    return tlv(0x04, content)


def bits(content):
    return tlv(0x03, b"\0", content)


def oid(text):
    first, second, *rest = map(int, text.split("."))
    content = bytearray([first * 40 + second])
    for number in rest:
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        content += bytes(reversed(groups))
    return tlv(0x06, bytes(content))


def moment(seconds):
    return tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", time.gmtime(seconds)).encode())


def day(seconds):
    """As messages say it."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def name(common_name):
    return sequence(tlv(0x31, sequence(oid("2.5.4.3"), tlv(0x0C, common_name.encode()))))


ECDSA_SHA256 = sequence(oid("1.2.840.10045.4.3.2"))


class Key:
    def __init__(self, path):
        self.path = path
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
        self.public = openssl("pkey", "-in", path, "-pubout", "-outform", "DER")
        # What stands in the bit string of a key on this curve: its last 65 bytes.
        self.identifier = hashlib.sha1(self.public[-65:]).digest()

    @property
    def pin(self):
        return "sha256//" + base64.b64encode(hashlib.sha256(self.public).digest()).decode()

    def sign(self, content):
        return openssl("dgst", "-sha256", "-sign", self.path, given=content)


# MARK: Logs


class Log:
    """A certificate log (RFC 6962), as far as it signs timestamps."""

    def __init__(self, folder, title, operator, state="usable", since=0, ends=None):
        self.key = Key(folder / f"{title}.log.key")
        self.title, self.operator, self.state, self.since, self.ends = title, operator, state, since, ends

    @property
    def identifier(self):
        return hashlib.sha256(self.key.public).digest()

    def timestamp(self, entry, at=None, forged=False):
        """A signed timestamp for an entry, which is its type and what that asks for."""
        milliseconds = int((at or time.time() - 60) * 1000).to_bytes(8, "big")
        signature = self.key.sign(b"\0\0" + milliseconds + (b"\0\0" if forged else b"") + entry + b"\0\0")
        return b"\0" + self.identifier + milliseconds + b"\0\0" + b"\4\3" + len(signature).to_bytes(2, "big") + signature

    @property
    def listed(self):
        entry = {
            "description": self.title, "key": base64.b64encode(self.key.public).decode(),
            "log_id": base64.b64encode(self.identifier).decode(), "mmd": 86400,
            "state": {self.state: {"timestamp": _time(self.since)}},
        }
        if self.ends:
            entry["temporal_interval"] = {"start_inclusive": _time(self.ends[0]), "end_exclusive": _time(self.ends[1])}
        return entry


def _time(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def write_list(path, *logs, days=1):
    """A list of logs that is so many days old, in the form that browsers have."""
    operators = {}
    for log in logs:
        operators.setdefault(log.operator, []).append(log.listed)
    path.write_text(json.dumps({
        "version": "1.1", "log_list_timestamp": _time(time.time() - days * DAY),
        # One has its logs where lists have those that are read in tiles.
        "operators": [
            {"name": operator, "email": [], "logs": [], "tiled_logs": entries} if index == 1
            else {"name": operator, "email": [], "logs": entries} for index, (operator, entries) in enumerate(operators.items())],
    }))
    return path


def _list(timestamps):
    content = b"".join(len(one).to_bytes(2, "big") + one for one in timestamps)
    return len(content).to_bytes(2, "big") + content


# MARK: Certificates


def extension(identifier, content, critical=False):
    return sequence(oid(identifier), tlv(0x01, b"\xff") if critical else b"", octets(content))


EMBEDDED, IN_OCSP, TLS_FEATURE = "1.3.6.1.4.1.11129.2.4.2", "1.3.6.1.4.1.11129.2.4.5", "1.3.6.1.5.5.7.1.24"


class Issuer:
    """A certification authority of its own."""

    def __init__(self, folder, title="an authority"):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.title = title
        self.key = Key(folder / "authority.key")
        now = time.time()
        self.certificate = folder / "authority.pem"
        _write(self.certificate, self._signed(self._content(
            title, self.key, next(_serials), now - DAY, now + 900 * DAY, [
                extension("2.5.29.19", sequence(tlv(0x01, b"\xff")), critical=True),
                extension("2.5.29.15", b"\x03\x02\x01\x06", critical=True),
                extension("2.5.29.14", octets(self.key.identifier)),
            ])))

    def _content(self, subject, key, serial, begins, ends, extensions):
        return sequence(
            tlv(0xA0, integer(2)), integer(serial), ECDSA_SHA256, name(self.title),
            sequence(moment(begins), moment(ends)), name(subject), key.public, tlv(0xA3, sequence(*extensions)))

    def _signed(self, content):
        return sequence(content, ECDSA_SHA256, bits(self.key.sign(content)))

    def issue(
            self, title, embedded=(), hosts=("localhost", "127.0.0.1"), begins=-DAY, ends=90 * DAY, must_staple=False, key=None):
        """A certificate; `embedded` are functions of an entry that give a timestamp."""
        now = time.time()
        key = key or Key(self.folder / f"{title}.key")
        names = b"".join(
            tlv(0x87, ipaddress.ip_address(host).packed) if host[0].isdigit() else tlv(0x82, host.encode()) for host in hosts)
        extensions = [
            extension("2.5.29.19", sequence()), extension("2.5.29.15", b"\x03\x02\x07\x80", critical=True),
            extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"))), extension("2.5.29.17", sequence(names)),
            extension("2.5.29.14", octets(key.identifier)), extension("2.5.29.35", sequence(tlv(0x80, self.key.identifier))),
        ]
        if must_staple:
            extensions.append(extension(TLS_FEATURE, sequence(integer(5))))
        serial = next(_serials)
        content = self._content(title, key, serial, now + begins, now + ends, extensions)
        if embedded:
            entry = b"\0\1" + hashlib.sha256(self.key.public).digest() + len(content).to_bytes(3, "big") + content
            extensions.append(extension(EMBEDDED, octets(_list([make(entry) for make in embedded]))))
            content = self._content(title, key, serial, now + begins, now + ends, extensions)
        return Leaf(self, title, key, serial, self._signed(content))


class Leaf:
    """A server's certificate, and what can be said about it."""

    def __init__(self, issuer, title, key, serial, der):
        self.issuer, self.key, self.serial, self.der = issuer, key, serial, der
        self.certificate = issuer.folder / f"{title}.pem"
        _write(self.certificate, der)

    @property
    def files(self):
        return self.certificate, self.key.path

    @property
    def entry(self):
        """Of the certificate as it is."""
        return b"\0\0" + len(self.der).to_bytes(3, "big") + self.der

    def server_info(self, *make):
        """The file with which `openssl s_server` sends timestamps in its handshake."""
        listed = _list([one(self.entry) for one in make])
        # A certificate of TLS 1.3: the context, the type, the length.
        content = (0x1000 | 0x80 | 0x100).to_bytes(4, "big") + (18).to_bytes(2, "big") + len(listed).to_bytes(2, "big") + listed
        path = self.certificate.with_suffix(".info")
        path.write_text(
            "-----BEGIN SERVERINFOV2 FOR SCT-----\n" + base64.encodebytes(content).decode() + "-----END SERVERINFOV2 FOR SCT-----\n")
        return path

    def staple(self, status="good", begins=-DAY, ends=7 * DAY, signer=None, serial=None, timestamps=()):
        """An OCSP response about it."""
        now = time.time()
        issuer = self.issuer
        state = {"good": tlv(0x80), "revoked": tlv(0xA1, moment(now - 3 * DAY)), "unknown": tlv(0x82)}[status]
        certificate = sequence(
            sequence(oid("1.3.14.3.2.26"), tlv(0x05)), octets(hashlib.sha1(name(issuer.title)).digest()),
            octets(issuer.key.identifier), integer(serial or self.serial))
        more = b""
        if timestamps:
            listed = _list([one(self.entry) for one in timestamps])
            more = tlv(0xA1, sequence(extension(IN_OCSP, octets(listed))))
        content = sequence(
            tlv(0xA1, name(issuer.title)), moment(now + begins),
            sequence(sequence(certificate, state, moment(now + begins), tlv(0xA0, moment(now + ends)), more)))
        basic = sequence(content, ECDSA_SHA256, bits((signer or issuer.key).sign(content)))
        path = self.certificate.with_suffix(f".{next(_serials)}.ocsp")
        path.write_bytes(sequence(
            tlv(0x0A, b"\0"), tlv(0xA0, sequence(oid("1.3.6.1.5.5.7.48.1.1"), octets(basic)))))
        return path


def _write(path, der):
    path.write_text("-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der).decode() + "-----END CERTIFICATE-----\n")
