//! Keys of a terminal.

use std::sync::mpsc::{Receiver, channel};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use sockscope_view::top::Key;

/// Something that happened at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    Key(Key),
    /// Ctrl-C, which a terminal in raw mode makes no signal of.
    Interrupt,
    /// Its size changed.
    Resize,
}

/// Keys and sizes from now on, by a thread. It ends with the process: after a hang-up its library reads the terminal again
/// and again.
pub fn listen() -> Receiver<Happened> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if happened(&event).is_some_and(|happened| sender.send(happened).is_err()) {
                return;
            }
        }
    });
    receiver
}

fn happened(event: &Event) -> Option<Happened> {
    let key = match event {
        Event::Resize(..) => return Some(Happened::Resize),
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return None,
    };
    let key = match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Some(Happened::Interrupt);
        }
        KeyCode::Char(character) => Key::Char(character),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    };
    Some(Happened::Key(key))
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn an_interrupt_is_no_character() {
        let key = |code, modifiers| happened(&Event::Key(KeyEvent::new(code, modifiers)));
        let c = KeyCode::Char('c');
        assert_eq!(key(c, KeyModifiers::CONTROL), Some(Happened::Interrupt));
        assert_eq!(key(c, KeyModifiers::NONE), Some(Happened::Key(Key::Char('c'))));
        assert_eq!(key(KeyCode::F(1), KeyModifiers::NONE), None);
        assert_eq!(happened(&Event::Resize(80, 24)), Some(Happened::Resize));
    }
}
