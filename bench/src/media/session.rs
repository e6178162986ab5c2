//! The product's sender as `hythe media send FILE --pace max --burst 64` runs it: source,
//! packetizer, store, pacer, reports.
//!
//! What is compared with ffmpeg and GStreamer, which read a file and find out what is in it, too.

use std::path::Path;

use hythe_media::pace::{Limit, Pace};
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::source::{OpenOptions, open};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::{Node, TrustPeers};
use hythe_rtp::Identity;
use hythe_rtp::payload::packetizer;

use super::hythe::Root;
use super::job::{Job, Method};
use crate::error::BenchError;

/// No other process takes part.
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
/// Packets that leave back to back.
const BURST: usize = 64;

/// A session over a file, opened before the time begins: what it then does to read, parse, build
/// and send is measured.
#[derive(Debug)]
pub(super) struct Session {
    session: SendSession,
    _node: Node,
    _root: Root,
}

impl Session {
    pub(super) fn new(job: &Job<'_>) -> Result<Self, BenchError> {
        let (root, node) = Root::make()?;
        let source = open(Path::new(job.path), &OpenOptions::default())?;
        let packetizer = packetizer(source.format())?;
        let identity = Identity {
            sequence: 0,
            ..Identity::seeded(0)
        };
        let mut options = SendOptions::new(identity, TRUST);
        options.pace = Pace::Unpaced;
        options.limit = Limit {
            burst: BURST,
            ..options.limit
        };
        options.payload_bytes_max = job.payload_bytes();
        let mut session = SendSession::new(&node, source, packetizer, options)?;
        for destination in job.destinations() {
            session
                .destinations()
                .add(destination, &DestinationOptions::default())?;
        }
        Ok(Self {
            session,
            _node: node,
            _root: root,
        })
    }
}

impl Method for Session {
    fn prepare(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn send_prepared(&mut self) -> Result<(), BenchError> {
        self.send_first()
    }

    fn send_first(&mut self) -> Result<(), BenchError> {
        while self.session.step(&mut |_| {})? != Step::Ended {}
        Ok(())
    }

    fn chosen(&mut self) -> Option<String> {
        super::hythe::chosen(self.session.destinations())
    }
}
