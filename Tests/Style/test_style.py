"""The rules of the house that a compiler does not check. Each failure says where, and what to do instead."""

import pathlib
import re

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted((REPOSITORY / "Sources").rglob("*.swift"))
TESTS = sorted((REPOSITORY / "Tests").rglob("*.swift"))
EVERYTHING = SOURCES + TESTS
# Draws by the system's generator.
FRESH = r"\brandom\((in: [^(),]*)?\)|\bSystemRandomNumberGenerator\b|\.(shuffled|randomElement)\(\)"


def lines(path):
    """Code with its line numbers; comments and the insides of strings are left out."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        yield number, re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]


def offences(paths, pattern):
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in paths for number, line in lines(path) if re.search(pattern, line)]


def outside(*folders):
    roots = [REPOSITORY / "Sources" / folder for folder in folders]
    return [path for path in SOURCES if not any(path.is_relative_to(root) for root in roots)]


def inside(folder):
    return [path for path in SOURCES if path.is_relative_to(REPOSITORY / "Sources" / folder)]


# What decides, and what replays decisions.
DECIDING = [path for folder in ("TransferModel", "UploadEngine/Decisions", "Destinations", "ReceiverCore", "UploadSimulation")
            for path in inside(folder)]
# Dictionary and Set by their names, and [Key: Value] where that is a type. An empty literal has the type that it is given to.
HASHED = r"\b(Set|Dictionary)[<(]|\[([A-Z]\w*(\.[A-Z]\w*)*|\[[A-Z]\w*\]): "

# What the decisions work with beside that: here a hashed container may be asked, and not be walked through.
BESIDE_DECIDING = [path for folder in ("UploadEngine", "ChunkProtocol", "FileModel") for path in inside(folder)]
HASHED_NAME = r"\b(\w+)(?:: | = )(?:Mutex<)?(?:(?:Set|Dictionary)<|\[(?:[A-Z]\w*(?:\.[A-Z]\w*)*(?:<\w+>)?|\[[A-Z]\w*\]): )"
STEPS = "map|flatMap|compactMap|filter|forEach|first|min|max|reduce|prefix|dropFirst|enumerated|randomElement|popFirst|removeFirst"
# Through one of these names, or through a dictionary that may be missing.
WALK = (
    r"\bin (?:[\w$]+[?!]?\.)*(?:{0})(?:\.(?:keys|values))?(?: *\{{| where\b|$)|\bin .*\?\? \[:\] *(?:\{{|where\b)"
    r"|\b(?:{0})(?:\.(?:keys|values|lazy))*[?]?\.(?:{1})\b|\bArray\((?:[\w$]+[?!]?\.)*(?:{0})\.(?:keys|values)\b")


def walks(path):
    """Where a hashed container is walked through and no comment beside it says why its order, which is none, does no harm."""
    text = path.read_text().splitlines()
    names = {found[1] for _, line in lines(path) for found in re.finditer(HASHED_NAME, line)} or {"(?!)"}
    pattern = WALK.format("|".join(sorted(names)), STEPS)
    return [
        f"{path.name}:{number}: {line.strip()}" for number, line in lines(path)
        if re.search(pattern, line) and not re.search("(?i)// .*in no order", "\n".join(text[max(0, number - 3):number]))]

IMPORT = r"^\s*(@\w+\s+)?(public |internal |private |fileprivate |package )?import\s+{}\b"


@pytest.mark.parametrize(
    ("paths", "pattern", "advice"),
    [
        pytest.param(
            outside("UploadFS/Fuse"), IMPORT.format("CFuse"),
            "libfuse is known to UploadFS/Fuse only: put what you need behind a function there", id="libfuse"),
        pytest.param(
            outside("CurlTransport"), IMPORT.format("CCurl"),
            "libcurl is known to CurlTransport only: the rest speaks HTTPRequest and HTTPResponse", id="libcurl"),
        pytest.param(
            outside("Integrity", "UploadReceiver", "uploadfs-receiver"), IMPORT.format("COpenSSL"),
            "OpenSSL is known to Integrity (and the receiver's TLS) only", id="openssl"),
        pytest.param(
            inside("UploadFS"), IMPORT.format("(TransferModel|UploadEngine|Destinations|CurlTransport|Foundation|FoundationEssentials)"),
            "the filesystem does not know that uploads exist and keeps Foundation off its path: emit a FileEvent",
            id="filesystem-knows-no-uploads"),
        pytest.param(
            inside("UploadEngine"), IMPORT.format("(UploadFS|Destinations|CurlTransport|CFuse|CCurl)"),
            "dependencies point one way: the engine knows values and protocols, not who is behind them",
            id="engine-knows-no-edges"),
        pytest.param(
            inside("TransferModel"), IMPORT.format(r"(?!(FileModel|Integrity|Lookup|LogText|Synchronization)\b)\w+"),
            "what the layers share is values: what needs more belongs to one of them", id="shared-values-are-small"),
        pytest.param(
            inside("Destinations") + inside("CurlTransport"), IMPORT.format("(UploadEngine|GRDB|Logging)"),
            "a destination and the transport know values of TransferModel, not the engine that uses them",
            id="edges-know-no-engine"),
        pytest.param(
            inside("UploadEngine/Decisions") + inside("TransferModel"),
            r"(ContinuousClock|SuspendingClock|Clock\.now|Date\(\)|clock_gettime|gettimeofday|\btime\(nil\)"
            r"|SystemRandomNumberGenerator|^\s*import (Glibc|Foundation|Dispatch|CLinux))",
            "decisions are pure: take the moment and the generator as arguments, return actions", id="decisions-are-pure"),
        pytest.param(
            inside("UploadEngine/Decisions"), r"\b(await|async|Mutex|Atomic|DispatchQueue|pthread_\w+)\b",
            "decisions are values: the driver locks, asks, unlocks and acts", id="decisions-are-values"),
        pytest.param(
            inside("ReceiverCore"), IMPORT.format(r"(?!(Integrity|ChunkProtocol|Lookup|Quantities|OrderedCollections|DequeModule)\b)\w+"),
            "the receiver's rules run in a simulation, too: no sockets, no threads, no clock, no libraries",
            id="receiver-core-is-alone"),
        pytest.param(
            inside("ReceiverCore"), r"\b(await|async|Mutex|Atomic|SecureRandom|SystemRandomNumberGenerator)\b",
            "the receiver's rules are values: time, random names and free space come in as arguments",
            id="receiver-core-is-values"),
        pytest.param(
            DECIDING, HASHED,
            "the order of a hashed container differs from run to run and must not decide: LookupTable and LookupSet where "
            "nothing is walked through, OrderedDictionary and OrderedSet where it is", id="no-order-comes-from-hashing"),
        pytest.param(
            inside("UploadSimulation") + inside("Lookup"), r"\b(Hasher|hashValue|ObjectIdentifier|dump|String\((describing|reflecting):)",
            "a trace has words of its own, and a seed is the same run in every process", id="traces-have-words"),
        pytest.param(
            outside("Telemetry", "MountStatus", "uploadfs-mount"), IMPORT.format("Telemetry"),
            "heat and power are for people: no decision may see them", id="telemetry-is-shown-only"),
        pytest.param(
            inside("UploadEngine/Decisions"),
            r"(?i)(telemetry|thermal|temperature|celsius|battery|low.?power|power.?save|throttl)",
            "the upload budget is always whole: nothing is decided by heat or power", id="decisions-know-no-heat"),
        pytest.param(
            SOURCES, r"\bTask(\.detached)?\s*(\([^)]*\))?\s*\{",
            "no unstructured tasks: use a task group in run(), or a thread of its own", id="no-bare-task"),
        pytest.param(
            [path for path in TESTS if path.name != "ModelTests.swift"], FRESH,
            "a test has the same seed each time, so that no change turns red for what chance found: fresh ones are in "
            "scripts/test --long", id="seeds-are-fixed"),
        pytest.param(EVERYTHING, r"\btry!", "handle the error, or throw it", id="no-try!"),
        pytest.param(EVERYTHING, r"\bas!", "use as? and say what happens when it is something else", id="no-as!"),
        pytest.param(SOURCES, r"catch\s*\{\s*\}", "an error that is dropped needs a reason", id="no-empty-catch"),
        pytest.param(
            SOURCES, r"\b(class|struct|enum|actor|protocol)\s+\w*(Manager|Helper|Utils?|Base)\b",
            "name the job: Schedule, Table, Journal, Loop", id="names-say-the-job"),
    ])
def test_rule(paths, pattern, advice):
    found = offences(paths, pattern)
    assert not found, f"{advice}\n" + "\n".join(found)


# Layers that have paths of files, and settings that hold some. To Swift a slash, an equals sign or a blank and a combining mark behind it
# are one Character.
PATHS = [path for folder in (
    "FileModel", "UploadFS", "TransferModel", "UploadEngine", "MountConfiguration", "MountStatus", "Doctor", "ReceiverCore", "UploadReceiver",
    "Destinations", "ChunkProtocol", "uploadfs-mount", "uploadfs-receiver") for path in inside(folder)]
AT_BYTES = r'(?<!unicodeScalars)(?<!utf8)'
CUT_AT_CHARACTERS = (
    AT_BYTES + r'\.((first|last)Index\(of: "[/=]"\)|split\(separator: "[/=]"|contains\("/"\)|firstRange\(of: "[^"]*/"\))'
    r'|\bhasPrefix\("[^"]*[/=]"\)|\bhasSuffix\("[/=]"\)|separator: Character\("[/=]"\)|\b(first|last) [!=]= "[/=]"'
    r'|(?<!properties)\.is(Whitespace|Newline)\b')
SLASH_IN_A_CLOSURE = AT_BYTES + r'\.(drop|prefix|filter|split|contains|firstIndex|lastIndex)(\(\w+: | )?\{[^}]*\$0 [!=]= "[/=]"'
# Texts that hold no path of a file, each with the reason.
HOLDS_NO_PATH = {
    "EndpointURL.swift": "ASCII, which it checks first", "S3Address.swift": "an EndpointURL's", "TusAddress.swift": "ASCII, which it checks first",
    "FormAddress.swift": "an EndpointURL's", "WebDAVAddress.swift": "an EndpointURL's", "ServerAddress.swift": "an EndpointURL's", "UploadAddressMask.swift": "a TusAddress's",
    "SettingReader+Destinations.swift": "a scheme, before EndpointURL checks the rest", "S3Credentials.swift": "a key of ASCII",
    "S3Profile.swift": "a file of AWS, with sections and keys", "ServerErrorText.swift": "a page, for people", "ForeignPage.swift": "a page",
    "PageTitle.swift": "a page, for people", "TusSession.swift": "two numbers", "ContentDigest.swift": "a header field of ASCII",
    "FileCommand.swift": "a word and a destination's name", "FuseSupport.swift": "one word", "SettingSources.swift": "the parser's words",
    "SecretFile.swift": "a credential", "UploadFSMount.swift": "the help", "Startup.swift": "a token", "DevelopmentSetup.swift": "a token",
}


def cuts_at_characters(text):
    lines = [re.sub(r"(^|\s)//.*", "", line) for line in text.splitlines()]
    return [line.strip() for line in lines if re.search(CUT_AT_CHARACTERS, line) or re.search(SLASH_IN_A_CLOSURE, line)]


def test_paths_are_cut_at_bytes():
    """Regression: a folder whose name begins with a combining mark was never delivered, or led out of the receiver's root."""
    cuts = {path: cuts_at_characters(path.read_text()) for path in PATHS}
    found = [f"{path.relative_to(REPOSITORY)}: {line}" for path in cuts if path.name not in HOLDS_NO_PATH for line in cuts[path]]
    assert set(HOLDS_NO_PATH) <= {path.name for path in cuts if cuts[path]}, "take out of HOLDS_NO_PATH what cuts at no character"
    assert not found, "cut paths at bytes (utf8, unicodeScalars, RelativePath.components, PublishedName.components):\n" + "\n".join(found)


@pytest.mark.parametrize(("line", "is_one"), [
    ('let slash = path.lastIndex(of: "/")', True), ('let slash = path.unicodeScalars.lastIndex(of: "/")', False),
    ('name.split(separator: "/").last', True), ('name.unicodeScalars.split(separator: "/").last', False),
    ('if root.hasSuffix("/") {', True), ('if root.utf8.last == UInt8(ascii: "/") {', False),
    ('host.split(separator: ".")', False), ('text.reversed().drop { $0 == "/" }', True), ('text.utf8.drop { $0 == "/" }', False),
    ('line.split(whereSeparator: \\.isWhitespace)', True), ('text.drop { $0.properties.isWhitespace }', False),
    ('text.firstIndex(of: "=")', True), ('id.firstRange(of: "://")', True), ('if target.hasPrefix("/v1/files/") {', True), ('x += 1  // not path.firstIndex(of: "/")', False)])
def test_a_cut_at_characters_is_found(line, is_one):
    assert bool(cuts_at_characters(line)) == is_one


def test_escape_hatches_say_why_they_are_sound():
    found = []
    for path in SOURCES:
        text = path.read_text().splitlines()
        for number, line in enumerate(text):
            code = line.split("//")[0]
            if "@unchecked Sendable" in code or "nonisolated(unsafe)" in code:
                near = text[max(0, number - 12):number + 6]
                if not any("//" in other for other in near):
                    found.append(f"{path.relative_to(REPOSITORY)}:{number + 1}: {line.strip()}")
    assert not found, "say in a comment beside it why this is sound\n" + "\n".join(found)


# What reads and writes the disk: the spool, its state, and the receiver's root.
AT_THE_DISK = [path for folder in (
    "UploadFS/System", "UploadFS/Operations", "UploadFS/Space", "UploadFS/Namespace", "UploadFS/Files", "UploadEngine/Storage",
    "UploadEngine/Pipeline", "UploadReceiver/Store") for path in inside(folder)]
# An error that becomes nil, and a call of the system whose result is not checked.
IGNORED = (
    r"\btry\?|^\s*(?:_ = )?(?:(?:Glibc\.)?(?:pwrite|fsync|fdatasync|rename|renameat|renameat2|unlink|unlinkat|ftruncate|fchmod|fchmodat"
    r"|fchown|fchownat|futimens|mkdir|mkdirat|link|linkat|rmdir|posix_fadvise)|Glibc\.write|uploadfs_\w+|SpoolLabel\.put)\(")


# Where an error may end, each with the reason: a file and what its line contains.
ENDS_HERE = {
    ("Filesystem+Virtual.swift", "let status = try? "): "who may see a status that is about something unreadable: its last known owner, or the daemon alone",
    ("StateConnection.swift", "close()"): "everything is durable already; what closing leaves undone the next start does",
    ("StateDatabase.swift", "close()"): "likewise, and of a copy that is given up",
    ("StateCopies.swift", "unlink(temporary)"): "one that stays is replaced by the next copy",
}


def disregarded(path):
    """Where an error of the disk goes nowhere and no comment right above says why that does no harm."""
    text = path.read_text().splitlines()
    return [
        f"{path.name}:{number}: {line.strip()}" for number, line in lines(path)
        if re.search(IGNORED, line) and not any(path.name == name and part in line for name, part in ENDS_HERE) and (
            re.search(r"\btry\?", line)
            # The value of a closure, or an argument, goes to the caller.
            or not text[number - 2].rstrip().endswith(("{", "(")) and "//" not in text[number - 2] + text[number - 1])]


def test_unknown_is_a_state_of_its_own():
    """What the disk could not say is neither none nor zero nor gone (docs/semantics.md, S40h)."""
    found = [place for path in AT_THE_DISK for place in disregarded(path)]
    assert not found, (
        "do … catch, with what follows from it; or, where an ignored result does no harm, the reason in a comment right above\n"
        + "\n".join(found))


def test_the_engine_cannot_reach_telemetry():
    """Nothing that the engine is built from depends on the target that reads heat and power."""
    manifest = (REPOSITORY / "Package.swift").read_text()
    targets = {
        name: set(re.findall(r'"([^"]+)"', dependencies))
        for name, dependencies in re.findall(
            r'\.(?:executableTarget|target)\(\s*name: "([^"]+)"(?:, |,\s*)dependencies: \[(.*?)\]', manifest, re.DOTALL)}
    assert "Telemetry" in targets["uploadfs-mount"], "the pattern no longer fits the manifest"
    reachable, left = set(), ["UploadEngine"]
    while left:
        name = left.pop()
        reachable.add(name)
        left += targets.get(name, set()) - reachable
    assert "FileModel" in reachable and "Telemetry" not in reachable


def test_no_order_comes_from_a_walk_through_hashes():
    found = [walk for path in sorted({*BESIDE_DECIDING, *DECIDING}) for walk in walks(path)]
    assert not found, (
        "the order of a hashed container differs from run to run: OrderedDictionary, OrderedSet or LookupTable.sorted(); or a "
        "comment that begins with “In no order:” and says why that does no harm\n" + "\n".join(found))


def test_nothing_is_left_to_do():
    pattern = r"\b(TODO|FIXME|XXX|HACK)\b"
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in EVERYTHING for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line)]
    assert not found, "do it, or open an issue and leave no note in the code\n" + "\n".join(found)


# One text, on several lines perhaps. Those with three quotation marks are programs and pages.
TEXT = re.compile(r'(?<!")"(?!"")((?:\\.|[^"\\\n])*)"((?:\s*\+\s*"(?:\\.|[^"\\\n])*")*)')
WORD = r"(?<![\w-])(retry|cancel|publish)(?![\w:=-])"
# What its own command's help says stands below the command's name; the receiver has no such commands.
TALKING = outside("UploadSimulation", "UploadReceiver", "ReceiverCore", "uploadfs-receiver", "uploadfs-simulate", "uploadfs-mount")


def unnamed_commands(text):
    """Sentences that tell a user to retry, cancel or publish, and not how."""
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    said = (found[1] + "".join(re.findall(r'"((?:\\.|[^"\\])*)"', found[2])) for found in TEXT.finditer(text))
    return [
        sentence for sentence in said
        if " " in sentence and re.search(WORD, sentence) and not re.search(r"uploadfs-mount " + WORD, sentence)]


def test_a_message_that_says_what_to_do_names_the_command():
    found = [f"{path.relative_to(REPOSITORY)}: {text}" for path in TALKING for text in unnamed_commands(path.read_text())]
    assert not found, "name the command: `uploadfs-mount retry`, `cancel` or `publish`\n" + "\n".join(found)


def test_an_unnamed_command_is_found():
    assert unnamed_commands('let a = "Write it again, or "\n  + "publish it as it is."') == ["Write it again, or publish it as it is."]
    for good in (
            'let a = "Write it again, or publish it "\n  + "with `uploadfs-mount publish`."', 'case "retry"', '// "retry it now"',
            'name("after retry-delay=1s, no sooner")', 'log("cannot be published yet")'):
        assert unnamed_commands(good) == [], good


def test_rules_can_fail(tmp_path):
    """The patterns find what they are made for."""
    careless = tmp_path / "Careless.swift"
    careless.write_text(
        "let size = (try? file.status())?.st_size\n_ = fsync(number)\nunlink(path)\n// Found again at the next start.\nunlink(path)\n"
        "_ = try store.append(bytes)\nlet done = fsync(number)\ntry retrying {\npwrite(number, start, count, 0)\n}\n// Why not.\n"
        "let size = try? file.size\n")
    assert [place.split(":")[1] for place in disregarded(careless)] == ["1", "2", "3", "12"]
    sample = tmp_path / "Sample.swift"
    sample.write_text('let a = try! b()\nTask { x() }\n// Task { in a comment }\nlet text = "Task { in a text }"\nimport CFuse\n')
    assert re.search(r"\btry!", dict(lines(sample))[1])
    assert re.search(r"\bTask(\.detached)?\s*(\([^)]*\))?\s*\{", dict(lines(sample))[2])
    assert "Task" not in dict(lines(sample))[3] + dict(lines(sample))[4]
    assert re.search(IMPORT.format("CFuse"), dict(lines(sample))[5])
    for fresh in ("UInt64.random(in: 0...UInt64.max)", "Bool.random()", "var g = SystemRandomNumberGenerator()", "list.shuffled()"):
        assert re.search(FRESH, fresh), fresh
    for seeded in ("UInt8.random(in: 0...255, using: &draw)", ".random(seed: 1, count: 2)", "list.shuffled(using: &draw)"):
        assert not re.search(FRESH, seeded), seeded
    for hashed in (
            "var files: [FileID: File] = [:]", "var ids: Set<FileID> = []", "let ids = Set(list)", "func f(_ a: [Int: [UInt8]])",
            "private let state = Mutex<[String: Upload]>([:])", "let table = Dictionary(pairs) { $1 }", "-> [String: Int]? {",
            "case held(digests: [Int: [UInt8]])", "let sessions: [[UInt8]: FileID] = [:]", "let table = [FileID: Int](pairs)"):
        assert re.search(HASHED, hashed), hashed
    for ordered in (
            "var files: OrderedDictionary<FileID, File> = [:]", "var ids: LookupSet<FileID> = []", "let ids = OrderedSet(list)",
            "send(files: [file], to: server)", "extension [UInt8]: BodyBytes {", "let names = [first, second]", "LookupTable<Int, [UInt8]>", "publishing[key] = []",
            "let delays: LookupTable<State, Int> = [State.well: 1]", "names.randomElement(using: &random)"):
        assert not re.search(HASHED, ordered), ordered
    sample.write_text(
        "var files: [FileID: File] = [:]\nlet kept = Mutex<[FileID: File]>([:])\nvar ids: Set<FileID> = []\n"
        "for id in ids {\nfor (id, file) in state.files where file.isOpen {\nfor text in body.digests ?? [:] {\n"
        "let all = kept.values.map(\\.file)\nlet one = ids.first\nlet pieces = Array(state.files.values) + rest\n"
        "let known = files[id]\nids.contains(id)\nlet names = others.map(\\.name)\nfor id in files.sorted() {\n"
        "// In no order: each goes to its own place.\nfor id in ids {\n")
    assert [walk.split(":")[1] for walk in walks(sample)] == ["4", "5", "6", "7", "8", "9"]
