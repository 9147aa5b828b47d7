"""Prometheus' text format 0.0.4, read strictly: what this takes, every scraper takes."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|Inf)|NaN")


def unescaped(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match[1], match[1]), text)


def parse(text):
    """{name: {((label, value), …): number}}; raises AssertionError for anything that a scraper might stumble over."""
    assert text.endswith("\n"), "the last line must end"
    families, types, current = {}, {}, None
    lines = text[:-1].split("\n")
    for number, line in enumerate(lines, 1):
        where = f"line {number}: {line!r}"
        if help_line := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            current = help_line[1]
            assert current not in families, f"{where}: a second family of that name"
            families[current] = {}
        elif type_line := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge)", line):
            assert type_line[1] == current and current not in types, f"{where}: TYPE follows its HELP, once"
            assert not families[current], f"{where}: after the samples"
            types[current] = type_line[2]
            assert (types[current] == "counter") == current.endswith("_total"), f"{where}: only counters end in _total"
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, f"{where}: no sample"
            assert sample[1] == current and current in types, f"{where}: not below its HELP and TYPE"
            labels = tuple((name, unescaped(value)) for name, value in re.findall(LABEL, sample[2] or ""))
            assert len({name for name, _ in labels}) == len(labels), f"{where}: a label twice"
            assert labels not in families[current], f"{where}: a sample twice"
            assert NUMBER.fullmatch(sample[sample.lastindex]), f"{where}: no number"
            families[current][labels] = float(sample[sample.lastindex])
    for name, samples in families.items():
        assert name in types and samples, f"{name} has no type or no samples"
        assert len({tuple(label for label, _ in labels) for labels in samples}) == 1, f"{name}: labels differ"
    return families
