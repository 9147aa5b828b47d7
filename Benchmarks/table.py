"""The table that the benchmark prints."""

import statistics


class AtLeast:
    """A target that a figure must reach."""

    def __init__(self, bound):
        self.bound = bound

    def __str__(self):
        return f"≥ {Table.text(self.bound)}"

    def is_met(self, value):
        return value >= self.bound


class AtMost(AtLeast):
    """A target that a figure must not exceed."""

    def __str__(self):
        return f"≤ {Table.text(self.bound)}"

    def is_met(self, value):
        return value <= self.bound


class Table:
    """Rows of the result: what, uploadfs, reference, ratio, target."""

    def __init__(self):
        self.rows = []

    def add(self, what, values, reference_values=None, unit="", rate_of=None, reference="", target=None):
        """Medians of times, or of rates when `rate_of` took these times. A ratio of rates says how much of the
        reference is reached; a ratio of times and costs how many times the reference it is. The target is one of the
        ratio where there is a reference, and of the figure itself where there is none."""
        ours, spread = self.figure(values, rate_of)
        row = {"what": what, "uploadfs": f"{self.text(ours)} {unit}{spread}".strip(), "value": ours}
        measured = ours
        if reference_values:
            theirs, spread = self.figure(reference_values, rate_of)
            measured = ours / theirs if theirs else None
            row["reference"] = f"{self.text(theirs)} {unit}{spread} {reference}".strip()
            row["reference_value"] = theirs
            row["ratio"] = f"{measured:.2f}" if theirs else ""
        if target and measured is not None:
            bound = str(target) if reference_values else f"{target} {unit}".strip()
            row["target"] = f"{bound}: {'met' if target.is_met(measured) else 'MISSED'}"
            row["met"] = target.is_met(measured)
        self.rows.append(row)

    def add_unavailable(self, what, why, target=""):
        """A row for what could not be measured."""
        self.rows.append({"what": what, "uploadfs": f"not available: {why}", "target": str(target)})

    @staticmethod
    def text(value):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"

    @classmethod
    def figure(cls, values, rate_of):
        values = [rate_of / max(value, 1e-9) if rate_of else value for value in values]
        spread = f" ({cls.text(min(values))}–{cls.text(max(values))})" if len(values) > 1 else ""
        return statistics.median(values), spread

    def render(self):
        """Markdown, to be pasted into docs/performance.md."""
        columns = ["what", "uploadfs", "reference", "ratio", "target"]
        return render_markdown(columns, [[row.get(key, "") for key in columns] for row in self.rows])


def render_markdown(columns, rows):
    """A table of texts."""
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    def line(texts):
        return "| " + " | ".join(text.ljust(width) for text, width in zip(texts, widths)) + " |"
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([line(columns), rule, *map(line, rows)])
