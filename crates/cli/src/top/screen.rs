//! The terminal while `hythe top` has it: entered, drawn on, asked for keys, and given back
//! whatever ends the command.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};

use crate::error::CliError;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Sort,
    Up,
    Down,
}

/// The terminal. Dropped, or behind a panic, it is as it was.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn enter() -> Result<Self, CliError> {
        // Sets the hook that gives the terminal back before a panic is printed.
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                ratatui::restore();
                Err(failed("set up the terminal")(error))
            }
        }
    }

    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> Result<(), CliError> {
        let drawn = self.0.draw(view);
        drawn.map(drop).map_err(failed("draw on the terminal"))
    }

    /// Waits for a key that means something, for at most `timeout`.
    pub(super) fn key(&self, timeout: Duration) -> Result<Option<Key>, CliError> {
        let failed = failed("read from the terminal");
        match event::poll(timeout) {
            Ok(false) => Ok(None),
            Ok(true) => event::read().map(|event| meaning(&event)).map_err(failed),
            // A signal: the caller looks whether it asks to stop.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> CliError {
    move |error| CliError::Failed(format!("cannot {action}: {error}"))
}

fn meaning(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent {
        code,
        modifiers,
        kind: KeyEventKind::Press | KeyEventKind::Repeat,
        ..
    }) = event
    else {
        return None;
    };
    match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('p' | ' ') => Some(Key::Pause),
        KeyCode::Char('s') => Some(Key::Sort),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Down),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let key = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        let plain = |code| key(code, KeyModifiers::NONE);
        assert_eq!(plain(KeyCode::Char('q')), Some(Key::Quit));
        assert_eq!(
            key(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Key::Quit)
        );
        assert_eq!(plain(KeyCode::Char('c')), None);
        assert_eq!(plain(KeyCode::Char('p')), Some(Key::Pause));
        assert_eq!(plain(KeyCode::Char('s')), Some(Key::Sort));
        assert_eq!(plain(KeyCode::Down), Some(Key::Down));
        assert_eq!(meaning(&Event::FocusGained), None);
    }
}
