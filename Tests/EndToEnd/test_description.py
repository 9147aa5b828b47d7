"""docs/openapi.yaml against a receiver: what it allows is well-formed, what it forbids is refused, and each answer is one that it
describes. One value of a right request at a time is replaced by those at and beyond the bounds that the description states."""

import hashlib
import json
import os
import subprocess

import jsonschema
import pytest

from harness import REPOSITORY, TEST_SERVERS
from promises import missing
from protocol_client import ProtocolClient, Session, crc32c, tag

# Its value follows from another one; alone it contradicts that, which no schema can say.
LINKED = {"X-Chunk-Size", "size", "chunk_count"}
# What is wrong with a request whatever the receiver holds.
MALFORMED = {"bad-request", "name-refused"}
INT64 = {"minimum": -2**63, "maximum": 2**63 - 1}


@pytest.fixture(scope="module")
def description():
    python = TEST_SERVERS / "bin" / "python"
    if not python.exists():
        missing("a reader of YAML")
    program = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    with open(REPOSITORY / "docs" / "openapi.yaml", "rb") as text:
        return json.loads(subprocess.run([python, "-c", program], stdin=text, capture_output=True, check=True).stdout)


@pytest.fixture
def client(receiver):
    return ProtocolClient(receiver)


class Operation:
    """One operation of the description, by its name."""

    def __init__(self, description, name):
        self.description = description
        for path, methods in description["paths"].items():
            for method, found in methods.items():
                if method != "parameters" and found["operationId"] == name:
                    self.path, self.method, self.found = path, method.upper(), found
                    self.parameters = [self.resolved(each) for each in methods.get("parameters", []) + found.get("parameters", [])]

    def resolved(self, node):
        while "$ref" in node:
            place = self.description
            for key in node["$ref"].removeprefix("#/").split("/"):
                place = place[key]
            node = place | {key: value for key, value in node.items() if key != "$ref"}
        return node

    def is_valid(self, schema, value):
        whole = {"components": self.description["components"], **self.resolved(schema)}
        if whole.get("format") == "int64":
            whole = INT64 | whole
        return jsonschema.Draft202012Validator(whole).is_valid(value)

    @property
    def body(self):
        """The members of its body, and which have to be there."""
        schema = self.resolved(self.found["requestBody"]["content"]["application/json"]["schema"])
        return {name: self.resolved(member) for name, member in schema["properties"].items()}, set(schema["required"])

    def check(self, answer, is_allowed, what):
        """The answer is described, and says of the request what the description says."""
        described = self.found["responses"].get(str(answer.status))
        assert described is not None, f"{what}: {answer} is not described"
        contents = self.resolved(described).get("content", {})
        if answer.body:
            schema = contents[answer.headers["content-type"].split(";")[0]]["schema"]
            assert self.is_valid(schema, answer.json), f"{what}: {answer} is not as it is described"
        if not is_allowed:
            assert 400 <= answer.status < 500, f"{what} is forbidden: {answer}"
        elif what.split("=")[0] not in LINKED:
            assert answer.problem not in MALFORMED, f"{what} is allowed: {answer}"


def candidates(schema, in_json):
    """Values at and beyond what a schema bounds, and of other kinds."""
    kinds = schema.get("type", "string")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    found = []
    if "integer" in kinds:
        bounds = (INT64 if schema.get("format") == "int64" else {}) | schema
        for bound in (bounds.get("minimum"), bounds.get("maximum")):
            found += [] if bound is None else [bound - 1, bound, bound + 1]
        found += [0, 1, -1, 2**64]
        found += ["1", 1.5, True, None, []] if in_json else ["", "x", "+1", "0x1", "1.0", "١"]
    elif "string" in kinds:
        longest = schema.get("maxLength", 255)
        found += ["", "x", "x" * longest, "x" * (longest + 1), "é", "a b"]
        found += schema.get("enum", []) + ["0" * count for count in (8, 63, 64, 65)] + ["G" * 64, "Aa" * 32]
        found += [1, None, {}] if in_json else ['"a"', '"', "sha-256=:AAAA:", f"sha-256=:{'A' * 43}=:"]
        if "^(?!" in schema.get("pattern", ""):
            found += ["a/b", "a//b", "a/", "/a", ".", "..", "a/..", "...", "x" * 255, "x" * 256, "a\x7fb", "a\x85b", "/".join(["d" * 200] * 25)]
    return found


def key():
    return f'"{os.urandom(16).hex()}"'


def as_header(value):
    return str(value).encode().decode("latin-1")


def test_bodies_are_as_described(description, client):
    """Regression: requests that the description allowed were malformed."""
    opened = Session(client)
    opened.put(0, b"x")
    for name, target, document in (
            ("openSession", "/v1/uploads", opened.document | {"content_type": None, "base": None}),
            ("commit", f"/v1/uploads/{opened.id}/commit", opened.commit_document(
                [b"x"], name="other", if_taken="number", published_as="another",
                replaces=[{"file_id": "f", "merkle_root": "00" * 32, "size": 1, "chunk_size": 1}]))):
        operation = Operation(description, name)
        members, required = operation.body
        assert set(members) == set(document)
        for member, schema in members.items():
            for value in candidates(schema, in_json=True):
                answer = client.post(target, document | {member: value}, {"Idempotency-Key": key()})
                operation.check(answer, operation.is_valid(schema, value), f"{member}={value!r}"[:200])
            without = {other: value for other, value in document.items() if other != member}
            answer = client.post(target, without, {"Idempotency-Key": key()})
            operation.check(answer, member not in required, f"no {member}")
        for text in (b"", b"[]", b"null", b"{", b"\xff"):
            operation.check(client.post(target, text, {"Idempotency-Key": key()}), False, repr(text))
        operation.check(client.post(target, document | {"unknown": 1}, {"Idempotency-Key": key()}), True, "another member")


def test_fields_are_as_described(description, client):
    """Regression."""
    session, nonce = Session(client), os.urandom(32)
    whole = {
        "Idempotency-Key": key(), "X-Chunk-SHA256": hashlib.sha256(b"x").hexdigest(), "X-Chunk-CRC32C": f"{crc32c(b'x'):08x}",
        "X-Chunk-Size": 1, "X-Chunk-HMAC": tag(client.token, nonce, "", 0, b"x"), "X-Chunk-Nonce": nonce.hex()}
    for name, target, fields in (
            ("sendChunk", f"/v1/uploads/{session.id}/chunks/0", session.chunk_headers(0, b"x")), ("sendFile", "/v1/files/x", whole),
            ("openSession", "/v1/uploads", {"Idempotency-Key": key()})):
        operation = Operation(description, name)
        body = json.dumps(session.document).encode() if name == "openSession" else b"x"
        for parameter in operation.parameters:
            if parameter["in"] != "header":
                continue
            field, schema = parameter["name"], operation.resolved(parameter["schema"])
            for value in candidates(schema, in_json=False):
                # A field's text is a number where the description says so.
                is_number = schema.get("type") == "integer" and isinstance(value, int)
                is_allowed = is_number and operation.is_valid(schema, value) if schema.get("type") == "integer" else (
                    operation.is_valid(schema, value))
                answer = client.request(operation.method, target, fields | {field: as_header(value)}, body)
                operation.check(answer, is_allowed, f"{field}={value!r}"[:200])
            without = {other: value for other, value in fields.items() if other != field}
            answer = client.request(operation.method, target, without, body)
            operation.check(answer, not parameter.get("required"), f"no {field}")


def test_paths_and_answers_are_as_described(description, client):
    """Regression."""
    session = Session(client)
    send, held = Operation(description, "sendChunk"), Operation(description, "getSession")
    for number in (0, 199_999, 200_000, "00", "-1", "x", "1.0", 2**64):
        answer = client.request("PUT", f"/v1/uploads/{session.id}/chunks/{number}", session.chunk_headers(0, b"x"), b"x")
        send.check(answer, number in (0, 199_999), f"n={number}")
    for place in (session.id, "x" * 128, "x" * 129, "%00", "a.b"):
        for query in ("", "?digests=1", "?durable=1", "?digests=x&other=1"):
            answer = client.request("GET", f"/v1/uploads/{place}{query}")
            held.check(answer, answer.status == 200, f"id={place}{query}")
            assert (answer.status == 200) == (place == session.id)
    for name, target in (("getCapabilities", "/v1/capabilities"), ("getStats", "/v1/stats")):
        Operation(description, name).check(client.request("GET", target), True, name)
    run = Operation(description, "sendRun")
    assert (run.path, run.method) == ("/v1/uploads/{id}/chunks", "POST")
    member = session.member(0, b"x")
    for members, headers, status in (
            ([member], {}, 200), ([member[:-1]], {}, 400), ([], {}, 400), ([member], {"Content-Type": "text/plain"}, 415),
            ([], {"Content-Length": 64 << 20}, 413)):
        answer = session.put_run(members, **headers)
        assert answer.status == status and str(status) in run.found["responses"], answer
        kinds = run.resolved(run.found["responses"][str(status)])["content"]
        assert answer.headers["content-type"] in kinds, answer
    for name in ("x-run-bytes-max", "x-bundle-files-max", "x-chunk-encodings", "x-bundle-encodings"):
        described = Operation(description, "prewarm").found["responses"]["204"]["headers"]
        assert name in client.request("HEAD", "/v1/").headers and name in {each.lower() for each in described}
    Operation(description, "abort").check(client.request("DELETE", f"/v1/uploads/{session.id}"), True, "abort")
