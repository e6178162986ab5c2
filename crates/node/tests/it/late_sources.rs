//! What is found during a wait is looked at as often as it needs, not as often as what was there
//! when the wait began: a core that comes later, for instance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root};
use hythe_node::hop::{
    self, EventSource, EventTarget, FindSources, FindTargets, Origin, Participant, Polled, Seeking,
    Source, SourceState, Transport, Watch,
};
use hythe_node::{ClientOptions, Node, NodeError, ServerOptions, SubscriberOptions};
use hythe_pool::{ChannelIndex, MemberIndex, PortKind};

const NAP: Duration = Duration::from_millis(1);
/// With a nap of a second between them they take longer than the bound of the test.
const LOOKS: u32 = 200;

/// Counts the looks at it that come after a nap.
#[derive(Debug, Default)]
struct Looks {
    count: u32,
    last: Option<Instant>,
}

impl Looks {
    /// True: it was looked at often enough.
    fn add(&mut self) -> bool {
        if self.last.is_none_or(|last| last.elapsed() >= NAP) {
            self.last = Some(Instant::now());
            self.count += 1;
        }
        self.count >= LOOKS
    }
}

fn enough() -> NodeError {
    NodeError::CoreSilent {
        channel: String::new(),
        reason: "looked at often enough".to_owned(),
    }
}

impl Source for Looks {
    fn poll(&mut self) -> Polled {
        if self.add() {
            Polled::Refused(Box::new(enough()))
        } else {
            Polled::Nothing
        }
    }

    fn capacity(&self) -> u32 {
        1
    }

    fn state(&mut self) -> SourceState {
        SourceState::Open
    }

    fn disconnect(self: Box<Self>) -> Result<(), NodeError> {
        Ok(())
    }

    fn origin(&self) -> Origin {
        Origin {
            member: MemberIndex(0),
            port: None,
            number: 0,
        }
    }

    fn nap(&self) -> Duration {
        NAP
    }
}

impl EventSource for Looks {
    fn take(&mut self) -> Result<u64, NodeError> {
        Ok(self.add().into())
    }

    fn nap(&self) -> Duration {
        NAP
    }
}

impl Watch for Looks {
    fn is_ready(&mut self) -> bool {
        self.add()
    }

    fn nap(&self) -> Duration {
        NAP
    }
}

/// Has one source for each port, which is not there yet when the port is opened.
#[derive(Debug)]
struct Late;

impl Transport for Late {
    fn find_targets(&self, _find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        if !find.seeking().is_opening() && find.known().count() == 0 {
            find.add(Box::<Looks>::default());
        }
        Ok(())
    }

    fn find_listeners(&self, _seeking: &Seeking<'_>, _found: &mut Vec<Box<dyn EventTarget>>) {}

    fn find_event_sources(&self, seeking: &Seeking<'_>, found: &mut Vec<Box<dyn EventSource>>) {
        if !seeking.is_opening() && found.is_empty() {
            found.push(Box::<Looks>::default());
        }
    }

    fn watch(&self, _: &Arc<Participant>, _: PortKind, _: ChannelIndex) -> Option<Box<dyn Watch>> {
        Some(Box::<Looks>::default())
    }
}

fn with_node(test: impl FnOnce(&Node)) {
    let root = Root::new();
    let node = hop::join(&root.pool(), "waits", &[Arc::new(Late)]).expect("joins");
    test(&node);
}

fn assert_enough(outcome: Result<impl Sized, NodeError>) {
    let error = outcome.err().expect("it is looked at often enough");
    assert!(matches!(error, NodeError::CoreSilent { .. }), "{error}");
}

#[test]
fn subscriber_naps_as_short_as_late_source_needs() {
    with_node(|node| {
        let options = SubscriberOptions::default();
        let mut subscriber = node.subscriber("data", &options).expect("opens");
        assert_enough(
            subscriber
                .take(BOUND)
                .map(|sample| assert!(sample.is_some())),
        );
    });
}

#[test]
fn server_naps_as_short_as_late_source_needs() {
    with_node(|node| {
        let options = ServerOptions::default();
        let mut server = node.server("ask", &options).expect("opens");
        assert_enough(server.take(BOUND).map(|request| assert!(request.is_some())));
    });
}

#[test]
fn client_naps_as_short_as_late_source_needs() {
    with_node(|node| {
        let options = ClientOptions::default();
        let mut client = node.client("ask", &options).expect("opens");
        assert_enough(client.take(BOUND).map(|reply| assert!(reply.is_some())));
    });
}

#[test]
fn listener_naps_as_short_as_late_source_needs() {
    with_node(|node| {
        let mut listener = node.listener("house").expect("opens");
        // The channel changes: the first look of the wait finds what is there now.
        let _other = node.listener("house").expect("opens");
        let taken = listener.wait(BOUND).expect("sound");
        assert!(!taken.is_empty(), "it was not looked at often enough");
    });
}

#[test]
fn wait_set_naps_no_longer_than_a_port_that_it_finds_needs() {
    with_node(|node| {
        let options = SubscriberOptions::default();
        let mut subscriber = node.subscriber("data", &options).expect("opens");
        let mut wait_set = node.wait_set().expect("made");
        wait_set.attach(&mut subscriber).expect("attached");
        let events = wait_set.wait(BOUND).expect("sound");
        assert!(!events.is_empty(), "it was not looked at often enough");
    });
}
