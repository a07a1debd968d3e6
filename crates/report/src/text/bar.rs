//! The ledger as one bar and its legend.
//!
//! Each part has its own letter, so that the bar reads without colour; parts below 1 % are summed
//! up. Percentages are rounded so that they add up to 100.0 exactly.

use std::io;

use sockscope_analysis::LedgerPart;

use super::page::Page;
use crate::number::{apportion, percent};
use crate::style::Tone;

/// Columns of the bar in a report, its ends included: as long as the path above it.
pub(crate) const BAR_WIDTH: usize = 64;

/// Smallest share with a letter of its own, in tenths of a percent.
const SHOWN_MIN: u64 = 10;

/// A part as it is printed.
struct Shown {
    letter: char,
    tone: Tone,
    ns: u64,
    tenths: u64,
    text: String,
}

/// The bar alone, `width` columns; a line of `?` when no time is covered.
pub(crate) fn bar(ns: &[u64; LedgerPart::ALL.len()], width: usize, page: &Page<'_>) -> String {
    let (open, close) = page.style.glyphs().bar;
    let inside = (width - 2) as u64;
    let shown = shown(ns);
    // Room for one cell each first: what has a line in the legend is to be seen in the bar.
    let weights: Vec<u64> = shown.iter().map(|part| part.ns).collect();
    let ones = shown.len() as u64;
    let cells = apportion(&weights, inside.saturating_sub(ones));
    let mut text = String::new();
    for (part, cells) in shown.iter().zip(cells) {
        let run = part.letter.to_string().repeat(cells as usize + 1);
        text.push_str(&page.style.paint(&run, part.tone));
    }
    if shown.is_empty() {
        text = "?".repeat(width - 2);
    }
    format!("{open}{text}{close}")
}

/// The bar's legend, a line for each part of 1 % or more, largest first, after `indent` columns.
pub(crate) fn legend(
    ns: &[u64; LedgerPart::ALL.len()],
    indent: usize,
    page: &mut Page<'_>,
) -> io::Result<()> {
    let mut shown = shown(ns);
    shown.sort_by_key(|part| (part.letter == REST, std::cmp::Reverse(part.ns)));
    for part in shown {
        let letter = page.style.paint(&part.letter.to_string(), part.tone);
        let (share, time) = (percent(part.tenths), page.time(part.ns));
        let text = page.clean(&part.text);
        page.line(&format!("{:indent$}{letter} {share:>7} {time:>8}  {text}", ""))?;
    }
    Ok(())
}

/// Letter of the parts below 1 % together.
const REST: char = '+';

/// The parts of 1 % or more in path order, then the others as one.
fn shown(ns: &[u64; LedgerPart::ALL.len()]) -> Vec<Shown> {
    let tenths = apportion(ns, 1000);
    let mut shown = Vec::new();
    let mut rest = Shown { letter: REST, tone: Tone::Faint, ns: 0, tenths: 0, text: String::new() };
    let mut rest_parts = 0;
    for ((part, &ns), tenths) in LedgerPart::ALL.into_iter().zip(ns).zip(tenths) {
        if tenths >= SHOWN_MIN {
            let (letter, tone, meaning) = look(part);
            let text = format!("{:<20}  {meaning}", part.name());
            shown.push(Shown { letter, tone, ns, tenths, text });
        } else if ns > 0 {
            rest_parts += 1;
            rest.ns = rest.ns.saturating_add(ns);
            rest.tenths += tenths;
            rest.text = part.name().to_owned();
        }
    }
    if rest_parts > 1 {
        rest.text = format!("{rest_parts} parts below 1 % each");
    }
    shown.extend((rest_parts > 0).then_some(rest));
    shown
}

/// Letter, colour and meaning of a part.
fn look(part: LedgerPart) -> (char, Tone, &'static str) {
    match part {
        LedgerPart::AppIdle => ('.', Tone::Fill(0), "everything written was read"),
        LedgerPart::SendNagle => ('N', Tone::Fill(1), "held by Nagle's algorithm"),
        LedgerPart::SendCork => ('K', Tone::Fill(1), "held by TCP_CORK or MSG_MORE"),
        LedgerPart::SendCwnd => ('C', Tone::Fill(1), "congestion window full"),
        LedgerPart::SendRwnd => ('R', Tone::Fill(1), "receiver's window full"),
        LedgerPart::SendPacing => ('P', Tone::Fill(1), "paced, or TCP small queues"),
        LedgerPart::SendOther => ('S', Tone::Fill(1), "in the send queue otherwise"),
        LedgerPart::TcpOutput => ('o', Tone::Fill(3), "TCP and IP output"),
        LedgerPart::InterfaceQueue => ('Q', Tone::Fill(2), "in the interface's queue"),
        LedgerPart::Wire => ('w', Tone::Fill(3), "driver, wire, driver"),
        LedgerPart::InputQueue => ('q', Tone::Fill(2), "in the IP input queue"),
        LedgerPart::TcpInput => ('i', Tone::Fill(3), "IP and TCP input"),
        LedgerPart::ReceiveWakeup => ('U', Tone::Fill(4), "reader waits for a CPU"),
        LedgerPart::ReceiveApp => ('A', Tone::Fill(4), "reader does something else"),
        LedgerPart::Unknown => ('?', Tone::Fill(5), "cannot be known"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Options;

    fn drawn(ns: [u64; 15], width: usize) -> String {
        let mut out = Vec::new();
        let options = Options { charset: crate::Charset::Ascii, ..Options::default() };
        bar(&ns, width, &Page::new(&mut out, &options))
    }

    fn parts(of: &[(LedgerPart, u64)]) -> [u64; 15] {
        let mut ns = [0; 15];
        of.iter().for_each(|&(part, value)| ns[part as usize] = value);
        ns
    }

    #[test]
    fn the_bar_is_in_path_order_and_in_proportion() {
        let ns = parts(&[(LedgerPart::ReceiveApp, 25), (LedgerPart::SendNagle, 75)]);
        assert_eq!(drawn(ns, 22), "[NNNNNNNNNNNNNNNAAAAA]");
    }

    #[test]
    fn one_percent_is_seen_and_less_is_summed_up() {
        let ns = parts(&[
            (LedgerPart::Wire, 984),
            (LedgerPart::AppIdle, 10),
            (LedgerPart::TcpInput, 3),
            (LedgerPart::TcpOutput, 3),
        ]);
        assert_eq!(drawn(ns, 22), "[.wwwwwwwwwwwwwwwwww+]");
    }

    #[test]
    fn no_time_is_unknown() {
        assert_eq!(drawn([0; 15], 6), "[????]");
    }

    proptest! {
        #[test]
        fn any_ledger_fills_the_bar_and_adds_up_to_100(ns in any::<[u64; 15]>(), shifts in any::<[u8; 15]>()) {
            let mut ns = ns;
            ns.iter_mut().zip(shifts).for_each(|(ns, shift)| *ns >>= shift % 64);
            prop_assert_eq!(drawn(ns, BAR_WIDTH).len(), BAR_WIDTH);
            let tenths: u64 = shown(&ns).iter().map(|part| part.tenths).sum();
            prop_assert_eq!(tenths, if ns.iter().all(|&ns| ns == 0) { 0 } else { 1000 });
        }
    }
}
