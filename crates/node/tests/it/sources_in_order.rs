//! What a sender left in one source comes before what it sends by another later, whatever happens
//! between two looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::Root;
use hythe_node::hop::{
    self, EventSource, EventTarget, FindSources, FindTargets, Origin, Participant, Polled, Seeking,
    Source, SourceState, Transport, Watch,
};
use hythe_node::{NodeError, SubscriberOptions};
use hythe_pool::{ChannelIndex, MemberIndex, PortKind};

/// What the sources have in common.
#[derive(Debug, Default)]
struct Scene {
    polled: Mutex<Vec<&'static str>>,
    /// The sender has gone on by the later one.
    has_gone_on: AtomicBool,
}

/// `later`: by which the sender goes on as soon as `drained` was looked at once.
#[derive(Debug)]
struct Part {
    scene: Arc<Scene>,
    name: &'static str,
}

impl Source for Part {
    fn poll(&mut self) -> Polled {
        self.scene.polled.lock().expect("sound").push(self.name);
        if self.name == "drained" {
            self.scene.has_gone_on.store(true, Ordering::Relaxed);
        }
        Polled::Nothing
    }

    fn is_something_waiting(&mut self) -> bool {
        self.name == "later" && self.scene.has_gone_on.load(Ordering::Relaxed)
    }

    fn capacity(&self) -> u32 {
        1
    }

    fn state(&mut self) -> SourceState {
        match self.name {
            "later" => SourceState::Open,
            _ => SourceState::Draining,
        }
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
}

#[derive(Debug)]
struct Both(Arc<Scene>);

impl Transport for Both {
    fn find_targets(&self, _find: &mut FindTargets<'_>) -> Result<(), NodeError> {
        Ok(())
    }

    fn find_sources(&self, find: &mut FindSources<'_>) -> Result<(), NodeError> {
        if find.known().count() == 0 {
            for name in ["later", "drained", "drained too"] {
                let scene = Arc::clone(&self.0);
                find.add(Box::new(Part { scene, name }));
            }
        }
        Ok(())
    }

    fn find_listeners(&self, _seeking: &Seeking<'_>, _found: &mut Vec<Box<dyn EventTarget>>) {}

    fn find_event_sources(&self, _: &Seeking<'_>, _: &mut Vec<Box<dyn EventSource>>) {}

    fn watch(&self, _: &Arc<Participant>, _: PortKind, _: ChannelIndex) -> Option<Box<dyn Watch>> {
        None
    }
}

#[test]
fn draining_sources_are_polled_before_new_source() {
    let root = Root::new();
    let scene = Arc::<Scene>::default();
    let transport = Arc::new(Both(Arc::clone(&scene)));
    let node = hop::join(&root.pool(), "order", &[transport]).expect("joins");
    let options = SubscriberOptions::default();
    let mut subscriber = node.subscriber("data", &options).expect("opens");
    let mut polled = || {
        assert!(subscriber.try_take().expect("sound").is_none());
        std::mem::take(&mut *scene.polled.lock().expect("sound"))
    };
    // What came meanwhile may be behind what came to those that drain.
    assert_eq!(polled(), ["drained", "drained too"]);
    assert_eq!(polled(), ["drained", "drained too", "later"]);
}
