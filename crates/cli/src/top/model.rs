//! The figures of `hythe top`: what two looks at a pool say. Pure.

use std::cmp::Reverse;
use std::time::Instant;

use hythe::inspect::{
    ChannelInfo, HeldBuffer, HolderKind, MemberInfo, PortInfo, PortKind, Snapshot,
};
use serde::Serialize;

use crate::list::waiting;
use crate::objects::ObjectDocument;
use crate::pool::geometry;
use crate::rates::Counts;

/// One look.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Model {
    pub(super) pool: String,
    /// Since the look before: what the rates are over.
    pub(super) seconds: f64,
    pub(super) slots: Slots,
    pub(super) channels: Vec<ChannelRow>,
    pub(super) participants: Vec<ParticipantRow>,
    pub(super) classes: Vec<ClassRow>,
    pub(super) objects: Vec<ObjectDocument>,
}

/// The slots of a pool, or of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Slots {
    pub(super) total: u32,
    pub(super) free: u32,
    pub(super) held: u32,
    pub(super) queued: u32,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ChannelRow {
    pub(super) name: String,
    pub(super) publishers: usize,
    pub(super) subscribers: usize,
    /// Published, or taken where no process publishes: by all subscribers together.
    pub(super) messages_per_second: f64,
    pub(super) payload_bytes_per_second: f64,
    pub(super) dropped_per_second: f64,
    pub(super) waiting: u32,
}

/// A participant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ParticipantRow {
    pub(super) participant: u8,
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) state: &'static str,
    /// Buffers held, the bytes of their slots, and for how long the oldest.
    pub(super) buffers: usize,
    pub(super) slot_bytes: u64,
    pub(super) longest_ms: Option<u64>,
    /// Messages that did not reach its subscribers.
    pub(super) missed_per_second: f64,
}

/// A class of slots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ClassRow {
    pub(super) region: u8,
    pub(super) region_name: String,
    pub(super) payload_bytes: u64,
    #[serde(flatten)]
    pub(super) slots: Slots,
}

/// By which column channels are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortBy {
    #[default]
    Name,
    Messages,
    Bytes,
    Drops,
    Waiting,
}

impl Model {
    /// `state` says what is known of a participant's life.
    pub(super) fn new(
        pool: &str,
        before: &Counts,
        now: Instant,
        snapshot: &Snapshot,
        state: impl Fn(&MemberInfo) -> &'static str,
    ) -> Self {
        let audit = &snapshot.audit;
        let held = snapshot.held_buffers();
        let members = snapshot.members.iter();
        let mut participants: Vec<ParticipantRow> = members
            .map(|member| ParticipantRow {
                missed_per_second: missed(member, before, now, snapshot),
                ..participant(member, state(member), &held)
            })
            .collect();
        participants.sort_by_key(|row| (Reverse(row.slot_bytes), row.participant));
        Self {
            pool: pool.to_owned(),
            seconds: before.seconds_until(now),
            slots: Slots {
                total: audit.slots,
                free: audit.free,
                held: audit.held,
                queued: audit.queued,
            },
            channels: snapshot
                .channels
                .iter()
                .map(|found| channel(found, before, now, snapshot))
                .collect(),
            participants,
            classes: classes(snapshot),
            objects: Vec::new(),
        }
    }

    /// The largest first; of equal ones, by name.
    pub(super) fn sort(&mut self, by: SortBy) {
        self.channels.sort_by(|left, right| {
            let figure = |row: &ChannelRow| match by {
                SortBy::Name => 0.0,
                SortBy::Messages => row.messages_per_second,
                SortBy::Bytes => row.payload_bytes_per_second,
                SortBy::Drops => row.dropped_per_second,
                SortBy::Waiting => f64::from(row.waiting),
            };
            let by_figure = figure(right).total_cmp(&figure(left));
            by_figure.then_with(|| left.name.cmp(&right.name))
        });
    }
}

impl SortBy {
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Name => Self::Messages,
            Self::Messages => Self::Bytes,
            Self::Bytes => Self::Drops,
            Self::Drops => Self::Waiting,
            Self::Waiting => Self::Name,
        }
    }
}

fn channel(found: &ChannelInfo, before: &Counts, now: Instant, snapshot: &Snapshot) -> ChannelRow {
    let of = |kind| {
        let ports = snapshot.ports.iter();
        ports.filter(move |port| port.channel == found.index && port.kind == kind)
    };
    let published = before.until(now, of(PortKind::Publisher));
    let taken = before.until(now, of(PortKind::Subscriber));
    // A core counts nothing here, a publisher that left takes its counter along, and what comes
    // from a process of another host passes no port that stands for it: what is taken is what is
    // known.
    let seen = if published.messages > 0 {
        &published
    } else {
        &taken
    };
    ChannelRow {
        name: found.name.clone(),
        publishers: published.ports,
        subscribers: taken.ports,
        messages_per_second: seen.messages_per_second,
        payload_bytes_per_second: seen.payload_bytes_per_second,
        dropped_per_second: published.dropped_per_second,
        waiting: of(PortKind::Subscriber)
            .map(|port: &PortInfo| waiting(snapshot, port))
            .sum(),
    }
}

fn participant(member: &MemberInfo, state: &'static str, held: &[HeldBuffer]) -> ParticipantRow {
    let own: Vec<&HeldBuffer> = held
        .iter()
        .filter(|held| held.holder == HolderKind::Member(member.index))
        .collect();
    ParticipantRow {
        participant: member.index.0,
        name: member.name.clone(),
        pid: member.identity.pid,
        state,
        buffers: own.len(),
        slot_bytes: own.iter().map(|held| u64::from(held.slot_bytes)).sum(),
        longest_ms: own.iter().map(|held| held.held_ms).max(),
        missed_per_second: 0.0,
    }
}

fn missed(member: &MemberInfo, before: &Counts, now: Instant, snapshot: &Snapshot) -> f64 {
    let ports = snapshot.ports.iter();
    let own = ports.filter(|port| port.member == member.index && port.kind == PortKind::Subscriber);
    before.until(now, own).dropped_per_second
}

fn classes(snapshot: &Snapshot) -> Vec<ClassRow> {
    let regions = geometry::regions(snapshot);
    let rows = regions.iter().flat_map(|region| {
        region.classes.iter().map(|class| ClassRow {
            region: region.region,
            region_name: region.name.clone(),
            payload_bytes: class.payload_bytes,
            slots: Slots {
                total: class.slots,
                free: class.free,
                held: class.held,
                queued: class.queued,
            },
        })
    });
    rows.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use hythe::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};

    use super::*;

    /// Two seconds of a pool: six messages of 100 bytes on `busy`, of which a queue of four drops
    /// two and two are taken and held; none on `idle`.
    pub(in crate::top) fn two_seconds() -> Model {
        let root = tempfile::tempdir().expect("a directory");
        let options = PoolOptions::new("watched")
            .root(root.path())
            .bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("free capacity");
        let node = Node::join(&pool, "worker").expect("a place");
        let depth = SubscriberOptions::default().depth(4);
        let mut subscriber = node.subscriber("busy", &depth).expect("a port");
        let _idle = node.subscriber("idle", &depth).expect("a port");
        let mut publisher = node
            .publisher("busy", &PublisherOptions::default())
            .expect("a port");
        let mut publish = || {
            let lease = node.lease(100).expect("free capacity");
            publisher.publish(lease, 100).expect("a queue")
        };
        publish();
        let mut held = vec![subscriber.try_take().expect("whole").expect("one")];
        let start = Instant::now();
        let before = Counts::of(start, &pool.snapshot().ports);
        let published: Vec<_> = (0..6).map(|_| publish()).collect();
        assert_eq!(published.iter().map(|one| one.dropped).sum::<u32>(), 2);
        held.extend(subscriber.try_take().expect("whole"));
        Model::new(
            "watched",
            &before,
            start + Duration::from_secs(2),
            &pool.snapshot(),
            |_| "alive",
        )
    }

    #[test]
    fn rates_are_over_the_time_between_the_looks() {
        let model = two_seconds();
        assert_eq!(model.seconds, 2.0);
        let busy = model
            .channels
            .iter()
            .find(|row| row.name == "busy")
            .expect("there");
        assert_eq!(
            *busy,
            ChannelRow {
                name: "busy".to_owned(),
                publishers: 1,
                subscribers: 1,
                messages_per_second: 3.0,
                payload_bytes_per_second: 300.0,
                dropped_per_second: 1.0,
                waiting: 3,
            }
        );
        let idle = model
            .channels
            .iter()
            .find(|row| row.name == "idle")
            .expect("there");
        assert_eq!(
            (idle.publishers, idle.messages_per_second, idle.waiting),
            (0, 0.0, 0)
        );
    }

    #[test]
    fn holders_and_classes_add_up_to_the_pool() {
        let model = two_seconds();
        let worker = &model.participants[0];
        assert_eq!(
            (worker.name.as_str(), worker.buffers, worker.state),
            ("worker", 2, "alive")
        );
        assert_eq!(worker.missed_per_second, 1.0);
        assert!(worker.longest_ms.is_some() && worker.slot_bytes >= 200);
        assert_eq!((model.slots.held, model.slots.queued), (2, 3));
        let sum = |part: fn(&Slots) -> u32| -> u32 {
            model.classes.iter().map(|class| part(&class.slots)).sum()
        };
        assert_eq!(sum(|slots| slots.total), model.slots.total);
        assert_eq!(sum(|slots| slots.held), 2);
        assert_eq!(sum(|slots| slots.free), model.slots.free);
    }

    #[test]
    fn sorting_goes_through_all_columns_and_back() {
        let mut model = two_seconds();
        let mut by = SortBy::default();
        let mut firsts = Vec::new();
        for _ in 0..6 {
            model.sort(by);
            firsts.push(model.channels[0].name.clone());
            by = by.next();
        }
        assert_eq!(firsts, ["busy"; 6]);
        assert_eq!(by, SortBy::Messages);
        model.channels[1].waiting = 9;
        model.sort(SortBy::Waiting);
        assert_eq!(model.channels[0].name, "idle");
        model.sort(SortBy::Name);
        assert_eq!(model.channels[0].name, "busy");
    }
}
