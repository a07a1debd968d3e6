//! Each rule of TCP in words.

use sockscope_stack::tcp::{
    Announced, Complaints, CongestionRules, Duplicates, Estimator, HeaderPlace, InitialWindow,
    InputRules, KeepAlive, OptionRules, Persist, Quench, RttRules, SegmentRules, ShortSegments,
    TICKS_PER_SECOND, TcpRules, Timing, UrgentPointer, UrgentRules, WindowGrowth, WindowOffer,
    WindowUpdate,
};

use super::rows::{Row, number, part, yes};

type Rows = Vec<(&'static str, String)>;

pub fn tcp(rules: &TcpRules) -> Vec<Row> {
    let TcpRules { input, congestion, rtt, segments, keep_alive, .. } = rules;
    let mut rows = part("TCP: what leaves, and when", output(rules));
    let mut arrivals = arrivals(input);
    arrivals.push(("ICMP says \"unreachable\"", complaints(rules.complaints).to_owned()));
    rows.extend(part("TCP: what comes in", arrivals));
    rows.extend(part("TCP: congestion", congested(congestion)));
    rows.extend(part("TCP: time", times(rtt)));
    rows.extend(part("TCP: segment sizes", sizes(segments)));
    rows.extend(part("TCP: options", options(rules.options)));
    rows.extend(part("TCP: urgent data", urgent(rules.urgent)));
    rows.extend(part("TCP: keep-alive", keeping(keep_alive)));
    rows
}

/// Ticks of the slow timer in seconds.
fn seconds(ticks: u32) -> String {
    assert!(ticks.is_multiple_of(TICKS_PER_SECOND), "whole seconds");
    number(ticks / TICKS_PER_SECOND)
}

fn bounds((least, most): (u32, u32)) -> String {
    format!("{} to {}", seconds(least), seconds(most))
}

fn output(rules: &TcpRules) -> Rows {
    let TcpRules {
        short_segments,
        resends_one,
        mute_behind_fin,
        window_update,
        compares_unsigned,
        offer,
        persist,
        input: _,
        congestion: _,
        rtt: _,
        segments: _,
        header,
        small_copy_bytes,
        ttl,
        msl_ticks,
        keep_alive: _,
        complaints: _,
        options: _,
        urgent: _,
    } = rules;
    let short = match short_segments {
        ShortSegments::Quarter => {
            "if it empties the queue or is a quarter of the window".to_owned()
        }
        ShortSegments::Nagle { escape_bytes: None } => "by Nagle's rule".to_owned(),
        ShortSegments::Nagle { escape_bytes: Some(bytes) } => {
            format!("by Nagle's rule, or from {} bytes on", number(*bytes))
        }
    };
    let update = match window_update {
        WindowUpdate::Share { two_when_empty: false } => "at 35 % of the buffer",
        WindowUpdate::Share { two_when_empty: true } => "at 35 %, or two segments once empty",
        WindowUpdate::TwoOrHalf => "at two segments or half the buffer",
    };
    let offer = match offer {
        WindowOffer::Shrinks => "0 below a quarter of the buffer",
        WindowOffer::Kept => "0 below a quarter and a segment; never less than before",
    };
    let persist = match persist {
        Persist::ZeroWindow => "while the window is 0",
        Persist::Stuck => "whenever data wait and no timer runs",
    };
    let header = match header {
        HeaderPlace::End => "at the end of its mbuf".to_owned(),
        HeaderPlace::At(bytes) => format!("{bytes} bytes from the start of its mbuf"),
    };
    vec![
        ("A short segment leaves", short),
        ("After a timeout one segment at a time", yes(*resends_one)),
        ("Nothing leaves behind a FIN", yes(*mute_behind_fin)),
        ("Reading tells of the window", update.to_owned()),
        ("Space that shrank counts as huge there", yes(*compares_unsigned)),
        ("Window offered", offer.to_owned()),
        ("Persist timer runs", persist.to_owned()),
        ("Header", header),
        ("Data copied behind the header up to, bytes", number(*small_copy_bytes)),
        ("Time to live, hops", number(*ttl)),
        ("Maximum segment lifetime, s", seconds(*msl_ticks)),
    ]
}

fn urgent(rules: UrgentRules) -> Rows {
    let UrgentRules { pointer, can_stay_inline } = rules;
    let pointer = match pointer {
        UrgentPointer::Behind => "the octet behind urgent data",
        UrgentPointer::AtOctet => "the last octet of urgent data",
    };
    vec![
        ("The urgent pointer names", pointer.to_owned()),
        ("A program may leave the urgent octet in the stream", yes(can_stay_inline)),
    ]
}

fn options(rules: OptionRules) -> Rows {
    let OptionRules { window_scaling, timestamps, sack } = rules;
    vec![
        ("Windows above 65,535 bytes", yes(window_scaling)),
        ("Timestamps", yes(timestamps)),
        ("Selective acknowledgments", yes(sack)),
    ]
}

fn arrivals(rules: &InputRules) -> Rows {
    let InputRules {
        always_outputs,
        always_reassembles,
        answers_empty,
        answers_by_output,
        acks_out_of_order,
        reopens_time_wait,
        echoes_reset,
        predicts,
    } = rules;
    vec![
        ("Each segment ends with a call of output", yes(*always_outputs)),
        ("Data in order go through `tcp_reass`", yes(*always_reassembles)),
        ("A useless segment without data is answered", yes(*answers_empty)),
        ("Such answers come from `tcp_output`", yes(*answers_by_output)),
        ("Data out of order are acknowledged at once", yes(*acks_out_of_order)),
        ("A SYN reopens a connection in TIME_WAIT", yes(*reopens_time_wait)),
        ("A reset is answered by one", yes(*echoes_reset)),
        ("Header prediction", yes(*predicts)),
    ]
}

fn complaints(rule: Complaints) -> &'static str {
    match rule {
        Complaints::EndAll => "all connections to the address end",
        Complaints::TellAll => "a call on each connection to the address fails",
        Complaints::TellOne => "a call on the connection that is meant fails",
    }
}

fn congested(rules: &CongestionRules) -> Rows {
    let CongestionRules {
        initial,
        growth,
        timeout_shrinks,
        timeout_forgets_duplicates,
        duplicates,
        quench,
        full_queue_quenches,
        restarts_when_idle,
    } = rules;
    let initial = match initial {
        InitialWindow::Unlimited => "none",
        InitialWindow::SendBuffer => "the send buffer",
        InitialWindow::SendBufferIfLocal => "the send buffer; one segment if distant",
        InitialWindow::Segment => "one segment",
    };
    let growth = match growth {
        WindowGrowth::None => "nothing",
        WindowGrowth::Tenth => "a tenth",
        WindowGrowth::SlowStart { extra_eighth: false } => "slow start, then avoidance",
        WindowGrowth::SlowStart { extra_eighth: true } => "the same, an eighth of a segment more",
    };
    let duplicates = match duplicates {
        Duplicates::Ignored => "nothing",
        Duplicates::Resend => "fast retransmit",
        Duplicates::Recover => "fast retransmit and recovery",
    };
    let quench = match quench {
        Quench::Ignored => "nothing",
        Quench::Shrinks => "80 % of what is outstanding",
        Quench::Segment => "one segment",
    };
    vec![
        ("Congestion window begins at", initial.to_owned()),
        ("New acknowledgments add", growth.to_owned()),
        ("A timeout shrinks it to one segment", yes(*timeout_shrinks)),
        ("Three duplicate acknowledgments", duplicates.to_owned()),
        ("A timeout begins their count anew", yes(*timeout_forgets_duplicates)),
        ("A source quench leaves", quench.to_owned()),
        ("A full interface queue counts as a quench", yes(*full_queue_quenches)),
        ("Slow start after an idle timeout", yes(*restarts_when_idle)),
    ]
}

fn times(rules: &RttRules) -> Rows {
    let RttRules { estimator, timing, timeout_ticks, persist_ticks, backoff_tenths, timeouts_max } =
        rules;
    let (estimator, first) = match estimator {
        Estimator::Mean { unmeasured_ticks, backs_off_mean } => {
            let backs_off = if *backs_off_mean { ", backed off from one" } else { "" };
            (format!("two means{backs_off}"), seconds((2 * unmeasured_ticks).max(2)))
        }
        Estimator::Deviation { deviations } => {
            (format!("mean and {deviations} deviations"), seconds(12))
        }
    };
    let timing = match timing {
        Timing::FromRestart => "from a restart of the timer on",
        Timing::Cancelled => "unless the timer is started",
        Timing::FirstKept => "until a timeout, but for the first sample",
        Timing::Karn => "until it is sent again (Karn's rule)",
    };
    let backoff: Vec<String> = backoff_tenths.iter().map(|tenths| factor(*tenths)).collect();
    vec![
        ("Retransmission timeout", estimator),
        ("Before a first sample, s", first),
        ("A segment is timed", timing.to_owned()),
        ("Bounds of the timeout, s", bounds(*timeout_ticks)),
        ("Bounds of the persist timer, s", bounds(*persist_ticks)),
        ("Factors of timeouts in a row", backoff.join(" ")),
        ("Timeouts in a row at most", number(*timeouts_max)),
    ]
}

fn factor(tenths: u32) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        rest => format!("{}.{rest}", tenths / 10),
    }
}

fn sizes(rules: &SegmentRules) -> Rows {
    let SegmentRules { announced, round_bytes, distant_bytes, default_bytes, rounds_buffers } =
        rules;
    let announced = match announced {
        Announced::HalfBuffer => "half the buffer, at most 1,024",
        Announced::HalfOrInterface => "half the buffer, or what the interface takes",
        Announced::Interface => "what the interface takes",
    };
    let unless_zero = |bytes: u32| if bytes == 0 { "no".to_owned() } else { number(bytes) };
    vec![
        ("A SYN announces", announced.to_owned()),
        ("Larger sizes are rounded to multiples of", unless_zero(*round_bytes)),
        ("Limit for distant peers", unless_zero(*distant_bytes)),
        ("Without a word from the peer", number(*default_bytes)),
        ("Buffers become whole segments", yes(*rounds_buffers)),
    ]
}

fn keeping(rules: &KeepAlive) -> Rows {
    let KeepAlive {
        handshake_ticks,
        idle_ticks,
        interval_ticks,
        idle_ticks_max,
        fin_wait_ticks,
        sends_byte,
    } = rules;
    vec![
        ("A handshake is given up after, s", seconds(*handshake_ticks)),
        ("First probe after, s", seconds(*idle_ticks)),
        ("Between probes, s", seconds(*interval_ticks)),
        ("Given up after, s", seconds(*idle_ticks_max)),
        ("A missing FIN is waited for, s", seconds(*fin_wait_ticks)),
        ("A probe carries a byte", yes(*sends_byte)),
    ]
}
