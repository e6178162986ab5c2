//! `hythe pool`, `list`, `who`: for people and for machines, and their refusals.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Root, Running};
use serde_json::Value;

fn sum(terms: &Value) -> u64 {
    terms
        .as_array()
        .expect("a list")
        .iter()
        .map(|term| term["bytes"].as_u64().expect("a number"))
        .sum()
}

/// What the files of a pool take.
fn size_of_files(directory: &Path) -> u64 {
    fs::read_dir(directory)
        .expect("there")
        .map(|file| file.expect("read").metadata().expect("read"))
        // The place of sockets is a directory, and not memory.
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

#[test]
fn high_water_marks_stay_when_all_is_free_again() {
    let root = Root::new();
    root.ok(&[
        "pool", "create", "--exact", "--class", "1Kx3", "--class", "64Kx2",
    ]);
    let first = root.json(&["pool", "show"]);
    assert!(
        first["tables"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|table| { table["table"] == "slots" || table["highest"] == 0 })
    );
    assert_eq!(first["regions"][0]["classes"][0]["highest_sampled"], 0);
    // A publisher that keeps all: three small slots, then the two large ones, and the sixth message
    // finds none.
    let subscriber = root.start(&["sub", "data"]);
    support::eventually("it subscribes", || root.subscribers("data") == 1);
    let keeping = ["pub", "data", "--lines", "--history", "10"];
    let full = root.feed(&keeping, b"1\n2\n3\n4\n5\n6\n7");
    assert_eq!(full.code, Some(0), "{}", full.errors);
    subscriber.interrupt();
    subscriber.end().succeeded();
    let shown = root.json(&["pool", "show"]);
    for (table, highest) in [
        ("participants", 2),
        ("channels", 1),
        ("ports", 2),
        ("connections", 1),
        ("queue-segments", 1),
    ] {
        let tables = shown["tables"].as_array().expect("a list");
        let found = tables
            .iter()
            .find(|found| found["table"] == table)
            .expect("there");
        assert_eq!(
            (&found["used"], &found["highest"]),
            (&0.into(), &highest.into()),
            "{found}"
        );
    }
    // Whoever found them full has counted them.
    let classes = &shown["regions"][0]["classes"];
    assert_eq!(
        (&classes[0]["highest_sampled"], &classes[0]["free"]),
        (&3.into(), &3.into())
    );
    assert_eq!(classes[1]["highest_sampled"], 2);
    let text = root.ok(&["pool", "show"]);
    assert!(
        text.contains("HIGHEST") && text.contains("SAMPLED"),
        "{text}"
    );
}

#[test]
fn pool_lives_from_create_to_remove() {
    let root = Root::new();
    assert_eq!(
        root.json(&["pool", "list"])["pools"],
        Value::Array(Vec::new())
    );
    assert!(root.ok(&["pool", "list"]).contains("no pools"));

    let made = root.json(&["pool", "create", "camera", "--size", "16M"]);
    let directory = root.pools().join(made["path"].as_str().expect("a path"));
    assert_eq!(made["pool"], "camera");
    assert_eq!(made["mode"], "0600");
    // The sum shown is the size there is: nothing is left out of the explanation.
    assert_eq!(made["bytes"], sum(&made["terms"]));
    assert_eq!(made["bytes"], size_of_files(&directory));

    let shown = root.json(&["pool", "show", "camera"]);
    assert_eq!(shown["terms"], made["terms"]);
    assert_eq!(shown["mode"], "0600");
    let slots = &shown["slots"];
    assert!(slots["total"].as_u64().expect("a number") > 100);
    assert_eq!(
        (&slots["free"], &slots["held"], &slots["queued"]),
        (&slots["total"], &Value::from(0), &Value::from(0))
    );
    assert_eq!(root.json(&["pool", "show", "--pool", "camera"]), shown);

    let text = root.ok(&["pool", "show", "camera"]);
    for word in [
        "camera",
        "hold records",
        "region 0:",
        "sum",
        "PAYLOAD",
        "QUEUED",
        "the ledger adds up",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    let list = root.json(&["pool", "list"]);
    assert_eq!(list["pools"][0]["pool"], "camera");
    assert_eq!(list["pools"][0]["bytes"], made["bytes"]);
    assert!(root.ok(&["pool", "list"]).contains("camera"));

    assert_eq!(
        root.json(&["pool", "remove", "camera"])["removed"],
        "camera"
    );
    assert!(root.traces().is_empty(), "{:?}", root.traces());
    root.run(&["pool", "show", "camera"])
        .failed(1, &["no pool `camera`", "hythe pool create camera"]);
}

#[test]
fn classes_and_modes_are_as_asked_for() {
    let root = Root::new();
    let text = root.ok(&[
        "pool", "create", "--exact", "--class", "64Kx10", "--class", "1000x20", "--mode", "660",
    ]);
    assert!(
        text.contains("made pool default") && text.contains("10 slots of 69632 (payload 69376)"),
        "{text}"
    );
    let shown = root.json(&["pool", "show"]);
    assert_eq!(shown["mode"], "0660");
    let classes = &shown["regions"][0]["classes"];
    assert_eq!(
        (&classes[0]["slots"], &classes[1]["slots"]),
        (&Value::from(20), &Value::from(10))
    );
    assert!(
        classes[0]["payload_bytes"].as_u64() >= Some(1000)
            && classes[1]["payload_bytes"].as_u64() >= Some(65536)
    );
    assert_eq!(
        shown["bytes"],
        size_of_files(Path::new(shown["path"].as_str().expect("a path")))
    );
}

#[test]
fn small_pool_of_two_mebibytes_carries_messages() {
    let root = Root::new();
    root.run(&["pool", "create", "--size", "2M"])
        .failed(1, &["too small", "--small"]);
    let made = root.json(&["pool", "create", "--small", "--size", "2M"]);
    let terms = made["terms"].as_array().expect("a list").iter();
    let control = terms.filter(|term| {
        let reason = term["reason"].as_str().expect("text");
        reason.starts_with("control: ")
    });
    let control: u64 = control
        .map(|term| term["bytes"].as_u64().expect("a number"))
        .sum();
    assert!(control <= 512 << 10, "{control}");
    let subscriber = root.start(&["sub", "data", "--count", "1", "--raw"]);
    support::eventually("it subscribes", || root.subscribers("data") == 1);
    let message = vec![b'x'; 60_000];
    let published = root.feed(&["pub", "data"], &message);
    assert_eq!(published.code, Some(0), "{}", published.errors);
    assert_eq!(subscriber.end().output, message);
    // The limits of the preset may be changed one by one.
    root.ok(&[
        "pool",
        "create",
        "wider",
        "--small",
        "--size",
        "2M",
        "--limit",
        "participants=9",
    ]);
    let shown = root.json(&["pool", "show", "wider"]);
    assert_eq!(shown["tables"][0]["limit"], 9);
}

#[test]
fn command_that_makes_a_pool_says_so() {
    let root = Root::new();
    let first = root.feed(&["pub", "data"], b"nobody is there");
    assert_eq!(first.code, Some(0), "{}", first.errors);
    for word in ["made pool `default`", "hythe pool remove default"] {
        assert!(first.errors.contains(word), "{}", first.errors);
    }
    let second = root.feed(&["pub", "data"], b"nobody is there");
    assert!(!second.errors.contains("made pool"), "{}", second.errors);
}

#[test]
fn pools_are_chosen_by_option_and_environment() {
    let root = Root::new();
    root.ok(&["pool", "create", "one", "--size", "16M"]);
    root.ok(&["pool", "create", "two", "--size", "16M"]);
    let of_environment = |arguments: &[&str]| {
        let mut command = root.command(arguments);
        command.env("HYTHE_POOL", "one");
        let ended = Running::new(command).end();
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        serde_json::from_slice::<Value>(&ended.output).expect("one document")["pool"].clone()
    };
    assert_eq!(of_environment(&["list", "--json"]), "one");
    assert_eq!(of_environment(&["list", "--json", "--pool", "two"]), "two");
    assert_eq!(of_environment(&["--pool", "two", "who", "--json"]), "two");
    assert_eq!(of_environment(&["pool", "show", "two", "--json"]), "two");
}

#[test]
fn empty_variables_choose_nothing() {
    let root = Root::new();
    root.ok(&["pool", "create", "default", "--size", "16M"]);
    let with_empty = |variable: &str, arguments: &[&str]| {
        let mut command = root.command(arguments);
        command.env(variable, "");
        Running::new(command).end()
    };
    let listed = with_empty("HYTHE_POOL", &["list", "--json"]);
    assert_eq!(listed.code, Some(0), "{}", listed.errors);
    let listed: Value = serde_json::from_slice(&listed.output).expect("one document");
    assert_eq!(listed["pool"], "default");
    let usual = with_empty("HYTHE_ROOT", &["pool", "show", "no-such-pool"]);
    assert!(usual.errors.contains("/dev/shm/hythe"), "{}", usual.errors);
}

#[test]
fn refusals_name_what_and_what_to_do() {
    let root = Root::new();
    for command in [
        "list",
        "who",
        "hz x",
        "pub x --pool none",
        "sub x --pool none",
        "pool show",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let ended = root.run(&arguments);
        assert_eq!(ended.code, Some(1), "{command}");
        assert_eq!(ended.text(), "", "{command}");
        assert!(
            ended.errors.contains("hythe pool create") && ended.errors.starts_with("hythe: "),
            "{command}: {}",
            ended.errors
        );
    }
    for force in [&[][..], &["--force"]] {
        let ended = root.run(&[&["pool", "remove", "gone"], force].concat());
        ended.failed(1, &["no pool `gone`", "hythe pool list"]);
        assert!(!ended.errors.contains("pool create"), "{}", ended.errors);
    }
    root.ok(&["pool", "create", "--size", "16M"]);
    root.run(&["pool", "create"]).failed(
        1,
        &["`default` exists already", "hythe pool remove default"],
    );
    root.run(&["pool", "create", "small", "--size", "1M"])
        .failed(
            1,
            &[
                "1048576 bytes is too small",
                "control tables alone",
                "--small",
                "--limit",
            ],
        );
    root.run(&["pool", "create", "huge", "--class", "3Gx200000"])
        .failed(1, &["too many: at most", "huge", "--size"]);
    for size in ["999G", "9999999G"] {
        root.run(&["pool", "create", "huge", "--size", size])
            .failed(1, &["too many: at most", "are possible, by the", "--size"]);
    }
    root.run(&["hz", "x"])
        .failed(1, &["no channel `x` in pool `default`", "hythe list"]);
    assert_eq!(
        root.json(&["pool", "list"])["pools"]
            .as_array()
            .map(Vec::len),
        Some(1),
        "a refused pool left something"
    );
}

#[test]
fn region_for_network_cards_is_made_at_once_or_no_pool_is() {
    let root = Root::new();
    let none = ["--limit", "core-slots=1"];
    let create = ["pool", "create", "cards", "--size", "16M", "--card-region"];
    root.run(&[&create[..], &none].concat())
        .failed(1, &["region `card` has 256 slots", "at least 256"]);
    let listed = &root.json(&["pool", "list"])["pools"];
    assert_eq!(listed.as_array().map(Vec::len), Some(0), "{listed}");
    root.run(&create).succeeded();
    let shown = root.json(&["pool", "show", "cards"]);
    assert!(shown.to_string().contains(r#""kind":"card""#), "{shown}");
}

#[test]
fn pools_of_others_and_of_nobody_are_refused_with_what_fits() {
    let root = Root::new();
    // Nobody has this number, whatever /etc/passwd says.
    for command in [
        "pool show 4000000000/x",
        "pool remove 4000000000/x",
        "pub c --pool 4000000000/x",
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let ended = root.run(&arguments);
        ended.failed(1, &["user 4000000000 has no pool `x`", "only that user"]);
    }
    for command in ["pool show no-such-user/x", "sub c --pool no-such-user/x"] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let ended = root.run(&arguments);
        ended.failed(2, &["no user `no-such-user`", "pool `x`", "by number"]);
        assert!(!ended.errors.contains("pool create"), "{}", ended.errors);
    }
    root.run(&["pool", "show", "a/b/c"])
        .failed(2, &["one path component"]);
}

#[test]
fn pool_in_use_is_removed_by_force_only() {
    let root = Root::new();
    let subscriber = root.start(&["sub", "x"]);
    support::eventually("it subscribes", || root.subscribers("x") == 1);
    let named = format!("hythe sub (pid {})", subscriber.child.id());
    root.run(&["pool", "remove"])
        .failed(1, &["in use by", &named, "--force"]);
    assert!(root.ok(&["list"]).contains("hythe sub"));
    root.ok(&["pool", "remove", "--force"]);
    assert!(root.traces().is_empty());
    let ended = subscriber.end();
    ended.failed(
        1,
        &["the pool is lost", "removed", "start this program again"],
    );
}

#[test]
fn damaged_and_planted_pools_are_listed_with_the_reason() {
    let root = Root::new();
    root.ok(&["pool", "create", "cut", "--size", "16M"]);
    root.ok(&["pool", "create", "whole", "--size", "16M"]);
    let shown = root.json(&["pool", "show", "cut"]);
    let directory = Path::new(shown["path"].as_str().expect("a path")).to_owned();
    fs::OpenOptions::new()
        .write(true)
        .open(directory.join("control"))
        .expect("own")
        .set_len(5000)
        .expect("cut");
    symlink(&directory, directory.with_file_name("planted")).expect("own");
    let list = root.json(&["pool", "list"]);
    let error = |index: usize| {
        list["pools"][index]["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(error(0).contains("the file was cut"), "{list}");
    assert!(error(1).contains("planted"), "{list}");
    assert_eq!(list["pools"][2]["pool"], "whole");
    assert_eq!(error(2), "");
    root.run(&["pub", "x", "--pool", "cut"])
        .failed(1, &["5000 bytes"]);
    root.ok(&["pool", "remove", "cut"]);
}

#[test]
fn who_and_list_speak_of_an_idle_pool() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "16M"]);
    assert_eq!(root.ok(&["who"]), "nobody holds a buffer of pool default\n");
    assert_eq!(root.ok(&["list"]), "nobody takes part in pool default\n");
    let who = root.json(&["who"]);
    assert_eq!(
        (&who["buffers"], &who["mismatches"]),
        (&Value::Array(Vec::new()), &Value::Array(Vec::new()))
    );
}

/// Where a part of a new pool's control file begins.
fn offset_of(made: &Value, reason: &str) -> usize {
    let terms = made["terms"].as_array().expect("a list").iter();
    let before = terms.take_while(|term| term["reason"] != reason);
    let bytes = before.map(|term| term["bytes"].as_u64().expect("a number"));
    bytes.sum::<u64>() as usize
}

/// A participant was killed, and the one that recovered it too.
#[test]
fn look_at_a_pool_finishes_an_interrupted_recovery() {
    // Within a participant's record, by spec/pool.md.
    const STATUS: usize = 4;
    const RECOVERER: usize = 32;

    let looks: [&[&str]; 5] = [
        &["who"],
        &["list"],
        &["pool", "show"],
        &["pool", "list"],
        &["top", "--json"],
    ];
    for look in looks {
        let root = Root::new();
        let made = root.json(&["pool", "create", "--size", "16M"]);
        let record = offset_of(&made, "control: participants");
        let control = Path::new(made["path"].as_str().expect("a path")).join("control");
        let subscriber = root.start(&["sub", "data"]);
        support::eventually("it subscribes", || root.subscribers("data") == 1);
        drop(subscriber);
        let participants = || root.json(&["list"])["participants"].clone();
        assert_eq!(participants()[0]["state"], "dead");

        let mut bytes = fs::read(&control).expect("own");
        bytes[record + STATUS] = 3;
        // By participant 0 of a session that is over.
        bytes[record + RECOVERER] = 1;
        bytes[record + RECOVERER + 7] = 1;
        fs::write(&control, &bytes).expect("own");
        root.ok(look);
        let bytes = fs::read(&control).expect("own");
        assert_eq!(bytes[record + STATUS], 0, "{look:?}");
        assert_eq!(participants(), Value::Array(Vec::new()), "{look:?}");
    }
}

#[test]
fn ledger_that_does_not_add_up_is_named() {
    let root = Root::new();
    let made = root.json(&["pool", "create", "--size", "16M"]);
    let at = offset_of(&made, "control: ledger");
    // A program gone wild counts two references to slot 3 that nobody answers for.
    let control = Path::new(made["path"].as_str().expect("a path")).join("control");
    let mut bytes = fs::read(&control).expect("own");
    let cell = at + 3 * 64;
    let counted = |bytes: &mut [u8], value: u8| bytes[cell] = value;
    counted(&mut bytes, 2);
    fs::write(&control, &bytes).expect("own");
    let ended = root.run(&["who", "--json"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.errors.contains("does not add up at 1 slot"),
        "{}",
        ended.errors
    );
    let who: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert_eq!(who["mismatches"][0]["ledger_slot"], 3);
    assert_eq!(who["mismatches"][0]["found"], 0);
    assert!(root.ok(&["pool", "show"]).contains("DOES NOT ADD UP"));
}

#[test]
fn others_are_refused_with_what_is_missing() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED (needs root): another user's look at a pool");
        return;
    }
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "16M"]);
    // Where the build puts the binary need not be open to all.
    let binary = support::copy_hythe(root.path(), &[]);
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary)
            .args(arguments);
        let made = root.command(&[]);
        for (name, value) in made.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        Running::new(command).end()
    };
    as_nobody(&["pool", "show", "0/default"])
        .failed(1, &["permission denied", "mode 0700, owner 0"]);
    as_nobody(&["pub", "x", "--pool", "0/default"]).failed(1, &["permission denied"]);
    as_nobody(&["pool", "create"]).failed(1, &["permission denied"]);
    // Open to all, it can be used by all, and removed by its owner only.
    root.ok(&["pool", "create", "shared", "--size", "16M", "--mode", "666"]);
    let shown = as_nobody(&["pool", "show", "0/shared", "--json"]);
    assert_eq!(shown.code, Some(0), "{}", shown.errors);
    assert_eq!(
        as_nobody(&["pub", "x", "/etc/hostname", "--pool", "0/shared"]).code,
        Some(0)
    );
    as_nobody(&["pool", "remove", "0/shared"])
        .failed(1, &["permission denied", "mode 0711, owner 0"]);
    as_nobody(&["pool", "list", "--pool", "0/shared"])
        .failed(1, &["permission denied", "mode 0711, owner 0"]);
    assert_eq!(
        as_nobody(&["pub", "x", "/etc/hostname", "--pool", "0/shared"]).code,
        Some(0),
        "half removed"
    );
    assert_eq!(root.json(&["pool", "show", "shared"])["mode"], "0666");
}

#[test]
fn doctor_reports_every_probe() {
    let root = Root::new();
    let document = root.json(&["doctor"]);
    let probes = document["probes"].as_array().expect("a list");
    assert!(probes.len() >= 10, "{document}");
    for probe in probes {
        assert!(
            probe["name"].is_string() && probe["status"].is_string(),
            "{probe}"
        );
        assert_ne!(probe["detail"], "", "{probe}");
    }
    let text = root.ok(&["doctor"]);
    assert!(
        text.contains(probes[0]["name"].as_str().expect("a name")),
        "{text}"
    );
    assert!(root.traces().is_empty());
}

#[test]
fn semaphores_and_queues_are_shown_and_removed() {
    use hythe::sync::{Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions};
    let root = Root::new();
    let options = hythe::PoolOptions::new("default").root(&root.pools());
    let pool = hythe::Pool::open_or_create(&options).expect("free capacity");
    let node = hythe::Node::join(&pool, "worker").expect("a place");
    let semaphore = SemaphoreOptions::default().create(2);
    let semaphore = Semaphore::open(&node, "/permits", &semaphore).expect("made");
    semaphore
        .wait(Deadline::after(std::time::Duration::ZERO))
        .expect("free");
    let queue = MessageQueueOptions::default().create(4, 64);
    let queue = MessageQueue::open(&node, "/orders", &queue).expect("made");
    queue
        .send_copy(b"order", 1, Deadline::after(std::time::Duration::ZERO))
        .expect("room");
    for words in [
        &["list"][..],
        &["who"],
        &["pool", "show"],
        &["top", "--once"],
    ] {
        let shown = root.ok(words);
        assert!(
            shown.contains("/permits") && shown.contains("/orders"),
            "{shown}"
        );
        let document = root.json(words);
        let objects = document["objects"].as_array().expect("a list");
        let of = |name: &str| {
            let found = objects.iter().find(|object| object["name"] == name);
            found
                .unwrap_or_else(|| panic!("no {name} in {document}"))
                .clone()
        };
        let permits = of("/permits");
        assert_eq!(
            (&permits["value"], &permits["held"]),
            (&1.into(), &1.into())
        );
        assert_eq!(of("/orders")["messages"], 1);
    }
    root.run(&["pool", "unlink", "/nothing"])
        .failed(1, &["/nothing", "hythe list"]);
    drop((semaphore, queue, node));
    root.ok(&["pool", "unlink", "permits", "/orders"]);
    assert_eq!(root.json(&["list"])["objects"], Value::Array(Vec::new()));
}
