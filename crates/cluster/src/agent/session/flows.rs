//! What flows need of a session.

use std::net::IpAddr;

use hythe_node::{MemberIndex, Pool, PortIndex};
use hythe_pool::PortInfo;

use super::channels::{may_receive, may_send};
use super::sending::{FlowPublisher, Leaving};
use super::window::window_of;
use super::{Session, lock};
use crate::agent::flows::{FlowSession, Link, Pause};
use crate::agent::local::ChannelKey;
use crate::frame::{Control, EndKind};

impl FlowSession for Session {
    fn number(&self) -> u64 {
        self.number
    }

    fn host(&self) -> &str {
        self.record.name.as_str()
    }

    fn member(&self) -> MemberIndex {
        self.member
    }

    fn pool(&self) -> &Pool {
        &self.context.options.pool
    }

    fn link(&self) -> &Link {
        &self.link
    }

    fn look_at_link(&self) {
        let carrier = &self.context.carrier;
        self.link
            .look_again(|address| carrier.interface_of(address));
        if self.link.is_to_be_told() {
            self.tell_trust();
        }
    }

    fn carrier(&self) -> &str {
        &self.about.carrier
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn say(&self, message: Control) {
        if let Err(error) = self.outbox.put(message) {
            self.end(&error.to_string());
        }
    }

    fn why_no_flows(&self) -> Option<String> {
        let path = self.link.path();
        path.err().or_else(|| lock(&self.pause).why())
    }

    fn note_end_of_flow(&self, note: &dyn Fn(&mut Pause)) {
        note(&mut lock(&self.pause));
    }

    fn note_unconfirmed(&self, messages: u32, told: Option<(&str, &PortInfo)>) {
        self.record.losses.unconfirmed.add(messages.into());
        let told = told.filter(|_| messages > 0);
        let stream = told.and_then(|(channel, publisher)| {
            let stream = lock(&self.channels).sending_stream(&published(channel))?;
            Some((stream, FlowPublisher::of(publisher)))
        });
        if let Some((stream, publisher)) = stream {
            stream.expect_missing(publisher, messages);
        }
    }

    fn may_send(&self, channel: &str) -> Result<(), String> {
        self.check_realm()?;
        may_send(self, &published(channel)).map_err(|refusal| refusal.to_string())
    }

    fn may_receive(&self, channel: &str) -> Result<(), String> {
        self.check_realm()?;
        may_receive(self, &published(channel)).map_err(|refusal| refusal.to_string())
    }

    fn has_stream(&self, channel: &str) -> bool {
        let channels = lock(&self.channels);
        channels.sending_stream(&published(channel)).is_some()
    }

    fn acknowledge_at_once(&self, channel: &str) {
        let stream = lock(&self.channels).receiving_stream(&published(channel));
        if let Some(stream) = stream {
            stream.acknowledge_at_once();
        }
    }

    fn has_left(&self, channel: &str, port: PortIndex, flow: u32) -> bool {
        let stream = lock(&self.channels).sending_stream(&published(channel));
        let left = stream.is_some_and(|stream| stream.leave(Leaving::new(port, flow)));
        Self::wake(self);
        left
    }

    fn wake(&self) {
        Self::wake(self);
    }

    fn own_window(&self) -> u32 {
        let (window, _) = window_of(&self.context.options.pool, 0);
        u32::try_from(window.bytes).unwrap_or(u32::MAX)
    }

    fn payload_bytes_max(&self) -> u32 {
        window_of(&self.context.options.pool, 0).1
    }

    fn lease_ns(&self) -> u64 {
        let lease = self.context.options.lease.as_nanos();
        u64::try_from(lease).unwrap_or(u64::MAX)
    }
}

impl Session {
    /// Tells the other side whether the link is trusted here.
    pub(super) fn tell_trust(&self) {
        let address = self.link.tell();
        self.say(Control::LinkTrust { address });
    }

    /// The other side has told that.
    pub(super) fn trusted_there(&self, address: Option<IpAddr>) {
        self.link.trust_there(address);
        self.note_change();
    }

    fn check_realm(&self) -> Result<(), String> {
        match self.context.carrier.knows(&self.record.name) {
            true => Ok(()),
            false => Err("the host is not of the realm any more".to_owned()),
        }
    }
}

fn published(channel: &str) -> ChannelKey {
    ChannelKey {
        kind: EndKind::Publish,
        channel: channel.to_owned(),
    }
}
