//! The link of a control connection: where flows go over it, and whether in clear text.
//!
//! Sockets of a flow are always at the two addresses that TLS has proven, and no message of a host
//! can name another. Flows are sealed, unless both users have declared the link trusted: each agent
//! tells the other which address its end of the connection has then, and both must see the same.
//!
//! An interface may get another name, or lose its address, while the session goes on: it is looked
//! at again now and then.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hythe_flows::message::{Transport, WirePlace};
use hythe_flows::wire_path;

use crate::ConnectionPath;
use crate::agent::lock::lock;

/// The interface is looked at again after so long.
const LOOK: Duration = Duration::from_secs(1);

/// The link of a session.
#[derive(Debug)]
pub(crate) struct Link {
    trusted: Vec<String>,
    path: Option<ConnectionPath>,
    /// Short messages may go by `AF_XDP` frames, as far as the user of this host says.
    allows_frames: bool,
    /// It was trusted here when the session began: the other side was told.
    was_trusted: bool,
    /// The address that the other side has heard of last, while the link is trusted here.
    told: Mutex<Option<IpAddr>>,
    /// What the other side calls its end, as it said last; `Some(None)`: it does not trust it.
    there: Mutex<Option<Option<IpAddr>>>,
    now: Mutex<Seen>,
}

/// How it was when it was last looked at.
#[derive(Debug)]
struct Seen {
    at: Instant,
    interface: Option<String>,
    /// The program that serves it with `AF_XDP` sockets.
    served: Option<u64>,
    /// Why it is not trusted here, if so.
    here: Result<(), String>,
}

impl Link {
    /// That of a connection.
    pub(crate) fn of(
        (trusted, allows_frames): (&[String], bool),
        path: Option<ConnectionPath>,
        interface_of: impl FnOnce(IpAddr) -> Option<String>,
    ) -> Self {
        let seen = look(trusted, path, interface_of);
        Self {
            trusted: trusted.to_vec(),
            path,
            allows_frames,
            was_trusted: seen.here.is_ok(),
            told: Mutex::default(),
            there: Mutex::default(),
            now: Mutex::new(seen),
        }
    }

    /// Looks at the interface again, unless that was done just now.
    pub(crate) fn look_again(&self, interface_of: impl FnOnce(IpAddr) -> Option<String>) {
        if !self.was_trusted || lock(&self.now).at.elapsed() < LOOK {
            return;
        }
        let seen = look(&self.trusted, self.path, interface_of);
        *lock(&self.now) = seen;
    }

    /// What to tell the other side: the address here, if the link is trusted.
    pub(crate) fn tell(&self) -> Option<IpAddr> {
        let is_trusted = lock(&self.now).here.is_ok();
        let address = self.path.filter(|_| is_trusted).map(|path| path.local);
        *lock(&self.told) = address;
        address
    }

    /// Has the other side heard something else last?
    pub(crate) fn is_to_be_told(&self) -> bool {
        lock(&self.now).here.is_ok() != lock(&self.told).is_some()
    }

    /// Was it trusted on both sides when the session began? A host that offers flows since has not
    /// lied.
    pub(crate) fn was_agreed(&self) -> bool {
        let peer = self.path.map(|path| path.peer);
        self.was_trusted && peer.is_some() && lock(&self.there).flatten() == peer
    }

    /// The other side trusts it, if it has that address there.
    pub(crate) fn trust_there(&self, address: Option<IpAddr>) {
        *lock(&self.there) = Some(address.map(|address| address.to_canonical()));
    }

    pub(crate) fn interface(&self) -> Option<String> {
        lock(&self.now).interface.clone()
    }

    /// How flows are sent that begin now: sealed, unless both users trust the link.
    pub(crate) fn transport(&self) -> Transport {
        match self.trusted() {
            Ok(()) => Transport::Tcp,
            Err(_) => Transport::Tls,
        }
    }

    /// May flows in clear text have frames?
    ///
    /// # Errors
    /// Why not, for people.
    pub(crate) fn frames(&self) -> Result<(), String> {
        let path = self.path()?;
        match (self.allows_frames, path.local) {
            (false, _) => Err("this host was started with `--no-xdp`".to_owned()),
            (true, IpAddr::V6(_)) => Err("`AF_XDP` frames are for IPv4 only".to_owned()),
            (true, IpAddr::V4(_)) => Ok(()),
        }
    }

    /// The program that serves its interface with `AF_XDP` sockets, if one does.
    pub(crate) fn wire(&self) -> Option<WirePlace> {
        let seen = lock(&self.now);
        let path = wire_path(seen.interface.as_ref()?);
        Some(WirePlace {
            path: path.display().to_string(),
            instance: seen.served?,
        })
    }

    /// As if that program served its interface.
    #[cfg(test)]
    pub(super) fn serve(&self, instance: Option<u64>) {
        lock(&self.now).served = instance;
    }

    /// Where both ends of a flow are.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(crate) fn path(&self) -> Result<ConnectionPath, String> {
        let path = self.path.ok_or("its connection has no addresses")?;
        let is_local = |ip| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if is_local(path.local) || is_local(path.peer) {
            return Err("an address of one link only".to_owned());
        }
        let there = *lock(&self.there);
        match there {
            Some(_) => Ok(path),
            None => Err("the other host has not said whether it trusts the link".to_owned()),
        }
    }

    /// The same for flows of this transport: those in clear text are for trusted links.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub(crate) fn path_for(&self, transport: Transport) -> Result<ConnectionPath, String> {
        let path = self.path()?;
        match transport {
            Transport::Tls => Ok(path),
            Transport::Tcp => self.trusted().map(|()| path),
        }
    }

    /// # Errors
    /// Why it is not a link that both users trust.
    pub(crate) fn trusted(&self) -> Result<(), String> {
        let path = self.path()?;
        lock(&self.now).here.clone()?;
        let there = lock(&self.there).flatten();
        match there {
            None => Err("the link is not trusted there".to_owned()),
            Some(there) if there != path.peer => Err(format!(
                "its end of the link is {} here and {there} there: an address is translated \
                 between",
                path.peer
            )),
            Some(_) => Ok(()),
        }
    }

    /// The interface that sockets of such flows are bound to.
    pub(crate) fn interface_for(&self, transport: Transport) -> Option<String> {
        match transport {
            // Wherever the routes lead.
            Transport::Tls => None,
            Transport::Tcp => self.interface(),
        }
    }
}

fn look(
    trusted: &[String],
    path: Option<ConnectionPath>,
    interface_of: impl FnOnce(IpAddr) -> Option<String>,
) -> Seen {
    let looked_for = path.filter(|_| !trusted.is_empty());
    let interface = looked_for.and_then(|path| interface_of(path.local));
    Seen {
        at: Instant::now(),
        here: judge(trusted, path, interface.as_deref()),
        served: interface.as_deref().and_then(served),
        interface,
    }
}

/// The program that serves an interface, if one does.
fn served(interface: &str) -> Option<u64> {
    instance(&wire_path(interface))
}

/// A number that another program at the same place has not. Many file systems give a new file the
/// number of one that has just gone, so when it was made is in it.
fn instance(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    let made_ns = found.mtime().wrapping_mul(1_000_000_000);
    let made_ns = made_ns.wrapping_add(found.mtime_nsec());
    Some(found.ino().wrapping_add(made_ns as u64))
}

fn judge(
    trusted: &[String],
    path: Option<ConnectionPath>,
    interface: Option<&str>,
) -> Result<(), String> {
    if trusted.is_empty() {
        return Err("no link is trusted here".to_owned());
    }
    let path = path.ok_or("its connection has no addresses")?;
    match interface {
        None => Err(format!("no interface here has {}", path.local)),
        Some(name) if !trusted.iter().any(|one| one == name) => {
            Err(format!("the link at {name} is not trusted here"))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_testing::let_time_pass;

    #[test]
    fn another_program_at_the_same_place_is_another() {
        let folder = tempfile::TempDir::new().expect("made");
        let path = folder.path().join("lo");
        assert_eq!(instance(&path), None);
        let mut before = None;
        for _ in 0..3 {
            let socket = std::os::unix::net::UnixListener::bind(&path).expect("bound");
            let now = instance(&path);
            assert!(now.is_some() && now != before);
            assert_eq!(instance(&path), now);
            before = now;
            drop(socket);
            std::fs::remove_file(&path).expect("there");
            let tick = Duration::from_millis(20);
            let_time_pass(tick, "longer than a tick of the kernel's clock of files");
        }
    }

    #[test]
    fn only_what_both_users_trust_is_used() {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let link = |trusted: &[&str], path, interface: Option<&str>| {
            let trusted: Vec<String> = trusted.iter().map(ToString::to_string).collect();
            let interface = interface.map(str::to_owned);
            Link::of((&trusted, true), path, |_| interface)
        };
        let of = |trusted: &[&str], there| {
            let link = link(trusted, Some(path), Some("y"));
            link.trust_there(there);
            link
        };
        // What is not trusted is sealed.
        for (link, why) in [
            (of(&[], None), "no link is trusted here"),
            (of(&["x", "y"], None), "the link is not trusted there"),
            (
                of(&["x"], Some(path.peer)),
                "the link at y is not trusted here",
            ),
            (
                of(&["y"], Some(path.local)),
                "an address is translated between",
            ),
        ] {
            let refused = link.path_for(Transport::Tcp).expect_err("not trusted");
            assert!(refused.contains(why), "{refused}");
            assert_eq!(link.transport(), Transport::Tls, "{why}");
            assert_eq!(link.path_for(Transport::Tls), Ok(path));
        }
        let untold = link(&["y"], Some(path), Some("y"));
        let why = untold.path_for(Transport::Tls).expect_err("not yet");
        assert!(why.contains("has not said"), "{why}");
        let local = IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]);
        let local = ConnectionPath { local, ..path };
        let one_link = link(&["y"], Some(local), Some("y"));
        one_link.trust_there(None);
        let why = one_link.path_for(Transport::Tls).expect_err("no way");
        assert_eq!(why, "an address of one link only");
        let both = of(&["y"], Some(path.peer));
        assert_eq!(both.transport(), Transport::Tcp);
        assert_eq!(both.path_for(Transport::Tcp), Ok(path));
        assert_eq!(both.wire(), None, "nothing serves the interface");
        both.trust_there(None);
        assert_eq!(
            both.transport(),
            Transport::Tls,
            "it is trusted there no more"
        );
    }

    #[test]
    fn renamed_interface_is_trusted_only_under_old_name() {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let named = |name: &'static str| move |_| Some(name.to_owned());
        let trusted = ["y".to_owned()];
        let link = Link::of((&trusted, true), Some(path), named("y"));
        assert_eq!(link.tell(), Some(path.local));
        assert!(!link.was_agreed() && !link.is_to_be_told());
        link.trust_there(Some(path.peer));
        let later = |link: &Link| lock(&link.now).at -= LOOK;
        link.look_again(|_| panic!("that was done just now"));
        later(&link);
        link.look_again(named("z"));
        let why = link.trusted().expect_err("not trusted");
        assert_eq!(why, "the link at z is not trusted here");
        assert!(link.is_to_be_told() && link.tell().is_none() && !link.is_to_be_told());
        assert_eq!(link.interface().as_deref(), Some("z"));
        later(&link);
        link.look_again(|_| None);
        assert_eq!(
            link.trusted(),
            Err("no interface here has 10.0.0.1".to_owned())
        );
        assert!(link.was_agreed());
        later(&link);
        link.look_again(named("y"));
        assert_eq!(link.trusted(), Ok(()));
        // One that was never trusted is not looked at.
        let other = Link::of((&trusted, true), Some(path), named("x"));
        later(&other);
        other.look_again(|_| panic!("the other side was told nothing"));
        assert!(!other.was_agreed());
    }

    #[test]
    fn frames_are_for_ipv4_and_for_hosts_that_allow_them() {
        let ipv4 = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let ipv6 = ConnectionPath {
            local: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
            peer: [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2].into(),
        };
        let trusted = ["y".to_owned()];
        let frames = |path, allows_frames| {
            let interface = |_| Some("y".to_owned());
            let link = Link::of((&trusted, allows_frames), Some(path), interface);
            link.trust_there(Some(path.peer));
            assert_eq!(link.transport(), Transport::Tcp);
            link.frames()
        };
        assert_eq!(frames(ipv4, true), Ok(()));
        let why = frames(ipv4, false).expect_err("not allowed");
        assert!(why.contains("--no-xdp"), "{why}");
        let why = frames(ipv6, true).expect_err("not IPv4");
        assert!(why.contains("IPv4"), "{why}");
    }

    #[test]
    fn program_that_serves_interface_is_found_by_its_file() {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let trusted = ["y".to_owned()];
        let link = Link::of((&trusted, true), Some(path), |_| Some("y".to_owned()));
        assert_eq!(link.wire(), None);
        link.serve(Some(7));
        let place = WirePlace {
            path: "/run/hythe/wire/y".to_owned(),
            instance: 7,
        };
        assert_eq!(link.wire(), Some(place));
    }
}
