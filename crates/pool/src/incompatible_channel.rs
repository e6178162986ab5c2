//! Refusals of those who want a channel for something else: both sides are named.
//!
//! Called where a channel is opened, with a channel that was found. Never writes anything.

use hythe_memory::Memory;

use crate::control::Control;
use crate::error::{IncompatibleChannel, PoolError};
use crate::tables::channels::{ChannelInfo, ChannelKind, ChannelType};
use crate::tables::members::MemberIndex;

/// Most names in one message.
const NAMES_MAX: usize = 8;

/// Refuses a channel that is of another kind, or carries another type where one is asked for.
pub(crate) fn check<M: Memory>(
    control: &Control<M>,
    opener: MemberIndex,
    found: &ChannelInfo,
    kind: ChannelKind,
    carries: Option<&ChannelType>,
) -> Result<(), PoolError> {
    let incompatible_channel = |theirs: &dyn std::fmt::Display, ours: &dyn std::fmt::Display| {
        Box::new(IncompatibleChannel {
            channel: found.name.clone(),
            ours: ours.to_string(),
            opener: control.tables().named(opener),
            theirs: theirs.to_string(),
            opened_by: openers(control, found),
        })
    };
    if found.kind != kind {
        return Err(PoolError::KindMismatch(incompatible_channel(
            &found.kind,
            &kind,
        )));
    }
    match carries {
        Some(ours) if *ours != found.carries => Err(PoolError::TypeMismatch(incompatible_channel(
            &found.carries,
            ours,
        ))),
        _ => Ok(()),
    }
}

/// The participants that have ports open on a channel, or run the core behind it, each once.
fn openers<M: Memory>(control: &Control<M>, found: &ChannelInfo) -> String {
    let ports = control.tables().ports_of_channel(found.index);
    let mut members: Vec<MemberIndex> = ports.map(|port| port.member).collect();
    members.extend(found.core.map(|core| core.agent));
    members.sort_unstable();
    members.dedup();
    if members.is_empty() {
        return "its maker, who has no port on it now,".to_owned();
    }
    let named = members.iter().take(NAMES_MAX);
    let mut names: Vec<String> = named
        .map(|&member| control.tables().named(member))
        .collect();
    if members.len() > NAMES_MAX {
        names.push(format!("{} more", members.len() - NAMES_MAX));
    }
    names.join(", ")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{PortKind, PortPolicy};

    fn value(version: u32) -> ChannelType {
        ChannelType {
            name: "pose".to_owned(),
            bytes: 24,
            align: 8,
            version,
        }
    }

    /// Opens a channel `c` of this kind with a port on it, and says how a second participant is
    /// refused.
    fn refusal(
        theirs: (PortKind, Option<&ChannelType>),
        ours: (ChannelKind, Option<&ChannelType>),
    ) -> Option<String> {
        let control = scene::control();
        let (mut first, mut second) = (scene::join(&control), scene::join(&control));
        let made = first.open_channel_of(&control, theirs.0.channel_kind(), "c", theirs.1);
        first
            .open_port(
                &control,
                made.expect("made"),
                theirs.0,
                2,
                PortPolicy::DropNewest,
            )
            .expect("port");
        let refused = second.open_channel_of(&control, ours.0, "c", ours.1);
        refused.err().map(|error| error.to_string())
    }

    #[test]
    fn another_kind_is_refused_with_both_sides() {
        let wanted = (ChannelKind::PublishSubscribe, None);
        assert_eq!(
            refusal((PortKind::Server, None), wanted).as_deref(),
            Some(
                "channel `c` is for request/reply, as tester (pid 1) opened it; tester (pid 1) wants it for publish/subscribe"
            )
        );
        let wanted = (ChannelKind::RequestReply, None);
        let refused = refusal((PortKind::Listener, None), wanted).expect("another kind");
        assert!(refused.contains("is for events"), "{refused}");
    }

    #[test]
    fn refusal_shows_both_types_of_channel() {
        let theirs = value(1);
        for ours in [
            value(2),
            ChannelType {
                bytes: 16,
                ..value(1)
            },
            ChannelType {
                align: 4,
                ..value(1)
            },
            ChannelType {
                name: "place".to_owned(),
                ..value(1)
            },
        ] {
            let kind = ChannelKind::PublishSubscribe;
            let refused = refusal((PortKind::Publisher, Some(&theirs)), (kind, Some(&ours)));
            let expected = format!(
                "channel `c` carries {theirs}, as tester (pid 1) opened it; tester (pid 1) wants {ours}"
            );
            assert_eq!(refused, Some(expected));
        }
    }

    #[test]
    fn who_asks_for_no_type_joins_any() {
        let theirs = (PortKind::Subscriber, Some(&value(3)));
        let any = (ChannelKind::PublishSubscribe, None);
        assert_eq!(refusal(theirs, any), None);
        assert_eq!(
            refusal((PortKind::Server, None), (ChannelKind::RequestReply, None)),
            None
        );
    }

    #[test]
    fn channel_of_an_impossible_kind_is_nobodys() {
        use hythe_abi::pool::channel;
        use hythe_memory::Ordering;
        let (control, memory) = scene::pool();
        let mut member = scene::join(&control);
        let raw = ChannelType::default();
        let made = member.open_channel(&control, "c", &raw).expect("made");
        let at = control.layout().channel(made.0 as usize) + channel::KIND;
        memory.store(at, 7, Ordering::Relaxed);
        assert_eq!(control.tables().channel(made), None);
        let again = member.open_channel(&control, "c", &raw);
        assert!(matches!(again, Err(PoolError::Busy(_))), "{again:?}");
    }
}
