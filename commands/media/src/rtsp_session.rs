//! What came of the session with a server of RTSP, for `hythe media recv`.

use std::path::Path;
use std::time::Duration;

use hythe::media::MediaError;
use hythe::media::receive::session::{End, Session, now_ns};
use hythe::media::receive::statistics::Statistics;
use hythe::media::rtsp::client::{Account, Playing};
use hythe::media::sink::Sink;
use hythe::rtp::payload::Depacketize;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_terminal::escaped;
use serde::Serialize;

/// A stream whose session is lost goes on for as long as packets come, with no longer gap than
/// this.
const GAP_WHEN_LOST_NS: u64 = 5_000_000_000;
/// What a server sent before it ended the session has come after so long.
const GAP_WHEN_ENDED_NS: u64 = 1_000_000_000;
/// Between two looks at the session.
const LOOK: Duration = Duration::from_millis(500);

/// Why a stream ended.
pub(super) const IDLE: &str = "idle";
pub(super) const LOST: &str = "lost";
pub(super) const OTHER_TYPE: &str = "another payload type";
/// The server has ended the session, and says why.
pub(super) const TORN_DOWN: &str = "teardown";

/// Receives until the stream ends, or its server has lost the session and sends nothing more.
pub(super) fn receive<D: Depacketize, S: Sink>(
    session: &mut Session<D, S>,
    stop: &Stop,
    playing: Option<&Playing>,
) -> Result<(&'static str, Statistics), MediaError> {
    let ended = loop {
        match session.turn(Some(stop.descriptor()), LOOK)? {
            Some(End::Goodbye) => break "goodbye",
            Some(End::Idle) => break IDLE,
            Some(End::Stopped) => break "stopped",
            Some(End::OtherPayloadType(_)) => break OTHER_TYPE,
            None => {}
        }
        let is_silent = |gap_ns| {
            let last_ns = session.stream().last_packet_ns();
            last_ns.is_none_or(|last_ns| now_ns().saturating_sub(last_ns) > gap_ns)
        };
        if playing.is_some_and(Playing::has_ended) && is_silent(GAP_WHEN_ENDED_NS) {
            break TORN_DOWN;
        }
        if playing.is_some_and(Playing::is_lost) && is_silent(GAP_WHEN_LOST_NS) {
            break LOST;
        }
    };
    Ok((ended, session.finish()?))
}

/// How the session was kept alive, for the document.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ServerDocument {
    kept_alive: u64,
    refused: u64,
    failed: u64,
    lost: bool,
    /// Bytes that answered nothing.
    passed_over_bytes: u64,
}

impl ServerDocument {
    pub(super) fn of(account: &Account) -> Self {
        Self {
            kept_alive: account.kept_alive,
            refused: account.refused,
            failed: account.failed,
            lost: account.is_lost,
            passed_over_bytes: account.passed_over.bytes,
        }
    }
}

/// What is worth a word about it.
pub(super) fn troubles(url: &Path, account: &Account) -> Vec<String> {
    let (url, mut troubles) = (escaped(&url), Vec::new());
    let last = account.last_trouble.as_deref().unwrap_or("nothing");
    if account.is_lost {
        troubles.push(format!(
            "{url}: the session is lost; the last word was: {last}"
        ));
    } else if account.failed > 0 {
        let failed = account.failed;
        troubles.push(format!(
            "{url}: {failed} keep-alives had no answer; the last came to: {last}"
        ));
    }
    let passed = account.passed_over;
    if passed.bytes > 0 {
        troubles.push(format!(
            "{url}: passed over {} that answer nothing: {}, {}, {}",
            units::counted(passed.bytes, "byte"),
            units::counted(passed.frames, "packet"),
            units::counted(passed.requests, "request"),
            units::counted(passed.answers, "other answer")
        ));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_without_trouble_is_not_spoken_of() {
        let url = Path::new("rtsp://h/film");
        let mut account = Account::default();
        account.kept_alive = 3;
        account.refused = 1;
        assert_eq!(troubles(url, &account), Vec::<String>::new());
        account.failed = 2;
        account.last_trouble = Some("OPTIONS: it closed".to_owned());
        account.passed_over.bytes = 9;
        account.passed_over.frames = 1;
        let told = troubles(url, &account);
        assert!(told[0].contains("2 keep-alives") && told[0].ends_with("OPTIONS: it closed"));
        assert!(told[1].contains("9 bytes") && told[1].contains("1 packet,"));
        account.is_lost = true;
        assert!(troubles(url, &account)[0].contains("is lost"));
    }
}
