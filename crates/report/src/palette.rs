//! One look for each place: its letter, its colours, its meaning. All faces take them from here.
//!
//! The hue is that of the family, from the palette of Okabe and Ito; lightness and strength distinguish members. No
//! two places have the same colour, and those of two families differ for colour-blind readers too. Letters and names
//! stand next to colours, so that no meaning rests on colour alone.

use std::fmt::Write as _;

use sockscope_analysis::LedgerPart;
use sockscope_record::Stage;
use sockscope_render::page::Page;
use sockscope_render::theme::{self, Ink};

/// Places of one kind, which share a hue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// No byte is unread. Grey.
    Idle,
    /// The sender's side holds the byte, or its program. Blue.
    Send,
    /// A queue of an interface or of IP. Orange.
    Queue,
    /// Code or wire that the byte passes. Green.
    Transit,
    /// The reader's side. Purple.
    Receive,
    /// Dropped, vermilion; or unknown, grey.
    Trouble,
}

/// The look of a place of the ledger, or of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// In bars of text.
    pub letter: char,
    /// In style sheets, as `place-send_queue-nagle`.
    pub class: &'static str,
    /// Its kind.
    pub family: Family,
    /// On a light ground: `#rrggbb`.
    pub on_light: &'static str,
    /// On a dark ground: `#rrggbb`.
    pub on_dark: &'static str,
    /// One of the 256 colours of a terminal, whose ground may be light or dark.
    pub terminal: u8,
    /// In a few words.
    pub meaning: &'static str,
}

/// The look of a place of the ledger.
pub const fn place(part: LedgerPart) -> Look {
    use Family::{Idle, Queue, Receive, Send, Transit, Trouble};
    match part {
        LedgerPart::AppIdle => look(
            ('.', "place-app_idle"),
            Idle,
            ("#8a8a8a", "#7f7f7f", 241),
            "everything written was read",
        ),
        LedgerPart::Handshake => look(
            ('H', "place-handshake"),
            Transit,
            ("#023e3a", "#e0fcf7", 66),
            "the connection is not open yet",
        ),
        LedgerPart::SendBuffer => look(
            ('B', "place-send_buffer"),
            Send,
            ("#466ce6", "#406fbe", 99),
            "no room in the send buffer",
        ),
        LedgerPart::SendWriter => look(
            ('W', "place-send_buffer-writer"),
            Send,
            ("#5891d9", "#127efe", 105),
            "room again, its writer not back",
        ),
        LedgerPart::SendNagle => look(
            ('N', "place-send_queue-nagle"),
            Send,
            ("#0072b2", "#56b4e9", 63),
            "held by Nagle's algorithm",
        ),
        LedgerPart::SendCork => look(
            ('K', "place-send_queue-cork"),
            Send,
            ("#6077b5", "#6397e4", 98),
            "held by TCP_CORK or MSG_MORE",
        ),
        LedgerPart::SendCwnd => look(
            ('C', "place-send_queue-cwnd"),
            Send,
            ("#2f0eb0", "#a4adfd", 62),
            "congestion window full",
        ),
        LedgerPart::SendRwnd => look(
            ('R', "place-send_queue-rwnd"),
            Send,
            ("#7a7df6", "#6c73e5", 33),
            "receiver's window full",
        ),
        LedgerPart::SendPacing => look(
            ('P', "place-send_queue-pacing"),
            Send,
            ("#363784", "#5b4def", 135),
            "paced, or TCP small queues",
        ),
        LedgerPart::SendOther => look(
            ('S', "place-send_queue-other"),
            Send,
            ("#3338c2", "#97a3c6", 93),
            "in the send queue otherwise",
        ),
        LedgerPart::TcpOutput => {
            look(('o', "place-tcp_output"), Transit, ("#3aa65c", "#78c88d", 30), "protocol output")
        }
        LedgerPart::InterfaceQueue => look(
            ('Q', "place-interface_queue"),
            Queue,
            ("#c2720e", "#e69f00", 136),
            "in the interface's queue",
        ),
        LedgerPart::Wire => {
            look(('w', "place-wire"), Transit, ("#268458", "#7af49b", 65), "driver, wire, driver")
        }
        LedgerPart::InputQueue => look(
            ('q', "place-input_queue"),
            Queue,
            ("#472b00", "#fdbd22", 94),
            "in the IP input queue",
        ),
        LedgerPart::TcpInput => {
            look(('i', "place-tcp_input"), Transit, ("#2f6c49", "#66ad84", 29), "protocol input")
        }
        LedgerPart::ReceiveWakeup => look(
            ('U', "place-receive_queue-wakeup"),
            Receive,
            ("#9b3386", "#914e88", 127),
            "reader waits for a CPU",
        ),
        LedgerPart::ReceiveApp => look(
            ('A', "place-receive_queue-app"),
            Receive,
            ("#8e5285", "#d400b4", 133),
            "reader does something else",
        ),
        LedgerPart::Dropped => look(
            ('X', "place-dropped"),
            Trouble,
            ("#c43c00", "#e0562b", 160),
            "dropped, and not yet retransmitted",
        ),
        LedgerPart::Unknown => {
            look(('?', "place-unknown"), Trouble, ("#4d4d4d", "#c8c8c8", 246), "cannot be known")
        }
    }
}

/// The look of a stage: that of the place of the ledger, where the stage is one.
pub const fn stage(stage: Stage) -> Look {
    match stage {
        Stage::SendQueue => Look {
            class: "place-send_queue",
            meaning: "in the send queue",
            ..place(LedgerPart::SendOther)
        },
        Stage::TcpOutput => place(LedgerPart::TcpOutput),
        Stage::InterfaceQueue => place(LedgerPart::InterfaceQueue),
        Stage::Wire => place(LedgerPart::Wire),
        Stage::InputQueue => place(LedgerPart::InputQueue),
        Stage::TcpInput => place(LedgerPart::TcpInput),
        Stage::ReceiveQueue => {
            let names = ('r', "place-receive_queue");
            look(names, Family::Receive, ("#6b0c63", "#b03097", 170), "in the receive queue")
        }
        Stage::Total => place(LedgerPart::Unknown),
    }
}

/// The look of several small places that are shown together.
pub const REST: Look =
    Look { letter: '+', class: "place-rest", meaning: "", ..place(LedgerPart::AppIdle) };

const fn look(
    (letter, class): (char, &'static str),
    family: Family,
    (on_light, on_dark, terminal): (&'static str, &'static str, u8),
    meaning: &'static str,
) -> Look {
    Look { letter, class, family, on_light, on_dark, terminal, meaning }
}

/// All places, then the stages that are sums of places, then the rest.
fn all() -> impl Iterator<Item = Look> {
    let sums = [stage(Stage::SendQueue), stage(Stage::ReceiveQueue), REST];
    LedgerPart::ALL.map(place).into_iter().chain(sums)
}

/// The ink of a look, for things on `page`.
pub(crate) fn ink(look: Look, page: &mut Page) -> Ink {
    page.colour(look.class, [look.on_light, look.on_dark]);
    Ink::Class(look.class)
}

/// The colours as custom properties of CSS, `--place-send_queue-nagle`, for light and for dark grounds.
pub fn custom_properties() -> String {
    let block = |colour: fn(&Look) -> &'static str| {
        let mut css = String::from(":root{");
        for look in all() {
            // Writing to a String cannot fail.
            let _ = write!(css, "--{}:{};", look.class, colour(&look));
        }
        css.push('}');
        css
    };
    let (light, dark) = (block(|look| look.on_light), block(|look| look.on_dark));
    format!("{light}\n@media (prefers-color-scheme:dark){{{dark}}}\n")
}

/// Rules that give each class of a place its colour: by custom properties as `fill`, and as `--place` for what stands
/// in a text. Unknown time has the hatch of the drawings.
pub(crate) fn classes() -> String {
    let rule = |look: Look| format!(".{0}{{--place:var(--{0});fill:var(--{0})}}", look.class);
    all().map(rule).collect::<String>() + ".ledger-bar .place-unknown{fill:url(#hatch)}"
}

/// The rules of lines and areas in the colours of places, for light and for dark grounds.
pub(crate) fn rules() -> [String; 2] {
    let colours: [fn(&Look) -> &'static str; 2] = [|look| look.on_light, |look| look.on_dark];
    colours.map(|colour| all().map(|look| theme::rules(look.class, colour(&look))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red, green and blue, linear, 0 to 1.
    type Rgb = [f64; 3];

    /// How red, green and blue mix for an eye without one kind of cone (Machado, Oliveira and Fernandes,
    /// "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1.0).
    const EYES: [[Rgb; 3]; 2] = [
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ];

    /// Grounds: the page of a figure, the page in the dark.
    const LIGHT: &str = "#ffffff";
    const DARK: &str = "#16181d";

    fn linear(byte: u8) -> f64 {
        let value = f64::from(byte) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    fn rgb(colour: &str) -> Rgb {
        let byte = |at: usize| u8::from_str_radix(&colour[at..at + 2], 16).unwrap();
        [1, 3, 5].map(|at| linear(byte(at)))
    }

    /// A colour of the cube or of the grey ramp of xterm.
    fn terminal_rgb(colour: u8) -> Rgb {
        let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
        match colour {
            232.. => [linear(8 + 10 * (colour - 232)); 3],
            _ => {
                let cube = colour.checked_sub(16).expect("the first 16 differ between terminals");
                [cube / 36, cube / 6 % 6, cube % 6].map(|step| linear(level(step)))
            }
        }
    }

    /// Contrast of two colours (WCAG 2.2, "contrast ratio").
    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let luminance = |[r, g, b]: Rgb| 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
        let (one, other) = (luminance(one), luminance(other));
        one.max(other) / one.min(other)
    }

    /// Distance in the space OKLab, in which equal distances look about equal; 0.02 is just visible.
    fn distance(one: Rgb, other: Rgb) -> f64 {
        let lab = |[r, g, b]: Rgb| {
            let l = (0.412_221_47 * r + 0.536_332_54 * g + 0.051_445_99 * b).max(0.0).cbrt();
            let m = (0.211_903_50 * r + 0.680_699_55 * g + 0.107_396_96 * b).max(0.0).cbrt();
            let s = (0.088_302_46 * r + 0.281_718_84 * g + 0.629_978_70 * b).max(0.0).cbrt();
            [
                0.210_454_26 * l + 0.793_617_79 * m - 0.004_072_05 * s,
                1.977_998_50 * l - 2.428_592_21 * m + 0.450_593_71 * s,
                0.025_904_04 * l + 0.782_771_77 * m - 0.808_675_77 * s,
            ]
        };
        let (one, other) = (lab(one), lab(other));
        one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn seen_with(eye: &[Rgb; 3], colour: Rgb) -> Rgb {
        eye.map(|row| {
            let mixed: f64 = row.iter().zip(colour).map(|(share, value)| share * value).sum();
            mixed.clamp(0.0, 1.0)
        })
    }

    /// All that can stand in one drawing: places, and the receive queue as one.
    fn looks() -> Vec<Look> {
        let others = ["place-send_queue", REST.class];
        all().filter(|it| !others.contains(&it.class)).collect()
    }

    /// The colours of a look on a light ground, on a dark one, on a terminal.
    fn colours(look: Look) -> [Rgb; 3] {
        [rgb(look.on_light), rgb(look.on_dark), terminal_rgb(look.terminal)]
    }

    fn pairs() -> Vec<(Look, Look)> {
        let looks = looks();
        let later = |index: usize| looks[index + 1..].iter();
        let pairs = looks.iter().enumerate();
        pairs.flat_map(|(index, one)| later(index).map(|other| (*one, *other))).collect()
    }

    /// Fails when a reader cannot distinguish the two, whose colours an eye changes.
    fn assert_distinct(one: Look, other: Look, eye: impl Fn(Rgb) -> Rgb) {
        for (first, second) in colours(one).into_iter().zip(colours(other)) {
            let distance = distance(eye(first), eye(second));
            assert!(distance >= 0.05, "{}, {}: {distance:.3}", one.class, other.class);
        }
    }

    #[test]
    fn no_two_places_have_the_same_letter_or_colour() {
        for (one, other) in pairs() {
            assert_ne!(one.letter, other.letter, "{} and {}", one.class, other.class);
            assert_distinct(one, other, |colour| colour);
        }
    }

    #[test]
    fn every_colour_stands_out_from_its_ground() {
        for look in looks() {
            let [light, dark, terminal] = colours(look);
            let pairs =
                [(light, LIGHT), (dark, DARK), (terminal, "#ffffff"), (terminal, "#000000")];
            for (colour, ground) in pairs {
                let contrast = contrast(colour, rgb(ground));
                assert!(contrast >= 3.0, "{} on {ground}: {contrast:.2}", look.class);
            }
        }
    }

    #[test]
    fn families_differ_without_red_or_green_cones() {
        for (one, other) in pairs().into_iter().filter(|(one, other)| one.family != other.family) {
            for eye in &EYES {
                assert_distinct(one, other, |colour| seen_with(eye, colour));
            }
        }
    }

    #[test]
    fn a_class_is_the_name_of_its_place() {
        let class = |name: &str| format!("place-{}", name.replace('.', "-"));
        for part in LedgerPart::ALL {
            assert_eq!(place(part).class, class(part.name()));
        }
        for it in Stage::ALL.into_iter().filter(|it| *it != Stage::Total) {
            assert_eq!(stage(it).class, class(it.name()));
        }
    }

    #[test]
    fn the_style_sheet_has_each_place_once_for_light_and_once_for_dark() {
        let css = custom_properties();
        let (light, dark) = css.split_once("@media (prefers-color-scheme:dark)").unwrap();
        for look in all() {
            let property = |colour: &str| format!("--{}:{colour};", look.class);
            assert_eq!(light.matches(&property(look.on_light)).count(), 1, "{look:?}");
            assert_eq!(dark.matches(&property(look.on_dark)).count(), 1, "{look:?}");
        }
        assert!(light.contains("--place-send_queue-nagle:#0072b2;"), "{light}");
    }
}
