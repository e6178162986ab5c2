//! Two hosts with the agent as it is shipped, each in a network namespace: taken in over a remote
//! shell, and then a message from one to the other.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::network::agent::{
    Host, LONG, are_connected, eventually, first, pair, programs, start_anew,
};
use crate::network::{Lan, is_skipped};
use hythe_cluster::HostName;
use hythe_cluster::command::Request;
use hythe_cluster::tasks::find_host;
use hythe_hostd::realm::file;
use hythe_node::{Pool, PoolOptions, PublisherOptions, SubscriberOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

#[test]
fn host_is_taken_in_and_a_message_reaches_it() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let [a, b] = pair(&lan);
    let (here, there) = (a.join("sender"), b.join("receiver"));
    let mut frames = there
        .subscriber("frames", &SubscriberOptions::default())
        .expect("subscribed");
    let mut publisher = here
        .publisher("frames", &PublisherOptions::default())
        .expect("published");
    let reached = publisher.wait_for_subscribers(1, LONG);
    assert!(reached.expect("sound"), "host b is no subscriber");
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at / 251) as u8).collect();
    for _ in 0..3 {
        let mut lease = publisher.lease(sent.len()).expect("a slot");
        lease.write(0, &sent);
        publisher.publish(lease, sent.len()).expect("published");
        let frame = frames.take(LONG).expect("sound").expect("it arrives");
        assert_eq!(frame.to_vec(), sent);
    }
    // Put out, it is known on neither side any more.
    a.said(&["remove", "b"]);
    eventually("b is cut off", || !a.is_connected_with("b"));
}

#[test]
fn what_is_wrong_with_a_host_is_named() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let a = first(&lan);
    let taken = a.refusal(&["init", "--name", "z"]);
    assert!(taken.contains("this host is a of realm"), "{taken}");
    let twice = a.refusal(&["start"]);
    assert!(twice.contains("runs already"), "{twice}");
    let unknown = a.refusal(&["remove", "nobody"]);
    assert!(unknown.contains("no host nobody; it has: a"), "{unknown}");
    let own = a.refusal(&["remove", "a"]);
    assert!(own.contains("host a is this one"), "{own}");
    let option = a.refusal(&["add", "--name", "b", "--", "-oProxyCommand=true"]);
    assert!(option.contains("is no host"), "{option}");
    let rule = a.refusal(&["allow", "b", "frames", "look"]);
    assert!(rule.contains("read|write|spawn|none"), "{rule}");
    let b = Host::on(&lan, 2);
    let nobody = a.add(&b, "b", Path::new("/nowhere"));
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    assert!(said.contains("host b: there is no hythe-hostd"), "{said}");
    let same = a.add(&b, "a", &programs());
    let said = String::from_utf8_lossy(&same.stderr);
    assert!(said.contains("the name a is taken"), "{said}");
    let stranger = b.refusal(&["start"]);
    assert!(stranger.contains("belongs to no realm"), "{stranger}");
}

/// As the reason in `hythe host list` says, whose agent runs still; and one whose directory was
/// removed under its agent, which nobody can reach any more.
#[test]
fn host_that_was_removed_is_taken_in_again() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(35);
    let [a, b] = pair(&lan);
    for is_directory_removed in [false, true] {
        let before = b.status().expect("it runs").pid;
        let before = Pid::from_raw(before.cast_signed()).expect("a process");
        let before = pidfd_open(before, PidfdFlags::empty()).expect("it runs");
        a.said(&["remove", "b"]);
        if is_directory_removed {
            // The agent may write the list of hosts there meanwhile.
            let directory = b.path("hosts");
            eventually("it is removed", || {
                std::fs::remove_dir_all(&directory).is_ok() || !directory.exists()
            });
        }
        a.take_in(&b, "b");
        eventually("they are connected again", || are_connected(&a, &b));
        let mut ended = [PollFd::new(&before, PollFlags::IN)];
        let bound = Timespec::try_from(LONG).expect("short");
        assert_eq!(poll(&mut ended, Some(&bound)), Ok(1), "the old agent runs");
    }
    // In the realm, under another name: that is no identity to give up.
    let other = a.add(&b, "c", &programs());
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(said.contains("this host is b of realm"), "{said}");
}

#[test]
fn host_that_is_asked_at_once_is_waited_for() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(36);
    let [a, b] = pair(&lan);
    start_anew(&[&a, &b], |_| Vec::new());
    let pool = PoolOptions::new("default").root(&a.path("pools"));
    let pool = Pool::open_or_create(&pool).expect("the agent's pool");
    let name = |name: &str| name.parse::<HostName>().expect("a name");
    find_host(&pool, &name("b")).expect("it is connected soon");
    let nobody = find_host(&pool, &name("nobody")).expect_err("there is none");
    let said = nobody.to_string();
    assert!(
        said.contains("there is no host nobody in the realm"),
        "{said}"
    );
}

#[test]
fn what_is_typed_is_checked() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(37);
    let a = Host::on(&lan, 1);
    a.said(&["init", "--name", "a", "--address", "[fd00::1]"]);
    let document = std::fs::read_to_string(a.path("hosts").join(file::DOCUMENT)).expect("there");
    assert!(document.contains("[fd00::1]:7450"), "{document}");
    let interface = a.refusal(&["start", "--trusted", "wlan9"]);
    assert!(interface.contains("no such interface"), "{interface}");
    assert!(interface.contains(&a.plug.interface()), "{interface}");
    let host = a.refusal(&["allow", "nosuch", "*", "read"]);
    assert!(host.contains("has no host nosuch; it has: a"), "{host}");
    a.said(&["allow", "nosuch*", "*", "none"]);
    let empty = a.path("machines");
    for (text, reason) in [
        ("# nobody\n", "names no host"),
        ("b slots=x\n", "slots: "),
        ("b slots 2\n", "a line is HOST or HOST slots=N"),
    ] {
        std::fs::write(&empty, text).expect("written");
        let said = a.refusal(&["add", "--hostfile", empty.to_str().expect("text")]);
        assert!(said.contains(reason), "{said}");
    }
}

#[test]
fn status_says_where_the_host_is_found_and_what_became_of_calls() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(4);
    let (a, b) = (first(&lan), Host::on(&lan, 2));
    let address = format!("{}:7450", a.plug.address());
    let status = a.status().expect("it runs");
    let addresses: Vec<String> = { status.directory.addresses.iter() }
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, [address.as_str()]);
    assert_eq!(status.calls, hythe_cluster::Calls::default());
    let call = |port: u16| {
        let to = format!("/dev/tcp/{}/{port}", a.plug.address());
        let words = format!("echo 'GET / HTTP/1.0' >{to}");
        let mut shell = b.space.command("bash");
        assert!(shell.args(["-c", &words]).status().expect("run").success());
    };
    call(7450);
    eventually("the call of a stranger is counted", || {
        a.status().expect("it runs").calls.not_hythe == 1
    });
    call(7451);
    eventually("and that of one at the discovery", || {
        a.status().expect("it runs").directory.refused_calls == 1
    });
}

/// Its key is signed, and what goes on behind that is said.
#[test]
fn added_host_without_agent_is_reported() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(3);
    let (a, b) = (first(&lan), Host::on(&lan, 2));
    // An agent of somebody else has its ports.
    b.somebody_said(&["init", "--name", "z"]);
    b.somebody_said(&["start"]);
    let added = a.add(&b, "b", &programs());
    let said = String::from_utf8_lossy(&added.stderr);
    assert_eq!(added.status.code(), Some(1), "{added:?}");
    for part in [
        "host b is in the realm, and its agent does not run",
        "port 7450",
        "is taken by another program",
        " b hythe-hostd start`",
        "`hythe host remove b`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    b.stop_somebody();
    b.said(&["start"]);
    eventually("they are connected", || a.is_connected_with("b"));
    // What cannot be taken in at all.
    let c = Host::on(&lan, 3);
    c.said(&["init", "--name", "c"]);
    let added = a.add(&c, "c", &programs());
    let said = String::from_utf8_lossy(&added.stderr);
    for part in ["host c is not in the realm", "this host is c of realm"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Of one that systemd starts as a service of the type `notify`.
#[test]
fn who_started_it_is_told_when_it_can_be_reached() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(5);
    let host = Host::on(&lan, 1);
    host.said(&["init", "--name", "a"]);
    let path = host.path("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(LONG)).expect("set");
    let mut agent = host.command();
    agent
        .args(["start", "--foreground"])
        .env("NOTIFY_SOCKET", &path);
    let mut agent = agent.stdout(Stdio::null()).spawn().expect("started");
    let mut said = [0; 64];
    let length = manager.recv(&mut said).expect("it says something");
    assert_eq!(String::from_utf8_lossy(&said[..length]).trim(), "READY=1");
    assert!(host.status().is_some(), "it answers");
    host.stop();
    assert!(agent.wait().expect("its end").success());
}

/// Where there is no socket, there is no agent any more.
#[test]
fn agent_starts_as_soon_as_the_one_before_has_stopped() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(7);
    let [a, b] = pair(&lan);
    for _ in 0..5 {
        for host in [&a, &b] {
            host.stop();
            host.said(&["start"]);
        }
    }
    eventually("they are connected", || are_connected(&a, &b));
}

/// Whom it cannot reach any more, it cannot say farewell to.
#[test]
fn agent_that_stops_does_not_wait_for_a_host_that_is_cut_off() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(8);
    let (a, b) = (Host::on(&lan, 1), Host::on(&lan, 2));
    a.said(&["init", "--name", "a", "--address", &a.plug.address()]);
    // So long that nobody notices meanwhile.
    a.said(&["start", "--lease", "600"]);
    a.take_in(&b, "b");
    eventually("a and b are connected", || are_connected(&a, &b));
    let pid = a.status().expect("it runs").pid;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = pidfd_open(pid.expect("a process"), PidfdFlags::empty()).expect("it runs");
    lan.set_passing(b.plug, false);
    let asked = Instant::now();
    a.ask(&Request::Stop).expect("it answers");
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    eventually("the process ends", || {
        let now = poll(&mut ended, Some(&Timespec::default()));
        now.is_ok_and(|count| count > 0)
    });
    eprintln!("ended after {:?}", asked.elapsed());
}

/// It has connections for each channel with each host.
#[test]
fn agent_may_open_as_many_files_as_the_system_permits() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(6);
    let host = Host::on(&lan, 1);
    host.said(&["init", "--name", "a"]);
    let mut shell = host.space.command("sh");
    shell.env("HYTHE_HOSTS_DIR", host.path("hosts"));
    shell.env("HYTHE_ROOT", host.path("pools"));
    shell.args(["-c", "ulimit -Sn 300 && exec \"$0\" start"]);
    let started = shell.arg(programs().join("hythe-hostd")).output();
    let started = started.expect("run");
    assert!(started.status.success(), "{started:?}");
    let pid = host.status().expect("it runs").pid;
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let files = { limits.lines() }.find(|line| line.starts_with("Max open files"));
    let words: Vec<&str> = files.expect("in the file").split_whitespace().collect();
    assert_eq!(words[3], words[4], "soft and hard: {limits}");
}
