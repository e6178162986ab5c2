//! Calls that may not return.

use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use crate::stuck::Busy;

/// What `call` returns, if it does within `bound`; else it is left to itself, on its own thread.
pub(crate) fn within<T: Send + 'static>(
    bound: Duration,
    call: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = sync_channel(1);
    let thread = Builder::new()
        .name("sound device".to_owned())
        .spawn(move || {
            let _busy = Busy::begin();
            // Nobody waits for it any more: what came of it is dropped.
            let _ = done.send(call());
        });
    if thread.is_err() {
        return None;
    }
    result.recv_timeout(bound).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_return_is_left() {
        assert_eq!(within(Duration::from_secs(100), || 7), Some(7));
        let forever = || std::thread::park_timeout(Duration::from_secs(1000));
        assert_eq!(within(Duration::from_millis(1), forever), None);
    }
}
