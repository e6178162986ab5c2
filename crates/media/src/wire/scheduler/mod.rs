//! Which packet scheduler packets to a destination meet on this host, and whether it heeds
//! departure times.
//!
//! `SO_TXTIME` succeeds on every socket since Linux 4.19, but only two schedulers act on it: `fq`
//! (times of the monotonic clock) and `etf` (of `CLOCK_TAI`). Under any other, packets with a time
//! leave at once, as one burst. So the kernel is asked (rtnetlink) which interface leads to the
//! destination and what schedules there, once for each destination and again when a [`Watch`] says
//! that something of it changed.
//!
//! What counts is the scheduler of the interface that the route names, or of the class that a
//! socket's priority chooses there. One behind a bridge, a VLAN or a tunnel is not seen: then
//! packets leave in timed groups, which is right everywhere. What the answers mean
//! (`Scheduler::of`) is decided without asking.

mod rtnetlink;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netdevice, recv, sendto,
    socket_with,
};

use rtnetlink::{Answer, Qdisc, ROOT, answers, attributes, qdiscs_request, route_request};

/// The largest datagram that the kernel makes of a list.
const ANSWER_BYTES: usize = 32 << 10;
/// Datagrams of one list: thousands of schedulers.
const ANSWERS_MAX: usize = 1000;
/// The kernel answers within the call that asks; this bounds the wait for one that does not.
const TIME_LIMIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Reports of a [`Watch`] that are read at once.
const REPORTS_MAX: usize = 64;

/// Schedulers that hold the packets of a class to its rate.
const SHAPERS: [&str; 3] = ["htb", "hfsc", "cbq"];

/// What a scheduler does with the times of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timing {
    /// Nothing: they leave as they come.
    None,
    /// It holds them to the rate of their class, whatever their times.
    Class(u32),
    /// `fq`: each leaves at its time.
    Fq,
    /// `etf`: each leaves at its time, and what comes or leaves too late is dropped.
    Etf {
        /// How long before its time it takes up a packet.
        delta_ns: u32,
    },
}

impl Timing {
    /// Does it heed departure times?
    #[must_use]
    pub fn heeds_departures(self) -> bool {
        matches!(self, Self::Fq | Self::Etf { .. })
    }
}

/// What schedules the packets to one destination. Printed as `fq on eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The interface that they leave by.
    pub interface: String,
    /// As `tc` calls it, with what matters of its surroundings.
    pub kind: String,
    /// What it does with times.
    pub timing: Timing,
}

impl fmt::Display for Scheduler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Timing::Class(class) = self.timing {
            write!(
                formatter,
                "class {:x}:{:x} of ",
                class >> 16,
                class & 0xffff
            )?;
        }
        write!(formatter, "{} on {}", self.kind, self.interface)
    }
}

impl Scheduler {
    /// Asks the kernel what packets to `to` meet: those of a socket with `priority`
    /// (`SO_PRIORITY`), by `interface` if it is named, as for multicast, or else as routed.
    ///
    /// # Errors
    ///
    /// What the kernel says: no route, no such interface, no rtnetlink.
    pub fn towards(
        to: SocketAddr,
        interface: Option<&str>,
        priority: Option<i32>,
    ) -> Result<Self, Errno> {
        let socket = open(0)?;
        let scope = match to {
            SocketAddr::V6(to) => to.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let index = match interface {
            Some(name) => netdevice::name_to_index(&socket, name)?,
            None if scope != 0 => scope,
            None => route(&socket, to.ip())?,
        };
        let name = netdevice::index_to_name(&socket, index)?;
        let qdiscs = qdiscs(&socket)?;
        let here: Vec<&Qdisc> = qdiscs
            .iter()
            .filter(|qdisc| qdisc.interface == index)
            .collect();
        Ok(Self::of(name, &here, priority.map(i32::cast_unsigned)))
    }

    /// What schedules on each interface, for packets without a priority.
    ///
    /// # Errors
    ///
    /// As [`Self::towards`].
    pub fn of_all_interfaces() -> Result<Vec<Self>, Errno> {
        let socket = open(0)?;
        let qdiscs = qdiscs(&socket)?;
        let roots = qdiscs.iter().filter(|qdisc| qdisc.parent == ROOT);
        let of = |root: &Qdisc| {
            // One that went meanwhile has no name.
            let name = netdevice::index_to_name(&socket, root.interface).ok()?;
            let here = qdiscs
                .iter()
                .filter(|other| other.interface == root.interface);
            Some(Self::of(name, &here.collect::<Vec<_>>(), None))
        };
        Ok(roots.filter_map(of).collect())
    }

    /// Of the schedulers of one interface, the one that packets with `priority` meet.
    fn of(interface: String, qdiscs: &[&Qdisc], priority: Option<u32>) -> Self {
        let found = |kind: String, timing| Self {
            interface,
            kind,
            timing,
        };
        let Some(root) = qdiscs.iter().find(|qdisc| qdisc.parent == ROOT) else {
            return found("no scheduler".into(), Timing::None);
        };
        let class = priority.filter(|priority| priority >> 16 == root.handle >> 16);
        if let Some(class) = class.filter(|_| root.handle != 0) {
            let child = qdiscs.iter().find(|qdisc| qdisc.parent == class);
            return match child.map(|child| own_timing(child)) {
                Some((kind, timing)) if timing.heeds_departures() => {
                    let (major, minor) = (class >> 16, class & 0xffff);
                    found(format!("{kind} in class {major:x}:{minor:x}"), timing)
                }
                _ if SHAPERS.contains(&&root.kind[..]) => {
                    found(root.kind.clone(), Timing::Class(class))
                }
                _ => found(root.kind.clone(), Timing::None),
            };
        }
        if root.kind != "mq" {
            let (kind, timing) = own_timing(root);
            return found(kind, timing);
        }
        // Whichever queue of the device a packet takes, it meets one of these.
        let queues: Vec<(String, Timing)> = qdiscs
            .iter()
            .filter(|qdisc| qdisc.parent != ROOT && qdisc.parent >> 16 == root.handle >> 16)
            .map(|queue| own_timing(queue))
            .collect();
        match queues.split_first() {
            Some((first, others)) if others.iter().all(|other| other == first) => {
                found(format!("mq of {}", first.0), first.1)
            }
            Some(_) => found("mq of several".into(), Timing::None),
            None => found("mq".into(), Timing::None),
        }
    }
}

/// What a scheduler does by itself, whatever is around it, and what to call it.
fn own_timing(qdisc: &Qdisc) -> (String, Timing) {
    let kind = qdisc.kind.clone();
    match &kind[..] {
        "fq" => (kind, Timing::Fq),
        "etf" => match etf(&qdisc.options) {
            Some(delta_ns) => (kind, Timing::Etf { delta_ns }),
            None => ("etf in deadline mode".into(), Timing::None),
        },
        _ => (kind, Timing::None),
    }
}

/// The `delta` of an etf that sends at the times of packets. In deadline mode it sends what it has
/// as soon as it can, at latest then.
fn etf(options: &[u8]) -> Option<u32> {
    /// `TCA_ETF_PARMS`, a `struct tc_etf_qopt`: delta, clock, flags.
    const PARAMETERS: u16 = 1;
    const DEADLINE_MODE: u32 = 1;
    let (_, parameters) = attributes(options).find(|(kind, _)| *kind == PARAMETERS)?;
    let delta_ns = i32::from_ne_bytes(*parameters.first_chunk()?);
    let flags = u32::from_ne_bytes(*parameters.get(8..)?.first_chunk()?);
    (flags & DEADLINE_MODE == 0).then_some(delta_ns.max(0).cast_unsigned())
}

/// Notified when interfaces, schedulers or routes of this network namespace change.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// From now on.
    ///
    /// # Errors
    ///
    /// What the kernel says: no rtnetlink.
    pub fn begin() -> Result<Self, Errno> {
        open(rtnetlink::CHANGES).map(Self)
    }

    /// Has anything changed since the last call? Never waits.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let take = |_: usize| {
            // What it is does not matter: everything is asked again.
            let taken = recv(&self.0, &mut [0; 16][..], RecvFlags::DONTWAIT);
            // ENOBUFS: there was more than the socket holds.
            matches!(taken, Ok(_) | Err(Errno::NOBUFS))
        };
        (0..REPORTS_MAX).take_while(|index| take(*index)).count() > 0
    }
}

/// A socket for rtnetlink that hears of `groups`.
fn open(groups: u32) -> Result<OwnedFd, Errno> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // NETLINK_ROUTE
    )?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn route(socket: &OwnedFd, to: IpAddr) -> Result<u32, Errno> {
    let mut interface = None;
    ask(socket, &route_request(to), &mut |answer| match answer {
        Answer::Interface(index) => {
            interface = Some(index);
            true
        }
        _ => true,
    })?;
    interface.ok_or(Errno::NETUNREACH)
}

fn qdiscs(socket: &OwnedFd) -> Result<Vec<Qdisc>, Errno> {
    let mut found = Vec::new();
    ask(socket, &qdiscs_request(), &mut |answer| match answer {
        Answer::Qdisc(qdisc) => {
            found.push(qdisc);
            false
        }
        Answer::Done => true,
        _ => false,
    })?;
    Ok(found)
}

/// Asks, and hands over answers until `take` says that one was the last.
fn ask(
    socket: &OwnedFd,
    request: &[u8],
    take: &mut dyn FnMut(Answer) -> bool,
) -> Result<(), Errno> {
    sendto(
        socket,
        request,
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut datagram = vec![0; ANSWER_BYTES];
    for _ in 0..ANSWERS_MAX {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        if poll(&mut ready, Some(&TIME_LIMIT))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        let (_, bytes) = recv(socket, &mut datagram[..], RecvFlags::DONTWAIT)?;
        for answer in answers(&datagram[..bytes]) {
            match answer {
                Answer::Error(0) => {}
                Answer::Error(errno) => return Err(Errno::from_raw_os_error(errno)),
                answer => {
                    if take(answer) {
                        return Ok(());
                    }
                }
            }
        }
    }
    Err(Errno::MSGSIZE)
}

#[cfg(test)]
mod tests {
    use super::rtnetlink::tests::attribute;
    use super::*;

    fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
        Qdisc {
            interface: 2,
            handle,
            parent,
            kind: kind.into(),
            options: Vec::new(),
        }
    }

    fn etf_at(parent: u32, flags: u32) -> Qdisc {
        let parameters = [300_000, 11, flags].map(u32::to_ne_bytes).concat();
        Qdisc {
            options: attribute(1, &parameters),
            ..qdisc("etf", 0x10_0000, parent)
        }
    }

    fn of(qdiscs: &[Qdisc], priority: Option<u32>) -> (String, Timing) {
        let all: Vec<&Qdisc> = qdiscs.iter().collect();
        let found = Scheduler::of("near".into(), &all, priority);
        (found.to_string(), found.timing)
    }

    const CLASS: u32 = 0x1_0010;
    const ETF: Timing = Timing::Etf { delta_ns: 300_000 };

    #[test]
    fn only_fq_and_etf_heed_departures() {
        for kind in [
            "noqueue",
            "pfifo_fast",
            "fq_codel",
            "htb",
            "fq_pie",
            "unheard-of",
        ] {
            let (told, timing) = of(&[qdisc(kind, 0, ROOT)], None);
            assert_eq!((told, timing), (format!("{kind} on near"), Timing::None));
        }
        let (told, timing) = of(&[qdisc("fq", 0x8001_0000, ROOT)], None);
        assert_eq!((&told[..], timing), ("fq on near", Timing::Fq));
        assert_eq!(of(&[etf_at(ROOT, 0)], None), ("etf on near".into(), ETF));
        assert_eq!(of(&[], None).1, Timing::None);
    }

    #[test]
    fn etf_without_deadline_options_is_not_used() {
        assert_eq!(of(&[etf_at(ROOT, 1)], None).1, Timing::None);
        // Offloaded, and open to sockets without times.
        assert_eq!(of(&[etf_at(ROOT, 2 | 4)], None).1, ETF);
        assert_eq!(of(&[qdisc("etf", 0x10_0000, ROOT)], None).1, Timing::None);
    }

    #[test]
    fn priority_chooses_a_class() {
        let htb = qdisc("htb", 0x1_0000, ROOT);
        let told = |qdiscs: &[Qdisc], priority| of(qdiscs, priority);
        let (name, timing) = told(std::slice::from_ref(&htb), Some(CLASS));
        assert_eq!(name, "class 1:10 of htb on near");
        assert_eq!(timing, Timing::Class(CLASS));
        // Of another scheduler, which it is not: htb sends it to its default class.
        assert_eq!(
            told(std::slice::from_ref(&htb), Some(0x2_0010)).1,
            Timing::None
        );
        let under_htb = [htb, qdisc("fq", 0x20_0000, CLASS)];
        let expected = ("fq in class 1:10 on near".into(), Timing::Fq);
        assert_eq!(told(&under_htb, Some(CLASS)), expected);
        assert_eq!(told(&under_htb, None).1, Timing::None);
        let under_prio = [qdisc("prio", 0x1_0000, ROOT), etf_at(CLASS, 4)];
        assert_eq!(told(&under_prio, Some(CLASS)).1, ETF);
        // The bands of prio have no rate.
        assert_eq!(told(&under_prio, Some(CLASS + 1)).1, Timing::None);
    }

    #[test]
    fn every_queue_of_a_device_has_to_heed_them() {
        let queue = |kind, number: u32| qdisc(kind, 0, 0x1_0000 + number);
        let root = qdisc("mq", 0x1_0000, ROOT);
        let all = [root.clone(), queue("fq", 1), queue("fq", 2)];
        assert_eq!(of(&all, None), ("mq of fq on near".into(), Timing::Fq));
        let some = [root.clone(), queue("fq", 1), queue("fq_codel", 2)];
        assert_eq!(of(&some, None).1, Timing::None);
        assert_eq!(of(&[root], None).1, Timing::None);
    }

    #[test]
    fn this_kernel_answers() {
        let of_loopback = |to: &str| Scheduler::towards(to.parse().unwrap(), None, None);
        let found = of_loopback("127.0.0.1:5004").unwrap();
        assert_eq!(found.interface, "lo");
        assert!(!found.kind.is_empty());
        let all = Scheduler::of_all_interfaces().unwrap();
        // One without a queue may be left out of the list.
        for scheduler in all.iter().filter(|one| one.interface == "lo") {
            assert_eq!(*scheduler, found);
        }
        let group = "239.1.2.3:5004".parse().unwrap();
        let named = Scheduler::towards(group, Some("lo"), None).unwrap();
        assert_eq!(named, found);
        let missing = Scheduler::towards(group, Some("hythe-none"), None);
        assert_eq!(missing, Err(Errno::NODEV));
    }

    #[test]
    fn nothing_has_changed_as_long_as_nothing_does() {
        let watch = Watch::begin().unwrap();
        // Others may change this namespace meanwhile, but not for ever.
        assert!((0..1000).any(|_| !watch.has_changed()));
    }
}
