//! `hythe host`: the program that it becomes, and what it asks a running agent. The agent is a
//! thread of the test: it answers over a real socket.

use crate::support;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Ended, Root, Running};
use hythe_cluster::command::{Reply, Request, SOCKET_NAME, answer};
use hythe_cluster::frame::{EndKind, Window};
use hythe_cluster::{
    Calls, ChannelState, ChannelStatus, ConnectionAbout, Copies, Credit, Direction,
    DirectoryStatus, FlowCopies, HostState, HostStatus, LinkStatus, Losses, OpenChannelStatus,
    OpenFiles, OpenStatus, SessionStatus, Status,
};
use hythe_sys::accept::Acceptor;
use hythe_sys::local_socket::{LocalListener, Peers};
use hythe_testing::let_time_pass;
use rustix::net::SocketType;
use serde_json::{Value, json};

/// A root, and a directory of the host's files.
struct Host {
    root: Root,
    directory: PathBuf,
}

impl Host {
    fn new() -> Self {
        let root = Root::new();
        let directory = root.path().join("hosts");
        std::fs::create_dir(&directory).expect("own");
        Self { root, directory }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.root.command(&[&["host"], arguments].concat());
        command
            .env("HYTHE_HOSTS_DIR", &self.directory)
            .env_remove("HYTHE_HOSTD");
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Running::new(self.command(arguments)).end()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        ended.succeeded();
        ended.text()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }

    /// A program that prints the pool and what it is told, a line each.
    fn write_hostd(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        let script = "#!/bin/sh\necho \"pool ${HYTHE_POOL-none}\"\nprintf '%s\\n' \"$@\"\nexit 7\n";
        hythe_testing::write_script(&path, script);
        path
    }

    fn hostd(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = self.command(arguments);
        command.env("HYTHE_HOSTD", self.root.path().join("hostd"));
        let ended = Running::new(command).end();
        assert_eq!(ended.code, Some(7), "{arguments:?}: {}", ended.errors);
        ended.text().lines().map(str::to_owned).collect()
    }

    /// Runs `test` while an agent answers.
    fn with_agent<T>(
        &self,
        answering: impl Fn(Request) -> Reply + Sync,
        test: impl FnOnce() -> T,
    ) -> T {
        let peers = Peers::User(hythe_sys::identity::effective_user());
        let socket = self.directory.join(SOCKET_NAME);
        let listener = LocalListener::bind(&socket, SocketType::STREAM, 128, peers);
        let listener = listener.expect("bound");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut acceptor = Acceptor::default();
                while !is_over.load(Ordering::Relaxed) {
                    if !answer(&mut acceptor, &listener, &answering) {
                        let_time_pass(Duration::from_millis(2), "the next poll for a request");
                    }
                }
            });
            let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
            is_over.store(true, Ordering::Relaxed);
            tested.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn host(name: &str, state: HostState, reason: &str, session: Option<SessionStatus>) -> HostStatus {
    HostStatus {
        host: name.parse().expect("a name"),
        state,
        reason: reason.to_owned(),
        addresses: vec!["192.0.2.7:7450".to_owned(), "[2001:db8::7]:7450".to_owned()],
        sessions: 2,
        session,
        losses: Losses::default(),
    }
}

fn link() -> LinkStatus {
    LinkStatus {
        interface: Some("eth1".to_owned()),
        why_no_flows: String::new(),
        transport: "tcp".to_owned(),
        why_sealed: String::new(),
        sending: 2,
        receiving: 0,
        pending: 1,
    }
}

fn copied_by_kernel(by_kernel: u32) -> FlowCopies {
    FlowCopies {
        by_kernel,
        ..FlowCopies::default()
    }
}

fn session() -> SessionStatus {
    let credit = |frames, bytes, used_frames, used_bytes| Credit {
        window: Window { frames, bytes },
        used: Window {
            frames: used_frames,
            bytes: used_bytes,
        },
    };
    let channel =
        |name: &str, direction, (state, reason): (_, &str), credit, (flows, why): (_, &str)| {
            ChannelStatus {
                channel: name.to_owned(),
                kind: EndKind::Publish,
                direction,
                state,
                reason: reason.to_owned(),
                messages: 12,
                payload_bytes: 3072,
                credit,
                carrier: if flows > 0 { "tcp, xdp" } else { "tls" }.to_owned(),
                why_not_better: why.to_owned(),
                flows,
                not_taken: 0,
                flow_copies: copied_by_kernel(flows.min(1)),
            }
        };
    SessionStatus {
        number: "1f2e".to_owned(),
        age_ms: 3_200,
        connection: ConnectionAbout {
            carrier: "tls".to_owned(),
            why_not_better: "no \u{1b}kernel TLS".to_owned(),
            identity: "SHA256:aa11".to_owned(),
            address: "192.0.2.7:40000".to_owned(),
            copies_sending: 2,
            copies_receiving: 3,
        },
        link: link(),
        round_trip_ns: Some(182_400),
        credit: credit(256, 4 << 20, 3, 3072),
        copies: Copies {
            sending: 2,
            receiving: 3,
        },
        ends: Vec::new(),
        channels: vec![
            channel(
                "frames",
                Direction::Sending,
                (ChannelState::Open, ""),
                Some(credit(64, 1 << 20, 3, 3072)),
                (2, ""),
            ),
            channel(
                "levels",
                Direction::Sending,
                (ChannelState::Open, ""),
                None,
                (0, "it has 2 receivers"),
            ),
            channel(
                "orders",
                Direction::Receiving,
                (ChannelState::Refused, "no rule there permits it"),
                None,
                (0, ""),
            ),
        ],
    }
}

fn status(pid: u32) -> Status {
    let mut camera = host("camera", HostState::Connected, "", Some(session()));
    camera.losses.not_sent = 5;
    camera.losses.reconnections = 1;
    let why = "its certificate\nis revoked";
    Status {
        host: "desk".parse().expect("a name"),
        pool: "default".to_owned(),
        trusted: vec!["eth1".to_owned(), "lo".to_owned()],
        pid,
        refused_connections: 2,
        calls: Calls {
            accepted: 7,
            not_hythe: 3,
            revoked: 1,
            ..Calls::default()
        },
        no_files_left: Some(OpenFiles {
            open: 62,
            limit: 64,
        }),
        directory: DirectoryStatus {
            addresses: vec!["192.0.2.1:7450".parse().expect("an address")],
            refused_tokens: 2,
            refused_calls: 9,
            trouble: Some("no\nnetwork".to_owned()),
            namesake: Some("hythe/live/desk/1/-".to_owned()),
        },
        hosts: vec![camera, host("door", HostState::Away, why, None)],
        open: Some(OpenStatus {
            address: "tcp/127.0.0.1:7452".to_owned(),
            peers: vec!["192.0.2.9:7447".to_owned()],
            trouble: String::new(),
            channels: vec![OpenChannelStatus {
                channel: "temperature".to_owned(),
                key: "hythe/open/temperature".to_owned(),
                reason: "too\nlong".to_owned(),
                sent: 7,
                not_sent: 1,
                taken: 5,
                not_taken: 2,
                copies: Copies {
                    sending: 2,
                    receiving: 2,
                },
            }],
        }),
    }
}

fn status_reply(request: Request) -> Reply {
    assert_eq!(request, Request::Status);
    Reply::Status {
        status: Box::new(status(4242)),
    }
}

#[test]
fn command_that_needs_keys_executes_hythe_hostd() {
    let host = Host::new();
    host.write_hostd("hostd");
    let told: &[(&[&str], &[&str])] = &[
        (&["init"], &["init"]),
        (
            &[
                "init",
                "--name",
                "desk",
                "--address",
                "a:1",
                "--address",
                "b",
            ],
            &["init", "--name=desk", "--address=a:1", "--address=b"],
        ),
        (
            &[
                "add",
                "me@cam",
                "--allow",
                "a/*:read",
                "--allow",
                "b:read,write",
            ],
            &[
                "add",
                "--allow=a/*:read",
                "--allow=b:read,write",
                "--",
                "me@cam",
            ],
        ),
        (
            &["add", "--hostfile", "machines", "--timeout", "90"],
            &["add", "--hostfile=machines", "--timeout=90", "--"],
        ),
        (&["remove", "camera"], &["remove", "--", "camera"]),
        (
            &["allow", "*", "camera/*", "none"],
            &["allow", "--", "*", "camera/*", "none"],
        ),
        (
            &["allow", "--open", "temperature"],
            &["allow", "--open=temperature", "--"],
        ),
        (
            &["start", "--open-listen", "[::1]:1", "--open-peer", "r:2"],
            &["start", "--open-listen=[::1]:1", "--open-peer=r:2"],
        ),
        (
            &["allow", "camera", "a", "spawn", "--json"],
            &["--json", "allow", "--", "camera", "a", "spawn"],
        ),
        (
            &[
                "start",
                "--foreground",
                "--listen",
                "127.0.0.1:0",
                "--router",
            ],
            &["start", "--foreground", "--listen=127.0.0.1:0", "--router"],
        ),
        (
            &[
                "start",
                "--discovery",
                "[::1]:1",
                "--peer",
                "r:2",
                "--no-scouting",
            ],
            &[
                "start",
                "--discovery=[::1]:1",
                "--peer=r:2",
                "--no-scouting",
            ],
        ),
        (
            &["start", "--trusted", "eth1", "--trusted", "lo"],
            &["start", "--trusted=eth1", "--trusted=lo"],
        ),
        (
            &["start", "--no-xdp", "--trusted", "eth1"],
            &["start", "--trusted=eth1", "--no-xdp"],
        ),
    ];
    for (given, expected) in told {
        assert_eq!(host.hostd(given), [&["pool none"], *expected].concat());
    }
    let start = ["start", "--pool", "camera"];
    assert_eq!(host.hostd(&start), ["pool camera", "start"]);
}

#[test]
fn hythe_hostd_is_found_beside_hythe_and_in_path() {
    let host = Host::new();
    let folder = host.root.path().join("bin");
    std::fs::create_dir(&folder).expect("own");
    support::copy_hythe(&folder, &["hythe-hosts"]);
    host.write_hostd("hythe-hostd");
    let start = || {
        let command = Command::new(folder.join("hythe"));
        let mut command = host.root.command_by(command, &["host", "remove", "camera"]);
        let path = std::env::var("PATH").expect("a path");
        let path = format!("{}:{path}", host.root.path().display());
        command.env("PATH", path).env_remove("HYTHE_HOSTD");
        Running::new(command).end()
    };
    let in_path = start();
    assert_eq!(in_path.code, Some(7), "{}", in_path.errors);
    hythe_testing::write_script(folder.join("hythe-hostd"), "#!/bin/sh\nexit 8\n");
    assert_eq!(start().code, Some(8), "the one beside it goes first");
}

#[test]
fn missing_hythe_hostd_is_told_with_where_it_was_looked_for() {
    let host = Host::new();
    let folder = host.root.path().join("bin");
    std::fs::create_dir(&folder).expect("own");
    support::copy_hythe(&folder, &["hythe-hosts"]);
    let run = |named: Option<&str>| {
        let command = Command::new(folder.join("hythe"));
        let mut command = host.root.command_by(command, &["host", "start"]);
        command.env("PATH", "/nowhere").env_remove("HYTHE_HOSTD");
        command.envs(named.map(|path| ("HYTHE_HOSTD", path)));
        Running::new(command).end()
    };
    let beside = format!("neither in {} nor in PATH", folder.display());
    run(None).failed(
        1,
        &["`hythe-hostd`", &beside, "HYTHE_HOSTD", "`make hosts`"],
    );
    run(Some("")).failed(1, &[&beside]);
    let named = ["no program /no/hostd", "HYTHE_HOSTD names", "`make hosts`"];
    run(Some("/no/hostd")).failed(1, &named);
    // Not looked for in PATH.
    run(Some("sh")).failed(1, &["no program ./sh"]);
    let plain = host.root.path().join("plain");
    std::fs::write(&plain, "").expect("own");
    let plain = plain.to_str().expect("plain");
    run(Some(plain)).failed(1, &["cannot run", plain, "denied"]);
}

#[test]
fn wrong_words_are_refused_here() {
    let host = Host::new();
    host.write_hostd("hostd");
    let wrong: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["init", "--name", "Desk"], "lower-case"),
        (&["add"], "[USER@]HOST"),
        (&["add", "--", "-oProxyCommand=true"], "me@camera.lan"),
        (&["add", ""], "me@camera.lan"),
        (&["add", "a", "--hostfile", "b"], "cannot be used with"),
        (&["add", "a", "--allow", "x"], "camera/*:read"),
        (&["add", "a", "--timeout", "0"], "number of seconds above 0"),
        (&["add", "a", "--allow", "x:spawn"], "camera/*:read"),
        (&["remove", "a/b"], "no name of a host"),
        (&["allow", "a", "b", "execute"], "spawn"),
        (&["allow", "a", "b"], "RIGHT"),
        (&["allow", "--open", "a", "b"], "cannot be used with"),
        (
            &["allow", "--open", "a", "--close", "a"],
            "cannot be used with",
        ),
        (&["start", "--listen", "7450"], "7450"),
        (&["stop", "--timeout", "0"], "number of seconds above 0"),
    ];
    for (arguments, word) in wrong {
        let mut command = host.command(arguments);
        command.env("HYTHE_HOSTD", host.root.path().join("hostd"));
        Running::new(command).end().failed(2, &[word]);
    }
}

#[test]
fn without_an_agent_the_error_says_what_starts_one() {
    let host = Host::new();
    let socket = host.directory.join(SOCKET_NAME);
    let words = [
        "no agent runs",
        socket.to_str().expect("plain"),
        "`hythe host start`",
    ];
    for command in ["status", "list", "stop"] {
        host.run(&[command]).failed(1, &words);
    }
    // An agent that was killed leaves its socket.
    drop(UnixListener::bind(&socket).expect("bound"));
    host.run(&["status", "--json"]).failed(1, &words);
    std::fs::remove_dir_all(&host.directory).expect("own");
    host.run(&["status"])
        .failed(1, &["in no realm", "`hythe host init`"]);
}

#[test]
fn socket_is_where_the_environment_says() {
    let host = Host::new();
    let run = |variable: &str, value: PathBuf| {
        let mut command = host.command(&["status"]);
        for name in ["HYTHE_HOSTS_DIR", "XDG_CONFIG_HOME", "HOME"] {
            command.env_remove(name);
        }
        command.env(variable, value);
        Running::new(command).end()
    };
    let place = host.root.path();
    for (variable, folder) in [
        ("HYTHE_HOSTS_DIR", ""),
        ("XDG_CONFIG_HOME", "hythe/hosts"),
        ("HOME", ".config/hythe/hosts"),
    ] {
        let folder = place.join(folder);
        std::fs::create_dir_all(&folder).expect("own");
        let socket = folder.join(SOCKET_NAME);
        run(variable, place.to_owned()).failed(1, &[socket.to_str().expect("plain")]);
    }
    run("HOME", PathBuf::new()).failed(1, &["set HYTHE_HOSTS_DIR"]);
}

#[test]
fn status_shows_each_host() {
    let host = Host::new();
    let (text, document) = host.with_agent(status_reply, || {
        (host.text(&["status"]), host.json(&["status"]))
    });
    let expected = "\
host desk: agent with pid 4242, pool default
trusts the links at eth1, lo
NO OPEN FILES LEFT: 62 of 64 are open, and what is new is refused; `ulimit -n`, or `LimitNOFILE=` \
of its service, before it is started anew raises that
2 connections of other hosts came to nothing
others are told to reach it at 192.0.2.1:7450
it cannot be found now: no\\nnetwork
another agent says that it is this host, too (hythe/live/desk/1/-): two hosts with one identity, \
or a false word of another host
more addresses are shown for hosts than are kept (2 so far): they are tried in turn
refused calls to the discovery, without a certificate of the realm or too slow: 9
refused calls: not of an agent: 3, with a revoked certificate: 1
open to every Zenoh program that reaches tcp/127.0.0.1:7452, without keys and encryption
  and through tcp/192.0.2.9:7447
  CHANNEL      KEY                     SENT  TAKEN  LOST  REASON
  temperature  hythe/open/temperature     7      5     3  too\\nlong

host camera is connected
  session     1f2e, for 3.2 s; 2 sessions so far
  carrier     tls; no better one: no \\u{1b}kernel TLS
  identity    SHA256:aa11
  address     192.0.2.7:40000
  round trip  182.4 us
  flows       2 sending, 0 receiving, 1 pending, in clear text over eth1
  credit      3 of 256 messages used, 3 KiB of 4 MiB
  copies      2 of each byte sent, 3 of each received
  found at    192.0.2.7:7450, [2001:db8::7]:7450
  losses      dropped before sending: 5, reconnections of channels: 1
  CHANNEL  CARRIES   DIRECTION  STATE    CARRIER                    MESSAGES  PAYLOAD  \
CREDIT                                 REASON
  frames   messages  sending    open     tcp, xdp, 2 flows, 1 copy        12    3 KiB  \
3 of 64 messages used, 3 KiB of 1 MiB
  levels   messages  sending    open     tls                              12    3 KiB  \
-                                      no flow: it has 2 receivers
  orders   messages  receiving  refused  tls                              12    3 KiB  \
-                                      no rule there permits it

host door is away: its certificate\\nis revoked
  sessions    2, none now
  found at    192.0.2.7:7450, [2001:db8::7]:7450
  losses      none
";
    assert_eq!(text, expected);
    let read: Status = serde_json::from_value(document).expect("the status document");
    assert_eq!(read, status(4242));
}

#[test]
fn list_shows_a_line_for_each_host() {
    let host = Host::new();
    let (text, document) = host.with_agent(status_reply, || {
        (host.text(&["list"]), host.json(&["list"]))
    });
    let expected = "\
HOST    STATE      ADDRESS          ROUND TRIP  REASON
camera  connected  192.0.2.7:40000    182.4 us
door    away       192.0.2.7:7450            -  its certificate\\nis revoked
";
    assert_eq!(text, expected);
    let expected = json!([
        {"host": "camera", "state": "connected", "address": "192.0.2.7:40000",
         "round_trip_ns": 182_400, "reason": ""},
        {"host": "door", "state": "away", "address": "192.0.2.7:7450", "round_trip_ns": null,
         "reason": "its certificate\nis revoked"},
    ]);
    assert_eq!(document, expected);
}

#[test]
fn no_hosts_are_told_with_what_to_do() {
    let host = Host::new();
    let alone = |_request| Reply::Status {
        status: Box::new(Status {
            hosts: Vec::new(),
            open: None,
            ..status(4242)
        }),
    };
    let (list, status, document) = host.with_agent(alone, || {
        let list = host.text(&["list"]);
        (list, host.text(&["status"]), host.json(&["list"]))
    });
    assert!(list.contains("`hythe host add HOST`"), "{list}");
    assert!(status.contains("`hythe host add HOST`"), "{status}");
    assert_eq!(document, json!([]));
}

/// Stands for the agent's process.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("1000").stdout(Stdio::null());
        Self(command.spawn().expect("coreutils"))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn stop_returns_when_the_process_is_gone() {
    let host = Host::new();
    let agent = Mutex::new(Sleeper::start());
    let pid = agent.lock().expect("own").0.id();
    let answering = |request| match request {
        Request::Status => Reply::Status {
            status: Box::new(status(pid)),
        },
        Request::Stop => {
            agent.lock().expect("own").0.kill().expect("own child");
            Reply::Done
        }
        other => panic!("{other:?} was not to be asked"),
    };
    let document = host.with_agent(answering, || host.json(&["stop"]));
    assert_eq!(document, json!({"stopped": "desk", "pid": pid}));
    let mut agent = agent.into_inner().expect("own");
    assert!(agent.0.try_wait().expect("own child").is_some());
}

#[test]
fn agent_that_goes_on_is_a_failure() {
    let host = Host::new();
    let agent = Sleeper::start();
    let pid = agent.0.id();
    let answering = |request| match request {
        Request::Status => Reply::Status {
            status: Box::new(status(pid)),
        },
        _ => Reply::Done,
    };
    let stop = ["stop", "--timeout", "0.1"];
    let ended = host.with_agent(answering, || host.run(&stop));
    ended.failed(1, &[&pid.to_string(), "goes on", "--timeout"]);
}

#[test]
fn agents_that_refuse_or_talk_nonsense_are_told_apart() {
    let host = Host::new();
    let refusing = |_request| Reply::Failed {
        reason: "busy\u{1b}".to_owned(),
    };
    let refused = host.with_agent(refusing, || host.run(&["status"]));
    refused.failed(1, &["refuses the request for its status", "busy\\u{1b}"]);
    std::fs::remove_file(host.directory.join(SOCKET_NAME)).expect("own");
    let confused = host.with_agent(|_request| Reply::Done, || host.run(&["list"]));
    confused.failed(1, &["the reply to something else"]);
    std::fs::remove_file(host.directory.join(SOCKET_NAME)).expect("own");

    let listener = UnixListener::bind(host.directory.join(SOCKET_NAME)).expect("bound");
    for (said, word) in [
        (&b"{\"reply\":\"later\"}\n"[..], "another version"),
        (b"{\"reply\"", "agent.log"),
    ] {
        let running = Running::new(host.command(&["status"]));
        let (mut stream, _) = listener.accept().expect("it asks");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut String::new())
            .expect("a request");
        std::io::Write::write_all(&mut stream, said).expect("it reads");
        drop(stream);
        running.end().failed(1, &[word]);
    }
}

/// The doctor's probe of this name.
fn probe(host: &Host, name: &str) -> Value {
    let mut command = host.root.command(&["doctor", "--json"]);
    command
        .env("HYTHE_HOSTS_DIR", &host.directory)
        .env("HYTHE_HOSTD", host.root.path().join("hostd"));
    let ended = Running::new(command).end();
    ended.succeeded();
    let document: Value = serde_json::from_str(&ended.text()).expect("a document");
    let mut probes = document["probes"].as_array().expect("probes").iter();
    let found = probes.find(|probe| probe["name"] == name);
    found.expect(name).clone()
}

fn assert_probe(probe: &Value, status: &str, detail: &str, enable: &str) {
    assert_eq!(probe["group"], "hosts", "{probe}");
    assert_eq!(probe["status"], status, "{probe}");
    let text = |key: &str| probe[key].as_str().unwrap_or_default();
    assert!(text("detail").contains(detail), "{probe}");
    assert!(text("enable").contains(enable), "{probe}");
}

#[test]
fn doctor_sees_the_agent_its_program_and_its_realm() {
    let host = Host::new();
    let path = host.root.path().join("hostd");
    hythe_testing::write_script(&path, "#!/bin/sh\necho hythe-hostd 0.1.0\n");
    let found = probe(&host, "hythe-hostd");
    assert_probe(&found, "works", path.to_str().expect("plain"), "");
    let expected = "host desk serves pool default, process 4242; 1 of 2 other hosts connected";
    let agent = host.with_agent(status_reply, || probe(&host, "agent"));
    assert_probe(&agent, "works", expected, "");
    let folder = host.directory.to_str().expect("plain");
    assert_probe(&probe(&host, "realm"), "works", folder, "");
}

#[test]
fn doctor_says_what_is_missing_for_other_hosts() {
    let host = Host::new();
    std::fs::remove_dir_all(&host.directory).expect("own");
    let folder = host.directory.to_str().expect("plain");
    assert_probe(&probe(&host, "realm"), "missing", folder, "hythe host init");
    assert_probe(
        &probe(&host, "agent"),
        "missing",
        "none runs",
        "hythe host start",
    );
    let hostd = probe(&host, "hythe-hostd");
    assert_probe(&hostd, "missing", "not built", "make hosts");
}
