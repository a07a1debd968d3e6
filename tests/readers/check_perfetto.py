"""Decodes a trace by the protocol of the official package `perfetto`, and checks its structure.

    check_perfetto.py FILE EVENTS

No field is unknown. A parent is known, and is no child of its own. Slices of a track are nested: each has its begin
and its end, and no end is before its begin. Numbers of names are defined before their use. EVENTS is the number of
events that the program said.
"""

import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

EVENT = protos.TrackEvent


def unknown(message, path="Trace"):
    """The first field that the package does not know."""
    for field in unknown_fields.UnknownFieldSet(message):
        return f"{path}: field {field.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        values = value if descriptor.is_repeated else [value]
        for one in values:
            found = unknown(one, f"{path}.{descriptor.name}")
            if found:
                return found
    return None


def main():
    trace = protos.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    assert unknown(trace) is None, unknown(trace)

    parents, counters, open_slices, last = {}, set(), {}, {}
    names, categories, arrows = set(), set(), {}
    events = 0
    clocks = [packet.clock_snapshot for packet in trace.packet if packet.HasField("clock_snapshot")]
    assert len(clocks) == 1 and {clock.clock_id for clock in clocks[0].clocks} == {1, 3}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in parents, f"track {track.uuid} is there twice"
            assert track.name, f"track {track.uuid} has no name"
            if track.HasField("parent_uuid"):
                assert track.parent_uuid in parents, f"{track.name}: unknown parent"
            parents[track.uuid] = track.parent_uuid
            if track.HasField("counter"):
                counters.add(track.uuid)
        names |= {name.iid for name in packet.interned_data.event_names}
        categories |= {name.iid for name in packet.interned_data.event_categories}
        if not packet.HasField("track_event"):
            continue
        events += 1
        event, at = packet.track_event, packet.timestamp
        track = event.track_uuid
        assert track in parents, f"an event on the unknown track {track}"
        assert packet.timestamp_clock_id == 3, "the monotonic clock"
        assert last.get(track, 0) <= at or event.type == EVENT.TYPE_INSTANT, f"track {track}: time runs back"
        last[track] = max(last.get(track, 0), at)
        assert (event.type == EVENT.TYPE_COUNTER) == (track in counters), f"track {track}"
        if event.type in (EVENT.TYPE_SLICE_BEGIN, EVENT.TYPE_INSTANT):
            assert event.name_iid in names and set(event.category_iids) <= categories
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            open_slices.setdefault(track, []).append(at)
        elif event.type == EVENT.TYPE_SLICE_END:
            assert open_slices.get(track), f"track {track}: an end without its begin"
            assert open_slices[track].pop() <= at, f"track {track}: an end before its begin"
        for arrow in event.flow_ids:
            arrows.setdefault(arrow, []).append(at)
    left = {track: begins for track, begins in open_slices.items() if begins}
    assert not left, f"slices without an end: {left}"
    assert all(times == sorted(times) for times in arrows.values()), "an arrow leads back in time"
    for track in parents:
        above, seen = track, set()
        while above:
            assert above not in seen, f"track {track} is above itself"
            seen.add(above)
            above = parents[above]
    assert events == int(sys.argv[2]), f"{events} events, not {sys.argv[2]}"
    print(f"{events} events on {len(parents)} tracks, {len(arrows)} arrows")


main()
