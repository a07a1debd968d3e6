//! `sockscope top`.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use rustix::termios::tcgetwinsize;
use sockscope_analysis::TraceFacts;
use sockscope_probe::{Cgroup, Options, Pick};
use sockscope_program::failure::Failure;
use sockscope_program::machine;
use sockscope_program::output::write_to;
use sockscope_program::pick::PickArgs;
use sockscope_program::recorder_thread::{Message, Recording};
use sockscope_program::signals::StopSignals;
use sockscope_program::user_terminal::{asked_width, is_utf8, takes_color};
use sockscope_render::style::{Charset, Style};
use sockscope_view::top::{App, Board, Facts, Reaction, draw, picture, write_json, write_text};

use crate::args::{self, ColorArg};
use crate::keys::{self, Happened};

/// The recorder hands a record over at most so long after its time: figures end so long ago.
const RECORDS_TAKE: Duration = Duration::from_millis(100);
/// Between two looks at the keys.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Rows of the screen around the connections.
const FRAME_ROWS: u16 = 4;
/// More rows than a picture of a terminal has.
const PICTURE_ROWS_MAX: u16 = 60;
/// Columns where nothing says how many there are.
const WIDTH: usize = 80;

/// Shows waiting connections until the user ends it.
pub fn top(arguments: &args::Top) -> Result<(), Failure> {
    let is_terminal = io::stdout().is_terminal();
    if !arguments.once && !arguments.json && !is_terminal {
        return Err(Failure::new("standard output is no terminal: give --once or --json"));
    }
    arguments.pick.check(false)?;
    if let Some(right) = sockscope_probe::missing_right() {
        return Err(sockscope_probe::Error::NoRight { right }.into());
    }
    Cgroup::remove_stale()?;
    let pick = picked(&arguments.pick)?;
    let signals = StopSignals::register()?;
    let mut live = Live::start(arguments, pick)?;
    if arguments.once {
        live.once(&signals)
    } else if arguments.json {
        live.lines(&signals)
    } else {
        let mut terminal = ratatui::try_init()?;
        let ended = live.screen(&signals, &mut terminal);
        if ratatui::try_restore().is_err() {
            // It has gone. To drop it would show the cursor again, and panic because that fails.
            std::mem::forget(terminal);
        }
        ended
    }
}

/// Without an option: all sockets, which are those of the root control group.
pub fn picked(options: &PickArgs) -> Result<Pick, Failure> {
    if options.is_any() {
        return options.find(None);
    }
    let all = PickArgs { cgroup: Some(Cgroup::hierarchy()?), ..PickArgs::default() };
    all.find(None)
}

/// A running recording and its connections.
struct Live<'a> {
    arguments: &'a args::Top,
    recording: Recording,
    board: Board,
    facts: TraceFacts,
    namespaces: machine::LiveNamespaces,
    started: Instant,
    refreshed: Instant,
    style: Style,
}

impl<'a> Live<'a> {
    fn start(arguments: &'a args::Top, pick: Pick) -> Result<Self, Failure> {
        let slices = arguments.span.as_nanos().div_ceil(arguments.interval.as_nanos().max(1));
        let color = match arguments.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => io::stdout().is_terminal() && takes_color(),
        };
        let charset = if is_utf8() { Charset::Unicode } else { Charset::Ascii };
        let facts = TraceFacts {
            source: "live".to_owned(),
            drop_reasons: sockscope_probe::drop_reasons().into_iter().collect(),
            ..TraceFacts::default()
        };
        let recording = Recording::start(pick, Options::default())?;
        let now = Instant::now();
        Ok(Self {
            arguments,
            recording,
            board: Board::new(usize::try_from(slices).unwrap_or(usize::MAX)),
            facts,
            namespaces: machine::LiveNamespaces::default(),
            started: now,
            refreshed: now,
            style: Style { charset, color },
        })
    }

    /// Takes records for a moment.
    fn take(&mut self, wait: Duration) -> Result<(), Failure> {
        let board = &mut self.board;
        self.recording.take(wait, |message| match message {
            Message::Records(records) => board.push(&records),
            Message::Connection(connection) => board.connection(connection),
        })
    }

    /// Whether it is time for a refresh; then it is done. The time that the figures end, on the clock of the records.
    fn refresh(&mut self) -> Option<u64> {
        let now = Instant::now();
        if now - self.refreshed < self.arguments.interval {
            return None;
        }
        self.refreshed = now;
        let lag_ns = u64::try_from(RECORDS_TAKE.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = machine::clock().monotonic_ns;
        let until_ns = now_ns.saturating_sub(lag_ns);
        self.facts.network_namespaces = self.namespaces.names();
        self.board.refresh(self.facts.clone(), until_ns, now_ns);
        Some(until_ns)
    }

    fn is_over(&self, signals: &StopSignals) -> bool {
        let is_late = |duration| self.started.elapsed() >= duration;
        signals.stop_requested() || self.arguments.duration.is_some_and(is_late)
    }

    fn span_ns(&self) -> u64 {
        let lasted = self.started.elapsed().min(self.arguments.span);
        u64::try_from(lasted.as_nanos()).unwrap_or(u64::MAX)
    }

    fn once(&mut self, signals: &StopSignals) -> Result<(), Failure> {
        let span = self.arguments.span + RECORDS_TAKE;
        while self.started.elapsed() < span && !self.is_over(signals) {
            self.take(LOOK_EVERY)?;
            self.refresh();
        }
        let mut app = App::new();
        app.refresh(self.board.rows());
        let width = asked_width().or_else(columns).unwrap_or(WIDTH);
        if let Some(path) = &self.arguments.picture {
            let facts = Facts {
                span_ns: self.span_ns(),
                missed: self.recording.missed().total(),
                note: None,
            };
            let rows =
                u16::try_from(app.rows().len()).unwrap_or(u16::MAX).saturating_add(FRAME_ROWS);
            let size = (u16::try_from(width).unwrap_or(u16::MAX), rows.min(PICTURE_ROWS_MAX));
            let svg = picture(&app, self.board.analysis(), facts, size);
            return write_to(path, |out| out.write_all(svg.as_bytes()));
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        write_text(&app.rows(), self.span_ns(), width, self.style, &mut out)?;
        Ok(out.flush()?)
    }

    fn lines(&mut self, signals: &StopSignals) -> Result<(), Failure> {
        while !self.is_over(signals) {
            self.take(LOOK_EVERY)?;
            if let Some(at_ns) = self.refresh() {
                let mut app = App::new();
                app.refresh(self.board.rows());
                let mut out = io::BufWriter::new(io::stdout().lock());
                write_json(&app.rows(), at_ns, self.recording.missed().total(), &mut out)?;
                out.flush()?;
            }
        }
        Ok(())
    }

    fn screen(
        &mut self,
        signals: &StopSignals,
        terminal: &mut DefaultTerminal,
    ) -> Result<(), Failure> {
        let mut app = App::new();
        let happened = keys::listen();
        let mut is_drawn = false;
        while !self.is_over(signals) {
            self.take(LOOK_EVERY)?;
            if self.refresh().is_some() {
                app.refresh(self.board.rows());
                is_drawn = false;
            }
            // Where the terminal has gone the view ends, also below `nohup`, which ignores the hang-up.
            let Ok(height) = terminal.size().map(|size| usize::from(size.height)) else { break };
            while let Ok(happened) = happened.try_recv() {
                is_drawn = false;
                match happened {
                    Happened::Interrupt => return Ok(()),
                    Happened::Resize => {}
                    Happened::Key(key) => {
                        if app.key(key, height.saturating_sub(3)) == Reaction::Quit {
                            return Ok(());
                        }
                    }
                }
            }
            if !is_drawn {
                let note = ended(&self.arguments.pick);
                let facts = Facts {
                    span_ns: self.span_ns(),
                    missed: self.recording.missed().total(),
                    note: note.as_deref(),
                };
                let (analysis, style) = (self.board.analysis(), self.style);
                let drawn = terminal.draw(|frame| draw(frame, &app, analysis, facts, style));
                if drawn.is_err() {
                    break;
                }
                is_drawn = true;
            }
        }
        Ok(())
    }
}

/// Names the picked processes that ended.
fn ended(pick: &PickArgs) -> Option<String> {
    let is_there = |pid: &u32| fs::exists(Path::new("/proc").join(pid.to_string())).unwrap_or(true);
    let ended: Vec<String> =
        pick.pid.iter().filter(|pid| !is_there(pid)).map(u32::to_string).collect();
    (!ended.is_empty()).then(|| format!("process {} ended", ended.join(", ")))
}

/// Columns of the terminal on standard output.
fn columns() -> Option<usize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
