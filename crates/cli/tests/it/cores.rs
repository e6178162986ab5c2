//! `hythe core`: a core run, looked at, used through `pub` and `sub`, killed and stopped, from
//! other processes.
//!
//! The boards are those that `make setup` built; without them these tests fail, because then the
//! product does not work.

use crate::support;

use crate::support::{Root, Running, eventually};
use hythe::segment::{Access, Segments};
use serde_json::Value;

const HOSTED: &str = "hosted";

/// A core in the background, stopped with this value.
struct Detached<'a> {
    root: &'a Root,
    board: &'static str,
    up: Value,
}

impl<'a> Detached<'a> {
    fn start(root: &'a Root, board: &'static str, more: &[&str]) -> Self {
        let up = root.json(&[&["core", "run", board, "--detach"], more].concat());
        Self { root, board, up }
    }

    fn status(&self) -> Value {
        self.root.json(&["core", "status", self.board])["cores"][0].clone()
    }
}

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        let _ = self.root.run(&["core", "stop", self.board]);
    }
}

fn lives(pid: &Value) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn kill(pid: &Value) {
    let pid = i32::try_from(pid.as_i64().expect("a process")).expect("a process");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL)
        .expect("started by this test");
}

/// Sends a payload to the core's echo and takes what comes back.
fn echo(root: &Root, payload: &[u8]) -> Vec<u8> {
    let subscriber = root.start(&["sub", "pong", "--count", "1", "--timeout", "100", "--raw"]);
    eventually("somebody listens", || root.subscribers("pong") == 1);
    let published = root.feed(&["pub", "ping", "--json"], payload);
    assert_eq!(published.code, Some(0), "{}", published.errors);
    let received = subscriber.end();
    assert_eq!(received.code, Some(0), "{}", received.errors);
    received.output
}

fn is_all_free(root: &Root) -> bool {
    let shown = root.json(&["pool", "show"]);
    assert_eq!(shown["mismatches"], Value::Array(Vec::new()));
    shown["slots"]["free"] == shown["slots"]["total"]
}

#[test]
fn boards_are_listed_with_what_they_lack() {
    let root = Root::new();
    let document = root.json(&["core", "boards"]);
    let boards = document["boards"].as_array().expect("a list");
    let hosted = boards
        .iter()
        .find(|board| board["name"] == HOSTED)
        .expect("`make setup` builds it");
    assert_eq!(
        (&hosted["runnable"], &hosted["emulated"]),
        (&true.into(), &false.into()),
        "{hosted}"
    );
    assert!(root.ok(&["core", "boards"]).contains(HOSTED));
    let mut command = root.command(&["core", "boards"]);
    command.env("HYTHE_BOARDS", root.path());
    let none = Running::new(command).end();
    assert!(
        none.text().contains("no boards in") && none.text().contains("cargo xtask boards"),
        "{}",
        none.text()
    );
}

#[test]
fn detached_core_serves_until_it_is_stopped() {
    for board in [HOSTED, "mps2-an386"] {
        let root = Root::new();
        let core = Detached::start(&root, board, &[]);
        let status = core.status();
        assert_eq!(
            (&status["up"], &status["board"]),
            (&true.into(), &board.into())
        );
        assert_eq!(
            (&status["core_pid"], &status["agent_pid"]),
            (&core.up["core_pid"], &core.up["agent_pid"])
        );
        let payload: Vec<u8> = (0..200_000_u32)
            .map(|index| (index * 7 + index / 251) as u8)
            .collect();
        assert!(echo(&root, &payload) == payload, "{board} changed it");
        let list = root.ok(&["list"]);
        assert!(
            list.contains(&format!("to core {board}")) && list.contains("from core"),
            "{list}"
        );
        assert!(root.ok(&["core", "status"]).contains("CARRIES PAYLOAD"));
        assert!(root.ok(&["core", "log", board]).contains("link"));
        root.run(&["core", "run", board, "--detach"])
            .failed(1, &["runs in this pool already", "hythe core stop"]);
        assert_eq!(root.json(&["core", "stop", board])["stopped"], board);
        assert!(!lives(&core.up["core_pid"]), "the core of {board} lives on");
        assert!(is_all_free(&root));
        assert!(root.ok(&["core", "status"]).contains("no core runs"));
        root.run(&["core", "stop", board])
            .failed(1, &["does not run in this pool"]);
        assert!(
            !root.json(&["core", "log", board])["log"]
                .as_str()
                .unwrap_or_default()
                .is_empty(),
            "readable afterwards"
        );
        root.ok(&["pool", "remove"]);
        assert!(root.traces().is_empty());
    }
}

#[test]
fn detached_core_ends_with_its_pool() {
    let root = Root::new();
    let core = Detached::start(&root, HOSTED, &[]);
    root.run(&["pool", "remove"]).failed(1, &["in use"]);
    assert!(lives(&core.up["core_pid"]));
    root.ok(&["pool", "remove", "--force"]);
    // Nobody could find it any more to stop it.
    eventually("both processes have ended", || {
        !lives(&core.up["core_pid"]) && !lives(&core.up["agent_pid"])
    });
    assert!(root.traces().is_empty());
}

#[test]
fn core_in_the_foreground_ends_with_its_terminal_key() {
    let root = Root::new();
    let running = root.start(&["core", "run", HOSTED, "--json"]);
    eventually("it is up", || {
        root.run(&["core", "status", HOSTED])
            .text()
            .contains("is up")
    });
    let core = root.json(&["core", "status", HOSTED])["cores"][0]["core_pid"].clone();
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    let document: Value = serde_json::from_slice(&ended.output).expect("one document, closed");
    assert_eq!(
        (&document["core_pid"], &document["restarts"]),
        (&core, &0.into())
    );
    assert!(!lives(&core) && is_all_free(&root));
}

#[test]
fn core_that_dies_ends_the_command_or_is_started_again() {
    let root = Root::new();
    let running = root.start(&["core", "run", HOSTED]);
    eventually("it is up", || {
        root.run(&["core", "status", HOSTED])
            .text()
            .contains("is up")
    });
    kill(&root.json(&["core", "status", HOSTED])["cores"][0]["core_pid"]);
    let ended = running.end();
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.errors.contains("the core of board `hosted` ended"),
        "{}",
        ended.errors
    );
    assert!(is_all_free(&root));

    let core = Detached::start(&root, HOSTED, &["--restart=3"]);
    let first = core.up["core_pid"].clone();
    kill(&first);
    eventually("another one is up", || {
        let now = core.status();
        now["up"] == true && now["core_pid"] != first
    });
    assert_eq!(echo(&root, b"still here"), b"still here");
    assert_eq!(core.status()["agent_pid"], core.up["agent_pid"]);
    drop(core);
    assert!(is_all_free(&root));
}

#[test]
fn killed_agent_ends_core_and_next_agent_starts() {
    let root = Root::new();
    let core = Detached::start(&root, HOSTED, &[]);
    kill(&core.up["agent_pid"]);
    eventually("the core dies with it", || !lives(&core.up["core_pid"]));
    let next = Detached::start(&root, HOSTED, &[]);
    assert_ne!(next.up["agent_pid"], core.up["agent_pid"]);
    assert_eq!(echo(&root, b"again"), b"again");
    drop(next);
    eventually("all is free", || is_all_free(&root));
}

/// Processes and this core ring each other without the agent, so it goes on.
#[test]
fn core_without_its_agent_is_listed_until_it_is_stopped() {
    const EMULATED: &str = "virt-a53";
    let root = Root::new();
    let boards = root.json(&["core", "boards"]);
    let boards = boards["boards"].as_array().expect("a list");
    let can_run = |board: &Value| board["name"] == EMULATED && board["runnable"] == true;
    if !boards.iter().any(can_run) {
        eprintln!("SKIPPED: board {EMULATED} cannot run here (`hythe core boards` says why)");
        return;
    }
    let core = Detached::start(&root, EMULATED, &["--app", "p1"]);
    let id = segment_of_a_core(&root).cast_signed();
    let segments = Segments::open(&pool(&root), Some(EMULATED)).expect("an area");
    let here = segments.attach(id, Access::Write, None).expect("attached");
    assert_eq!(
        root.json(&["core", "status"])["without_agent"],
        Value::Array(Vec::new())
    );
    kill(&core.up["agent_pid"]);
    eventually("its agent is gone", || {
        root.json(&["core", "status"])["cores"] == Value::Array(Vec::new())
    });
    let document = root.json(&["core", "status"]);
    let alone = &document["without_agent"][0];
    assert_eq!(
        (&alone["board"], &alone["core_pid"]),
        (&EMULATED.into(), &core.up["core_pid"]),
        "{document}"
    );
    let pid = core.up["core_pid"].to_string();
    let text = root.ok(&["core", "status"]);
    assert!(text.contains(EMULATED) && text.contains(&pid), "{text}");
    let refused = root.run(&["core", "status", EMULATED]);
    assert_eq!(refused.errors.trim(), format!("hythe: {}", text.trim()));
    // The kernel has dropped what the agent had attached for it.
    let listed = listed_segment(&root, EMULATED);
    let attached = (&listed["attached_linux"], &listed["attached_core"]);
    assert_eq!(attached, (&1.into(), &2.into()));
    drop(here);
    segments.remove(id).expect("removed");
    root.ok(&["core", "stop", EMULATED]);
    assert!(root.ok(&["core", "status"]).contains("no core runs"));
    eventually("it is reaped", || !lives(&core.up["core_pid"]));
}

#[test]
fn looking_takes_nothing_away_from_a_core() {
    let root = Root::new();
    let _core = Detached::start(&root, HOSTED, &[]);
    let subscriber = root.start(&["sub", "pong", "--count", "20", "--timeout", "100", "--raw"]);
    eventually("somebody listens", || root.subscribers("pong") == 1);
    let file = root.path().join("byte");
    std::fs::write(&file, "x").expect("own");
    let publisher = root.start(&[
        "pub",
        "ping",
        file.to_str().expect("plain"),
        "--repeat",
        "20",
        "--rate",
        "40",
    ]);
    for _ in 0..3 {
        for look in [
            "hz ping --count 1 --interval 0.05",
            "hz pong --count 1 --interval 0.05",
            "who",
            "list",
            "core status",
        ] {
            let arguments: Vec<&str> = look.split(' ').collect();
            // The publisher may be done before the last look.
            let _ = root.run(&arguments);
        }
    }
    publisher.end().succeeded();
    let received = subscriber.end();
    assert_eq!(
        (received.code, received.output),
        (Some(0), vec![b'x'; 20]),
        "{}",
        received.errors
    );
}

#[test]
fn process_hears_what_goes_to_a_core_and_speaks_beside_one() {
    let root = Root::new();
    root.ok(&["pool", "create"]);
    let _core = Detached::start(&root, HOSTED, &[]);
    let beside = root.start(&["sub", "ping", "--count", "1", "--timeout", "100", "--raw"]);
    eventually("it listens", || root.subscribers("ping") == 1);
    assert_eq!(echo(&root, b"to both"), b"to both");
    let beside = beside.end();
    assert_eq!((beside.code, &*beside.output), (Some(0), &b"to both"[..]));
    let pong = root.start(&["sub", "pong", "--count", "1", "--timeout", "100", "--raw"]);
    eventually("it listens", || root.subscribers("pong") == 1);
    assert_eq!(root.feed(&["pub", "pong"], b"beside it").code, Some(0));
    assert_eq!(pong.end().output, b"beside it");
    eventually("all is free", || is_all_free(&root));
}

#[test]
fn refusals_of_cores_name_what_and_what_to_do() {
    let root = Root::new();
    root.ok(&["pool", "create"]);
    root.run(&["core", "run", "no-such-board"])
        .failed(1, &["no board `no-such-board`", "hosted"]);
    root.run(&["core", "run", "no-such-board", "--detach"])
        .failed(1, &["no board `no-such-board`", "hosted"]);
    root.run(&["core", "run", HOSTED, "--app", "nothing"])
        .failed(1, &["cannot run here", "cargo xtask boards hosted"]);
    root.run(&["core", "status", HOSTED])
        .failed(1, &["does not run in this pool", "hythe core run hosted"]);
    root.run(&["core", "log", HOSTED])
        .failed(1, &["cannot read", "log.hosted"]);
    root.run(&["core", "run", HOSTED, "--pool", "none", "--detach"])
        .failed(1, &["no pool `none`"]);
    root.run(&["core", "run", HOSTED, "--pool", "a/b", "--detach"])
        .failed(2, &["there is no user `a`"]);
    let _core = Detached::start(&root, HOSTED, &[]);
    root.run(&["core", "run", HOSTED])
        .failed(1, &["runs in this pool already"]);
    root.run(&["core", "run", HOSTED, "--as", "a/b"])
        .failed(2, &["--as", "`a/b`", "32 letters"]);
    root.run(&["core", "run", HOSTED, "--as", "large", "--class", "1Mx20"])
        .failed(1, &["large", "bytes of slots", "16449536"]);
}

#[test]
fn two_cores_of_one_board_run_side_by_side() {
    let root = Root::new();
    root.ok(&["pool", "create"]);
    let _core = Detached::start(&root, HOSTED, &[]);
    let classes = ["--class", "112Kx32", "--class", "1Mx4", "--class", "2Kx64"];
    root.ok(&[
        &["core", "run", HOSTED, "--as", "left", "--detach"],
        &classes[..],
    ]
    .concat());
    let pong = root.start(&[
        "sub",
        "left/pong",
        "--count",
        "1",
        "--timeout",
        "100",
        "--raw",
    ]);
    eventually("it listens", || root.subscribers("left/pong") == 1);
    assert_eq!(
        root.feed(&["pub", "left/ping"], b"to the left").code,
        Some(0)
    );
    assert_eq!(pong.end().output, b"to the left");
    assert_eq!(echo(&root, b"to the other"), b"to the other");
    let status = root.ok(&["core", "status", "left"]);
    assert!(status.contains("left/pong"), "{status}");
    root.ok(&["core", "stop", "left"]);
}

#[test]
fn what_is_copied_from_core_to_core_is_listed() {
    let root = Root::new();
    let _from = Detached::start(&root, HOSTED, &[]);
    root.ok(&["core", "run", HOSTED, "--as", "left", "--detach"]);
    let options = hythe::PoolOptions::new("default").root(&root.pools());
    let pool = hythe::Pool::open(&options).expect("it is there");
    let node = hythe::Node::join(&pool, "copier").expect("joins");
    let subscriber = node.subscriber("pong", &hythe::SubscriberOptions::default());
    let mut subscriber = subscriber.expect("subscribes");
    let publisher = node.publisher("left/ping", &hythe::PublisherOptions::default());
    let mut publisher = publisher.expect("publishes");
    assert_eq!(root.feed(&["pub", "ping"], b"to you").code, Some(0));
    let sample = subscriber.take(support::BOUND).expect("sound");
    let sample = sample.expect("an echo");
    publisher.forward_copy(&sample).expect("copied");
    // What is leased where it is to go costs none.
    let lease = publisher.lease(0).expect("a free slot");
    publisher.publish(lease, 0).expect("published");

    let list = root.json(&["list"]);
    let channels = list["channels"].as_array().expect("a list");
    let channel = |name: &str| channels.iter().find(|channel| channel["name"] == name);
    let port = |name: &str| channel(name).expect("listed")["ports"][0].clone();
    let there = port("left/ping");
    assert_eq!(
        (&there["messages"], &there["copies"], &there["copied_bytes"]),
        (&2.into(), &1.into(), &6.into()),
        "{there}"
    );
    assert_eq!(port("pong")["copies"], 0);
    let text = root.ok(&["list"]);
    let mut lines = text.lines();
    lines.find(|line| line.starts_with("channel left/ping "));
    let column = |heading: &str| {
        let headings = lines.clone().find(|line| line.contains(heading));
        let end = headings.expect("headings").find(heading).expect("there") + heading.len();
        let row = lines.clone().find(|line| line.starts_with("  publisher "));
        let left = &row.expect("its port")[..end];
        left.rsplit(' ').next().expect("a number").to_owned()
    };
    assert_eq!(
        (column("MESSAGES"), column("COPIES")),
        ("2".into(), "1".into()),
        "{text}"
    );
    drop((sample, subscriber, publisher, node));
    root.ok(&["core", "stop", "left"]);
}

/// The file of the link of the only core, wherever the pool is below the root.
fn link_file(folder: &std::path::Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("ours").flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.is_dir() {
            return link_file(&path);
        }
        (path.file_name()? == "link.1").then_some(path)
    })
}

/// Writes bytes over the core section of a link.
fn overwrite(link: &std::path::Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().read(true).write(true).open(link);
    let file = file.expect("ours");
    let section = file.metadata().expect("a file").len() / 2;
    file.write_all_at(bytes, section + at).expect("written");
}

#[test]
fn status_has_what_both_sides_counted_and_names_what_was_seen() {
    let root = Root::new();
    let core = Detached::start(&root, HOSTED, &[]);
    assert_eq!(echo(&root, b"before"), b"before");
    let status = core.status();
    assert_eq!(status["counters"]["violations"], 0, "{status}");
    assert_eq!(status["counters"]["last_violation"], Value::Null);
    assert!(status["rings_ignored"].is_u64() && status["sessions_renewed"] == 0);
    let link = &status["link"];
    assert_eq!((&link["state"], &link["reason"]), (&"up".into(), &0.into()));
    assert_eq!(link["echo"], link["linux_session"], "{status}");
    assert_eq!(link["violation"], Value::Null);
    let pong = &status["endpoints"][3];
    assert_eq!(pong["channel"], "pong");
    for counter in ["violations", "full", "no_slot", "dropped"] {
        assert_eq!(pong["core_counters"][counter], 0, "{pong}");
    }
    let port = &pong["counters"][0];
    for counter in ["port", "violations", "full", "no_slot", "lost"] {
        assert_eq!(port[counter], 0, "{pong}");
    }

    // `state`, and a name that would make a line of its own.
    let link = link_file(root.path()).expect("a link");
    overwrite(&link, 12, &7_u32.to_le_bytes());
    eventually("a new session", || core.status()["sessions_renewed"] == 1);
    overwrite(&link, 32, b"first\nboard second is up");
    let counters = core.status()["counters"].clone();
    assert_eq!(counters["violations"], 1, "{counters}");
    let last = counters["last_violation"].as_str().expect("named");
    assert!(last.contains("`state` of the core is 7"), "{last}");
    let text = root.ok(&["core", "status", HOSTED]);
    assert!(
        text.contains("violations of the core: 1 (the last: `state`"),
        "{text}"
    );
    assert!(text.contains("sessions begun anew: 1"), "{text}");
    assert!(
        !text.lines().any(|line| line.starts_with("board second")),
        "{text}"
    );
    assert_eq!(echo(&root, b"after"), b"after");
}

#[test]
fn segments_are_listed_with_who_made_and_has_them() {
    use hythe::segment::{Access, Segments};
    const MAKE: i32 = 0o1000;
    let root = Root::new();
    root.ok(&["pool", "create"]);
    let none = root.run(&["core", "segments"]);
    assert!(
        none.code == Some(1) && none.errors.contains("[run.segments]"),
        "{}",
        none.errors
    );
    let _core = Detached::start(&root, HOSTED, &[]);
    let options = hythe::PoolOptions::new("default").root(&root.pools());
    let pool = hythe::Pool::open(&options).expect("made above");
    let segments = Segments::open(&pool, Some(HOSTED)).expect("an area");
    let ids = [5000, 4096].map(|bytes| segments.get(0, bytes, MAKE | 0o640).expect("made"));
    let attached = segments
        .attach(ids[0], Access::Write, None)
        .expect("attached");
    segments.remove(ids[0]).expect("removed");
    let document = root.json(&["core", "segments", HOSTED]);
    let board = &document["boards"][0];
    assert_eq!(board["area_bytes"], 8 << 20);
    assert_eq!(board["free_bytes"], (8 << 20) - 3 * 4096);
    let listed = board["segments"].as_array().expect("a list");
    let found: Vec<_> = listed
        .iter()
        .map(|segment| {
            let linux = segment["attached_linux"].as_u64();
            (
                segment["id"].as_i64(),
                segment["size_bytes"].as_u64(),
                linux,
                segment["removed"].as_bool(),
            )
        })
        .collect();
    let ids = ids.map(i64::from);
    assert_eq!(
        found,
        [
            (Some(ids[0]), Some(5000), Some(1), Some(true)),
            (Some(ids[1]), Some(4096), Some(0), Some(false)),
        ]
    );
    let creator = listed[0]["creator"].as_str().expect("a name");
    assert!(
        creator.contains(&std::process::id().to_string()),
        "{creator}"
    );
    assert_eq!(
        (&listed[0]["mode"], &listed[0]["made_on"]),
        (&"0640".into(), &"linux".into())
    );
    let text = root.ok(&["core", "segments"]);
    assert!(
        text.contains(&ids[1].to_string()) && text.contains("removed"),
        "{text}"
    );
    drop(attached);
    segments.remove(ids[1] as i32).expect("removed");
    let emptied = root.json(&["core", "segments"]);
    assert_eq!(emptied["boards"][0]["free_bytes"], 8 << 20);
}

/// A segment that a core which runs `p1` has made and attached twice, by its methods 20 and 21
/// (`rtos/apps/p1/README.md`).
fn segment_of_a_core(root: &Root) -> u32 {
    use hythe::rpc::Caller;
    const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);
    let node = hythe::Node::join(&pool(root), "asker").expect("joins");
    let client = node.client("core/calls", &hythe::request::ClientOptions::default());
    let mut client = client.expect("a client");
    let mut call = |method, words: [u32; 3]| {
        let argument = words.map(u32::to_le_bytes);
        let mut caller = Caller::new(&mut client);
        let result = caller.call(method, argument.as_flattened(), MINUTE);
        let result = result.expect("a result").to_vec();
        u32::from_le_bytes(result[..4].try_into().expect("a word"))
    };
    let id = call(20, [0, 5000, 0o1640]);
    assert_eq!(call(21, [id, 0, 0]), 0);
    assert_eq!(call(21, [id, 0, 0]), 0);
    id
}

fn pool(root: &Root) -> hythe::Pool {
    let options = hythe::PoolOptions::new("default").root(&root.pools());
    hythe::Pool::open(&options).expect("made with the core")
}

/// The first segment that is listed for a core.
fn listed_segment(root: &Root, board: &str) -> Value {
    root.json(&["core", "segments", board])["boards"][0]["segments"][0].clone()
}

#[test]
fn segments_show_what_the_core_made_and_has_attached() {
    let root = Root::new();
    let _core = Detached::start(&root, HOSTED, &["--app", "p1"]);
    let id = segment_of_a_core(&root);
    let listed = listed_segment(&root, HOSTED);
    assert_eq!(
        (&listed["id"], &listed["made_on"]),
        (&id.into(), &"core".into())
    );
    let attached = (&listed["attached_linux"], &listed["attached_core"]);
    assert_eq!(attached, (&0.into(), &2.into()));
    let creator = listed["creator"].as_str().expect("a name");
    assert!(creator.starts_with(HOSTED), "{creator}");
    let segments = Segments::open(&pool(&root), Some(HOSTED)).expect("an area");
    segments.remove(id.cast_signed()).expect("removed");
}

#[test]
fn core_that_is_not_started_again_is_named_by_status() {
    let root = Root::new();
    let core = Detached::start(&root, HOSTED, &["--restart=1"]);
    let first = core.up["core_pid"].clone();
    kill(&first);
    let mut second = Value::Null;
    eventually("another one is up", || {
        let now = core.status();
        second = now["core_pid"].clone();
        now["up"] == true && second != first
    });
    kill(&second);
    eventually("its agent is gone", || !lives(&core.up["agent_pid"]));
    let status = root.run(&["core", "status"]);
    status.failed_naming(1, &["the core of board hosted has died"]);
    let text = status.text();
    for word in ["has died", "signal", "once", "hythe core run hosted"] {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    root.run(&["core", "status", HOSTED])
        .failed(1, &["does not run in this pool", "died", "once"]);
    drop(core);
    let core = Detached::start(&root, HOSTED, &[]);
    let status = root.json(&["core", "status"]);
    assert_eq!(status["dead"], serde_json::json!([]));
    drop(core);
    root.run(&["core", "status"]).succeeded();
}

#[test]
fn core_runs_again_right_behind_its_death() {
    let root = Root::new();
    let mut core = Detached::start(&root, HOSTED, &[]);
    for _ in 0..5 {
        let pid = core.up["core_pid"].clone();
        kill(&pid);
        eventually("it is dead", || !lives(&pid));
        // Its agent may not have left yet.
        let up = root.json(&["core", "run", HOSTED, "--detach"]);
        core.up = up;
    }
    // One that runs is in the way as before.
    root.run(&["core", "run", HOSTED, "--detach"])
        .failed(1, &["runs in this pool already"]);
}

#[test]
fn stopped_core_and_stopped_subscriber_are_named() {
    use rustix::process::Signal;
    let root = Root::new();
    let core = Detached::start(&root, HOSTED, &[]);
    let subscriber = root.start(&["sub", "pong"]);
    eventually("somebody listens", || root.subscribers("pong") == 1);
    subscriber.signal(Signal::STOP);
    let file = root.path().join("message");
    std::fs::write(&file, [7; 512]).expect("written");
    let file = file.to_str().expect("plain");
    let publisher = root.start(&["pub", "ping", file, "--repeat", "140"]);
    eventually("the subscriber's queue is full", || {
        let status = core.status();
        let endpoints = status["endpoints"].as_array().expect("endpoints").iter();
        let mut pong = endpoints.filter(|endpoint| endpoint["channel"] == "pong");
        let ports = pong.next().expect("pong")["ports"].clone();
        let ports = ports.as_array().expect("ports").clone();
        ports.iter().any(|port| {
            let waiting = &port["from_core"]["waiting"];
            *waiting == port["window"] && *waiting != 0
        })
    });
    publisher.signal(Signal::TERM);
    let ended = publisher.end();
    let who = format!("(pid {})", subscriber.child.id());
    ended.failed(1, &["hythe sub", &who, "`pong`", "stopped"]);
    subscriber.signal(Signal::CONT);
    subscriber.interrupt();
    subscriber.end();

    support::send(&core.up["core_pid"], Signal::STOP);
    let status = root.run(&["core", "status"]);
    support::send(&core.up["core_pid"], Signal::CONT);
    status.failed_naming(1, &["board hosted does not answer"]);
    assert!(status.text().contains("is stopped"), "{}", status.text());
}
