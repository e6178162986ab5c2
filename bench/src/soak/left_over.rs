//! What is left in a pool when everybody but one has gone: said so that a person finds it.
//!
//! Called by the soak behind each killing of all. Looks at a snapshot only; never waits.

use hythe_node::{MemberIndex, Snapshot};

/// `None`: all is free, and nobody is there but `own`, who has nothing.
pub(super) fn left_over(seen: &Snapshot, own: MemberIndex) -> Option<String> {
    let audit = &seen.audit;
    let others = seen.members.iter().filter(|member| member.index != own);
    let mut left: Vec<String> = others
        .map(|member| {
            format!(
                "participant {} `{}` (pid {}, {:?})",
                member.index.0, member.name, member.identity.pid, member.status
            )
        })
        .collect();
    left.extend(seen.channels.iter().map(|channel| {
        let ports = seen.ports.iter();
        let ports = ports.filter(|port| port.channel == channel.index).count();
        format!("channel `{}` with {ports} ports", channel.name)
    }));
    let counts = [
        (seen.ports.len(), "ports"),
        (seen.connections.len(), "connections"),
        ((audit.slots - audit.free) as usize, "slots not free"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    left.extend(counts.map(|(count, what)| format!("{count} {what}")));
    let mismatches = audit.mismatches.iter();
    left.extend(mismatches.map(|slot| format!("a slot that does not add up: {slot:?}")));
    (!left.is_empty()).then(|| left.join(", "))
}

#[cfg(test)]
mod tests {
    use hythe_node::{Node, Pool, SubscriberOptions};

    use super::super::SoakPool;
    use super::*;

    #[test]
    fn own_participant_does_not_count_and_the_rest_is_named() {
        let made = SoakPool::make().expect("a pool");
        let pool = Pool::open(&made.0).expect("opened");
        let own = Node::join(&pool, "own").expect("joins");
        assert_eq!(left_over(&pool.snapshot(), own.index()), None);

        let other = Node::join(&pool, "other").expect("joins");
        let options = SubscriberOptions::default();
        let subscriber = other.subscriber("forgotten", &options).expect("opens");
        let said = left_over(&pool.snapshot(), own.index()).expect("not nothing");
        for name in ["`other`", "channel `forgotten` with 1 ports", "1 ports"] {
            assert!(said.contains(name), "{said} does not name {name}");
        }
        assert!(!said.contains("own") && !said.contains("slots"), "{said}");

        drop(subscriber);
        let lease = other.lease(1).expect("free");
        let said = left_over(&pool.snapshot(), own.index()).expect("not nothing");
        assert!(said.ends_with(", 1 slots not free"), "{said}");
        drop((lease, other));
        assert_eq!(left_over(&pool.snapshot(), own.index()), None);
    }
}
