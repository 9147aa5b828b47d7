"""The tables of Benchmarks/network, of results that may be of several runs. A row compares what was measured in one."""

import math
import statistics

from network_programs import OURS
from table import Table, render_markdown

LARGE, SMALL, RECORDING = "large", "small", "recording"


def median(result):
    """Seconds, infinitely many of one that was ended; None without any."""
    if not result or "failure" in result or not result["seconds"]:
        return None
    return statistics.median(math.inf if seconds is None else seconds for seconds in result["seconds"])


def fastest(part):
    """The peer that took the least time, if one came to its end."""
    times = {name: median(result) for name, result in part["programs"].items() if name not in OURS}
    ended = {name: seconds for name, seconds in times.items() if seconds is not None and seconds < math.inf}
    return min(ended, key=ended.get, default=None)


class Report:
    def __init__(self, setting, records, late_factor):
        self.setting, self.names = setting, list(setting["programs"])
        self.records = [record for record in records if "not_carried" not in record]
        self.left_out = [record for record in records if "not_carried" in record]
        self.late, self.late_seconds = f"> {late_factor}×", late_factor * setting["seconds"]

    def render(self):
        setting, seconds = self.setting, self.setting["seconds"]
        parts = [
            f"{setting['machine']}; {setting['iperf3']}; rounds: {setting['rounds']} (after the first one uploadfs and the fastest peer)",
            "\n".join([
                *(f"- {name}: {what}" for name, what in setting["programs"].items()),
                *(f"- {name} is missing: {why}" for name, why in setting["missing"].items())]),
            f"One file of {seconds} s, share of the line:", self.shares(LARGE),
            f"Files of {setting['small_bytes'] // 1000} KB, {seconds} s together, share of the line:", self.shares(SMALL),
            f"A recording at {setting['recording_share']} of the line's rate, seconds from its close to its acknowledgement:", self.recordings(),
            "Bytes on the line for each byte of the files:", self.wires(),
            *(f"{record['cell']} was not measured: {record['not_carried']}" for record in self.left_out),
            "\n".join(f"{record['cell']}, {doubt}" for record in self.records for doubt in record["doubts"])]
        return "\n\n".join(part for part in parts if part)

    def shares(self, kind):
        rows = []
        for record in self.records:
            part, rate = record[kind], record["bits_per_second"]
            best, ratio = self.beside_best(part)
            rows.append([
                record["cell"], f"{record['iperf3'] / rate:.2f}", *[self.share(part, name, rate) for name in self.names],
                self.ratio(part["size"] * 8 / record["iperf3"], part), best, ratio])
        return render_markdown(["line", "iperf3", *self.names, "of iperf3", "best peer", "of best peer"], rows)

    def share(self, part, name, rate):
        return self.figure(part, name, lambda seconds: f"{part['size'] * 8 / seconds / rate:.2f}")

    def seconds(self, part, name):
        return self.figure(part, name, Table.text)

    def figure(self, part, name, text):
        """The median, with the quickest and the slowest round that came to its end."""
        result = part["programs"].get(name)
        if (middle := median(result)) is None:
            return "failed" if result else ""
        if middle == math.inf:
            return self.late
        ended = [seconds for seconds in result["seconds"] if seconds is not None]
        return text(middle) + (f" ({text(max(ended))}–{text(min(ended))})" if len(ended) > 1 else "")

    def beside_best(self, part):
        """The fastest peer, and how many times its rate uploadfs has."""
        if best := fastest(part):
            return best, self.ratio(median(part["programs"][best]), part)
        has_peers = any(name not in OURS for name in part["programs"])
        return "", f"> {self.ratio(self.late_seconds, part)}" if has_peers and self.has_ended(part) else ""

    @staticmethod
    def has_ended(part):
        return median(part["programs"].get("uploadfs")) not in (None, math.inf)

    def ratio(self, reference_seconds, part):
        return f"{reference_seconds / median(part['programs']['uploadfs']):.2f}" if self.has_ended(part) else ""

    def recordings(self):
        rows = []
        for record in self.records:
            part = record[RECORDING]
            best = fastest(part)
            theirs = f"{self.seconds(part, best)} {best}" if best else f"none with the large file within {self.late_seconds} s"
            ratio = f"{median(part['programs']['uploadfs']) / median(part['programs'][best]):.2f}" if best and self.has_ended(part) else ""
            rows.append([record["cell"], self.seconds(part, "uploadfs"), theirs, ratio])
        return render_markdown(["line", "uploadfs", "best peer, once it is closed", "ratio"], rows)

    def wires(self):
        rows = []
        for record in self.records:
            for kind, what in ((LARGE, "one file"), (SMALL, "small")):
                rows.append([record["cell"], what, *[self.wire(record[kind], name) for name in self.names]])
        return render_markdown(["line", "files", *self.names], rows)

    @staticmethod
    def wire(part, name):
        """Of transfers that came to their end."""
        result = part["programs"].get(name, {"wire": [], "seconds": []})
        known = [wire for wire, seconds in zip(result["wire"], result["seconds"]) if seconds is not None]
        return f"{statistics.median(known):.3f}" if known else ""
