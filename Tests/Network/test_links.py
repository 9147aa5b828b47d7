"""What a path does to packets, on a clock that only the test moves."""

import itertools
import math

import pytest

from program import network_program
from replay import balance, packets, replay


def test_a_packet_takes_its_time_on_the_line_and_the_delay():
    run = replay("set 0 upstream rate=8mbit delay=50ms", packets(3, length=1000))
    assert [fate.at for fate in run.of("out")] == [51_000, 52_000, 53_000]


def test_directions_have_settings_of_their_own():
    run = replay(
        "set 0 upstream delay=10ms", "set 0 downstream delay=30ms", packets(1), packets(1, direction="downstream"))
    assert [(fate.direction, fate.at) for fate in run.fates] == [("upstream", 10_000), ("downstream", 30_000)]


def test_a_new_rate_holds_for_what_waits_and_for_the_rest_of_what_is_sent():
    run = replay(
        "set 0 upstream rate=8mbit", packets(3, length=1000), "at 0.0005 set 0 upstream rate=800kbit",
        packets(1, start=900_000))
    # Half of the first packet went out at the old rate.
    assert [fate.at for fate in run.of("out")][:3] == [5_500, 15_500, 25_500]


def test_the_same_seed_drops_the_same_packets():
    def lost(seed, spacing=100, more=""):
        return replay(f"set 0 upstream loss=0.05 {more}", packets(2000, spacing), seed=seed).numbers("loss")

    assert lost(1) == lost(1) == lost(1, spacing=7000) == lost(1, more="delay=20ms reorder=0.3 duplicate=0.3")
    assert lost(1) != lost(2)


def test_directions_and_paths_draw_for_themselves():
    run = replay("set 0 both loss=0.05", packets(2000), packets(2000, direction="downstream"))
    assert run.numbers("loss") != run.numbers("loss", "downstream")


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2])
def test_the_share_of_lost_packets_is_the_one_asked_for(share):
    count = 100_000
    run = replay(f"set 0 upstream loss={share}", packets(count, 1))
    deviation = math.sqrt(count * share * (1 - share))
    assert abs(len(run.of("loss")) - count * share) < 4.5 * deviation


def runs_of(numbers):
    """Lengths of the runs of consecutive numbers."""
    starts = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    return [len(list(run)) for _, run in starts]


def test_single_losses_come_alone_and_bursts_in_bursts():
    def runs(words):
        return runs_of(replay(f"set 0 upstream loss=0.02 {words}", packets(100_000, 1)).numbers("loss"))

    single, bursts = runs(""), runs("burst=10")
    assert sum(single) / len(single) == pytest.approx(1.02, abs=0.02)
    assert sum(bursts) / len(bursts) == pytest.approx(10, rel=0.2)
    assert sum(bursts) / 100_000 == pytest.approx(0.02, rel=0.25)


def test_a_bad_time_may_let_packets_through():
    lost = replay("set 0 upstream loss=0.02 burst=20 burst-loss=0.5", packets(100_000, 1)).numbers("loss")
    assert len(lost) / 100_000 == pytest.approx(0.02, rel=0.3)
    # Within a bad time each second packet is lost, and almost none between them.
    assert sum(1 for one, other in zip(lost, lost[1:]) if other - one == 1) / len(lost) == pytest.approx(0.475, abs=0.06)


def test_a_queue_of_packets_holds_so_many():
    run = replay("set 0 upstream rate=8mbit queue=5p", packets(10))
    # One is being sent, five wait.
    assert run.numbers("out") == [0, 1, 2, 3, 4, 5] and run.numbers("queue") == [6, 7, 8, 9]
    assert run.counters["upstream"]["queue_packets_most"] == 5


def test_a_queue_of_seconds_lets_no_packet_wait_longer():
    run = replay("set 0 upstream rate=8mbit queue=10ms", packets(20), packets(20, start=5_000))
    waits = [fate.at - 1000 - (0 if fate.number < 20 else 5_000) for fate in run.of("out")]
    assert max(waits) == 10_000
    # 0 to 10 ms of waiting, then as much as was sent until the second ones came.
    assert run.numbers("out") == [*range(11), *range(20, 25)]
    assert run.counters["upstream"]["queue_seconds_most"] == 0.01


def test_a_line_without_a_rate_has_no_queue():
    run = replay("set 0 upstream delay=1ms queue=1p", packets(100))
    assert {fate.at for fate in run.of("out")} == {1000}


def test_jitter_moves_packets_but_keeps_their_order():
    run = replay("set 0 upstream delay=50ms jitter=20ms", packets(2000, 1000))
    delays = [fate.at - 1000 * fate.number for fate in run.of("out")]
    assert run.numbers("out") == list(range(2000)) and run.counters["upstream"]["reordered"] == 0
    assert 30_000 <= min(delays) < 35_000 and 65_000 < max(delays) <= 70_000
    assert sum(delays) / len(delays) == pytest.approx(52_000, abs=4000)


def test_held_back_packets_are_overtaken_and_counted():
    run = replay("set 0 upstream delay=10ms reorder=0.1 reorder-by=3ms", packets(5000, 1000))
    latest, overtaken = -1, []
    for number in run.numbers("out"):
        if number < latest:
            overtaken.append(number)
        latest = max(latest, number)
    assert len(overtaken) == run.counters["upstream"]["reordered"] == pytest.approx(500, abs=100)
    assert sorted(run.numbers("out")) == list(range(5000))


def test_copies_are_counted():
    run = replay("set 0 upstream delay=10ms duplicate=0.1", packets(5000, 1000))
    copies = len(run.of("out")) - 5000
    assert set(run.numbers("out")) == set(range(5000))
    assert copies == run.counters["upstream"]["duplicated"]["packets"] == pytest.approx(500, abs=100)


def test_a_path_that_is_down_loses_what_comes_and_what_waits():
    run = replay(
        "set 0 upstream rate=8mbit delay=20ms", "at 0.0035 set 0 upstream down=1", "at 0.01 set 0 upstream down=0",
        packets(6), packets(1, start=9_000), packets(1, start=11_000))
    # Three have left the bottleneck and arrive, although the path is down by then.
    assert run.numbers("out") == [0, 1, 2, 7] and run.numbers("down") == [3, 4, 5, 6]


def test_what_is_too_big_for_the_path_is_dropped():
    run = replay("set 0 upstream mtu=1200", packets(1, length=1200), packets(1, length=1201))
    assert run.numbers("out") == [0] and run.numbers("too_big") == [1]


def test_a_sender_beside_takes_its_share():
    # 10 seconds, in which 10 Mbit/s are offered to what is left of a line of 10 Mbit/s. Not in the line's own beat, which
    # would find a place in the queue each time.
    ours = [f"packet upstream {number * 1200 + number * 7919 % 1200} 1500" for number in range(8333)]
    run = replay("set 0 upstream rate=10mbit queue=50ms beside=4mbit", ours)
    upstream = run.counters["upstream"]
    beside = upstream["beside"]["bytes"] / (upstream["beside"]["bytes"] + upstream["out"]["bytes"])
    offered = upstream["beside"]["bytes"] + upstream["beside_dropped"]["bytes"]
    assert offered * 8 / 10 == pytest.approx(4e6, rel=0.1)
    # A full queue drops both alike: of 14 Mbit/s, 4 are the other one's.
    assert beside == pytest.approx(4 / 14, rel=0.15)
    assert upstream["dropped"]["queue"]["packets"] > 1000


def test_packets_beyond_all_places_are_counted():
    run = replay("set 0 upstream delay=1s", packets(10), places=4)
    assert run.numbers("overflow") == [4, 5, 6, 7, 8, 9] and run.numbers("out") == [0, 1, 2, 3]
    assert balance(run.counters["upstream"]) == (0, 0)


EVERYTHING = [
    "set 0 both rate=10mbit delay=20ms jitter=5ms queue=30p mtu=1400 beside=1mbit",
    "set 0 both loss=0.05 burst=4 reorder=0.1 duplicate=0.1",
    "at 0.3 set 0 both down=1", "at 0.4 set 0 both down=0 rate=2mbit queue=50ms beside=0", "at 1 set 0 upstream rate=0"]


def everything():
    lines = list(EVERYTHING)
    for number in range(3000):
        lines.append(f"packet {('upstream', 'downstream')[number % 2]} {number * 500} {100 + number * 37 % 1400}")
        if number % 100 == 0:
            lines.append("counters")
    return lines


def test_counters_add_up_at_every_moment():
    run = replay(everything())
    readings = [answer["paths"][0] for answer in run.answers if "paths" in answer]
    assert len(readings) == 30
    for reading in [*readings, run.counters]:
        assert balance(reading["upstream"]) == balance(reading["downstream"]) == (0, 0)
    assert any(reading["upstream"]["queued"]["packets"] for reading in readings)
    assert any(reading["upstream"]["flying"]["packets"] for reading in readings)
    for cause in ("queue", "loss", "down", "too_big"):
        assert run.counters["upstream"]["dropped"][cause]["packets"] == len(run.of(cause)) > 0
    assert run.counters["upstream"]["out"]["packets"] == len(run.of("out"))


def test_no_memory_is_misused():
    program = network_program(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"])
    assert replay(everything(), program=program).fates == replay(everything()).fates
    replay(everything(), places=8, program=program)


@pytest.mark.parametrize(
    "line", [
        "set 0 upstream rate=fast", "set 0 upstream rate=10", "set 0 upstream rate=-1mbit", "set 0 upstream loss=1.5",
        "set 0 upstream loss", "set 0 upstream queue=0p", "set 0 upstream delay=nan", "set 0 upstream speed=1",
        "set 0 upstream loss=0.6 burst=3 burst-loss=0.5", "set 0 upstream beside=1mbit", "set 0 sideways loss=0",
        "set 1 upstream loss=0", "set x upstream loss=0", "at -1 set 0 upstream loss=0", "at 1 set 0 upstream loss=2",
        "at 1 counters", "nonsense"])
def test_a_wrong_line_is_refused_and_changes_nothing(line):
    run = replay(line, packets(10))
    assert "error" in run.answers[0]
    assert [fate.at for fate in run.of("out")] == [0] * 10


def test_a_schedule_has_a_bound():
    run = replay(["at 1 set 0 upstream loss=0"] * 257)
    assert [answer for answer in run.answers if "error" in answer] == [{"error": "no more than 256 changes wait"}]
