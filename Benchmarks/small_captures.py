"""Small files as captures have them beside them: the header of a microscope's TIFF with a thumbnail, a JSON sidecar, a CSV log.
Of one kind no two are the same, and all are much alike."""

import json
import struct


def tiff(number, source):
    words = (
        f"images=1\nchannels=2\nexposure={source.uniform(5, 50):.3f} ms\nstage_x={source.uniform(0, 1e4):.2f}\n"
        f"stage_y={source.uniform(0, 1e4):.2f}\nz={number % 40}\ntime={1_700_000_000 + number / 4:.3f}\n").encode() + b"\0"
    stamp = b"2024:05:%02d %02d:%02d:%02d\0" % (1 + number // 3000, number // 3600 % 24, number // 60 % 60, number % 60)
    texts = {270: words, 305: b"capture 3.1\0", 306: stamp}
    tags = [
        (254, 4, 0), (256, 4, 2048), (257, 4, 2048), (258, 3, 16), (259, 3, 1), (262, 3, 1), (270, 2, None), (273, 4, 4096), (277, 3, 1),
        (278, 4, 2048), (279, 4, 8_388_608), (305, 2, None), (306, 2, None)]
    head, behind = struct.pack("<2sHIH", b"II", 42, 8, len(tags)), b""
    for tag, kind, value in tags:
        if tag in texts:
            head += struct.pack("<HHII", tag, kind, len(texts[tag]), 14 + 12 * len(tags) + len(behind))
            behind += texts[tag]
        else:
            head += struct.pack("<HHII", tag, kind, 1, value)
    thumbnail = struct.pack("<64H", *(max(0, int(source.gauss(900 + number % 50, 30))) for _ in range(64)))
    return head + bytes(4) + behind + thumbnail


def sidecar(number, source):
    def rounded(low, high):
        return round(source.uniform(low, high), 3)
    return json.dumps({
        "schema": "capture/2", "id": f"{source.getrandbits(128):032x}", "file": f"scan_{number:05}.tif",
        "started": f"2024-05-{1 + number // 3000:02}T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.{source.randrange(1000):03}Z",
        "operator": source.choice(["anna", "ben", "chris"]),
        "device": {"maker": "Acme", "model": "SC-400", "serial": "A4-00193", "firmware": "3.1.7"}, "exposure_ms": rounded(5, 50),
        "gain": source.choice([1, 2, 4]), "temperature_c": round(source.gauss(21, 0.3), 2),
        "position": {"x": rounded(0, 1e4), "y": rounded(0, 1e4), "z": rounded(0, 50)},
        "channels": [{"name": "DAPI", "wavelength_nm": 405, "power_mw": rounded(1, 5)}, {"name": "GFP", "wavelength_nm": 488, "power_mw": rounded(1, 5)}],
        "sha256": source.randbytes(32).hex(), "notes": ""}, indent=2).encode()


def log(number, source):
    lines, temperature, pressure = ["time,temperature,pressure,humidity,flow,state"], 21.0, 1013.0
    for row in range(source.randrange(40, 400)):
        temperature, pressure = temperature + source.gauss(0, 0.02), pressure + source.gauss(0, 0.05)
        lines.append(
            f"{1_700_000_000 + number * 60 + row / 2:.1f},{temperature:.3f},{pressure:.2f},{source.gauss(45, 1):.1f},"
            f"{source.gauss(3.2, 0.02):.4f},{source.choice(['OK', 'OK', 'OK', 'WARN'])}")
    return "\n".join([*lines, ""]).encode()


KINDS = {"tiff-headers": tiff, "sidecars": sidecar, "logs": log}
