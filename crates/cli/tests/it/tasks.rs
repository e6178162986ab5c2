//! Programs as tasks: messages, spawning, ends and groups, in jobs of the real command.
//!
//! Each test runs this file's own program as the tasks of a job: [`task`] is what they do.

use crate::support;

use std::time::{Duration, Instant};

use crate::support::{BOUND, Ended, Root};
use hythe::tasks::{SpawnOptions, SpawnPlace, Task, TaskError, TaskOptions, Wanted};
use hythe_testing::in_module;

const CASE: &str = "HYTHE_TEST_CASE";

fn run_with(case: &str, count: u32, more: &[&str]) -> Ended {
    let root = Root::new();
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path").to_owned();
    let (count, export) = (count.to_string(), format!("{CASE}={case}"));
    let words = ["run", "-n", &count, "-x", &export];
    let program = ["--", &own, "--exact", &in_module("task"), "--nocapture"];
    root.run(&[&words[..], more, &program[..]].concat())
}

fn run(case: &str, count: u32) {
    let ended = run_with(case, count, &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.text(), ended.errors);
}

/// Not a test by itself: what a task of a test does.
#[test]
fn task() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let kept = std::env::var("HYTHE_TEST_KEPT").ok();
    let kept = kept.map_or(1 << 30, |kept| kept.parse().expect("a number"));
    let mut task = Task::join_with(&TaskOptions::default().kept_bytes(kept)).expect("a task");
    match case.as_str() {
        "ring" => ring(&mut task),
        "selection" => selection(&mut task),
        "both" => send_100_mb_both_ways(&mut task),
        "limit" => limit(&mut task),
        "spawn" => spawn(&mut task),
        "bomb" => bomb(&task),
        "crowd" => crowd(&task),
        "ends" => ends(&mut task),
        "groups" => groups(&mut task),
        "named" => named_groups(&mut task),
        "dead" => dead_member(&mut task),
        "count" => barrier_by_count(&mut task),
        "lease" => lease(&mut task),
        "leave" => leave(task),
        other => panic!("no case {other}"),
    }
}

fn receive(task: &mut Task, wanted: Wanted) -> hythe::tasks::Message {
    let received = task.receive(wanted, BOUND).expect("no error");
    received.expect("a message in time")
}

fn ring(task: &mut Task) {
    let siblings = task.siblings();
    let (rank, size) = (task.rank() as usize, siblings.len());
    assert_eq!(siblings[rank], task.id());
    let (next, before) = (
        siblings[(rank + 1) % size],
        siblings[(rank + size - 1) % size],
    );
    for round in 0..100_u32 {
        task.send(next, round, &round.to_le_bytes()).expect("sent");
        let message = receive(task, Wanted::any().from(before).tag(round));
        assert_eq!(message.to_vec(), round.to_le_bytes());
        assert_eq!((message.source(), message.tag()), (before, round));
    }
    task.send(task.id(), 0, b"").expect("to itself");
    assert!(receive(task, Wanted::any()).is_empty());
}

#[test]
fn messages_go_round() {
    run("ring", 3);
}

fn selection(task: &mut Task) {
    let siblings = task.siblings();
    if task.rank() > 0 {
        for tag in 1..=50 {
            task.send(siblings[0], tag, &vec![tag as u8; tag as usize * 1000])
                .expect("sent");
        }
        return;
    }
    let (one, two) = (siblings[1], siblings[2]);
    // The last first, so that all others are passed by.
    assert_eq!(receive(task, Wanted::any().from(two).tag(50)).len(), 50_000);
    for tag in 1..50 {
        let message = receive(task, Wanted::any().from(two));
        assert_eq!(message.tag(), tag, "in order");
        assert_eq!(message.into_vec(), vec![tag as u8; tag as usize * 1000]);
    }
    for tag in (1..=50).rev() {
        let wanted = Wanted::any().tag(tag);
        let start = Instant::now();
        let about = loop {
            match task.probe(wanted).expect("no error") {
                Some(about) => break about,
                None => assert!(start.elapsed() < BOUND),
            }
        };
        assert_eq!(about, (one, tag, tag as usize * 1000));
        assert_eq!(receive(task, wanted).source(), one);
    }
    let none = task.receive(Wanted::any(), Duration::from_millis(20));
    assert!(none.expect("no error").is_none());
}

#[test]
fn messages_are_found_by_sender_and_tag_in_any_order() {
    run("selection", 3);
}

fn send_100_mb_both_ways(task: &mut Task) {
    const BYTES: usize = 100_000_000;
    let other = task.siblings()[1 - task.rank() as usize];
    let own = task.rank() as u8;
    let byte = |rank: u8, at: usize| (at % 251) as u8 ^ rank;
    let bytes: Vec<u8> = (0..BYTES).map(|at| byte(own, at)).collect();
    task.send(other, 1, &bytes).expect("sent or kept");
    drop(bytes);
    task.send(other, 2, b"behind it").expect("sent or kept");
    assert!(task.kept_bytes() > 0);
    let short = receive(task, Wanted::any().tag(2));
    assert_eq!(short.to_vec(), b"behind it");
    let bytes = receive(task, Wanted::any().tag(1)).into_vec();
    assert_eq!(bytes.len(), BYTES);
    let is_right = |(at, found): (usize, &u8)| *found == byte(1 - own, at);
    assert!(bytes.iter().enumerate().all(is_right));
    assert_eq!(task.violations(), 0);
}

#[test]
fn two_tasks_send_100_mb_to_each_other_before_either_receives() {
    run("both", 2);
}

fn limit(task: &mut Task) {
    let other = task.siblings()[1 - task.rank() as usize];
    if task.rank() == 1 {
        // It receives only when the other has met its limit.
        let told = receive(task, Wanted::any().tag(9));
        let count = u32::from_le_bytes(told.to_vec().try_into().expect("a number"));
        for _ in 0..count {
            assert_eq!(receive(task, Wanted::any().tag(1)).len(), 1 << 20);
        }
        return;
    }
    let megabyte = vec![7; 1 << 20];
    let mut sent = 0_u32;
    let refused = loop {
        match task.send(other, 1, &megabyte) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 200, "there is no limit");
    };
    let TaskError::KeptTooMuch { most, kept, .. } = refused else {
        panic!("{refused}");
    };
    assert!(kept <= most);
    task.send(other, 9, &sent.to_le_bytes())
        .expect("it is short");
    assert!(task.flush(BOUND), "it is received in the end");
    assert_eq!((task.kept_bytes(), task.lost_messages()), (0, 0));
}

#[test]
fn what_is_kept_has_a_limit_and_is_sent_in_the_end() {
    let ended = run_with("limit", 2, &["-x", "HYTHE_TEST_KEPT=20000000"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.text(), ended.errors);
}

fn spawn(task: &mut Task) {
    if let Some(parent) = task.parent() {
        assert_eq!((task.size(), task.siblings().len()), (3, 3));
        let answer = format!("{} {}", task.rank(), std::env::var("GIVEN").expect("given"));
        task.send(parent, 1, answer.as_bytes()).expect("sent");
        return;
    }
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path");
    let options = SpawnOptions::new(own).count(3).variable("GIVEN", "value");
    let options = options
        .argument("--exact")
        .argument(&in_module("task"))
        .argument("--nocapture");
    let here = SpawnPlace::Architecture(std::env::consts::ARCH.to_owned());
    let spawned = task.spawn(&options.clone().place(here)).expect("spawned");
    assert_eq!(spawned.len(), 3);
    for (rank, child) in spawned.iter().enumerate() {
        let answer = receive(task, Wanted::any().from(*child));
        assert_eq!(answer.to_vec(), format!("{rank} value").into_bytes());
        task.notify_end(*child).expect("asked");
    }
    let mut ended: Vec<_> = (0..3)
        .map(|_| task.take_end(BOUND).expect("no error").expect("in time"))
        .collect();
    ended.sort();
    assert_eq!(ended, spawned);
    let elsewhere = SpawnPlace::Host("no.such.host".to_owned());
    let refused = task.spawn(&options.place(elsewhere)).expect_err("refused");
    assert!(refused.to_string().contains("no.such.host"), "{refused}");
    let missing = task.spawn(&SpawnOptions::new("no-such-program"));
    let missing = missing.expect_err("refused").to_string();
    assert!(missing.contains("no-such-program"), "{missing}");
}

#[test]
fn tasks_spawn_others_and_hear_of_their_end() {
    run("spawn", 1);
}

/// Spawns two tasks that do the same, until one of them is refused; then all end.
fn bomb(task: &Task) {
    let stop = std::path::PathBuf::from(std::env::var_os("STOP").expect("set by the test"));
    let own = std::env::current_exe().expect("this test");
    let options = SpawnOptions::new(own.to_str().expect("a plain path"));
    let options = ["--exact", &in_module("task"), "--nocapture"]
        .iter()
        .fold(options, |options, word| options.argument(word));
    for _ in 0..2 {
        if stop.exists() {
            break;
        }
        if let Err(error) = task.spawn(&options) {
            println!("refused: {error}");
            std::fs::write(&stop, "").expect("own");
        }
    }
    support::eventually("one is refused", || stop.exists());
}

/// A task that is refused when it joins would say so by a panic.
#[test]
fn endless_spawning_is_refused_where_it_spawns() {
    let root = Root::new();
    let limit = ["--small", "--limit", "participants=12"];
    root.ok(&[&["pool", "create", "default"], &limit[..]].concat());
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path");
    let stop = root.path().join("stop");
    let (case, stop) = (format!("{CASE}=bomb"), format!("STOP={}", stop.display()));
    let run = ["run", "-x", &case, "-x", &stop, "--", own];
    let ended = root.run(&[&run[..], &["--exact", &in_module("task"), "--nocapture"]].concat());
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.text(), ended.errors);
    let output = ended.text();
    assert!(
        output.contains("which has 12, and 12 of them are taken"),
        "{output}"
    );
    assert!(output.contains("--limit participants=13"), "{output}");
    assert!(
        !(output + &ended.errors).contains("panicked"),
        "{}",
        ended.errors
    );
    assert!(
        root.json(&["tasks"])["tasks"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    let left = root.json(&["list"])["participants"].clone();
    assert!(left.as_array().is_some_and(Vec::is_empty), "{left}");
}

/// Of a program of which no task runs.
fn crowd(task: &Task) {
    let spawn = |count| task.spawn(&SpawnOptions::new("true").count(count));
    let refused = spawn(12).expect_err("there are 10 places").to_string();
    let enough = "--limit participants=14";
    assert!(refused.contains(enough), "{refused}");
    assert_eq!(spawn(10).expect("as many as there are places").len(), 10);
}

#[test]
fn spawned_tasks_without_a_place_are_refused_before_the_first() {
    let root = Root::new();
    let limit = ["--small", "--limit", "participants=12"];
    root.ok(&[&["pool", "create", "default"], &limit[..]].concat());
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path");
    let run = ["run", "-x", &format!("{CASE}=crowd"), "--", own];
    let ended = root.run(&[&run[..], &["--exact", "task", "--nocapture"]].concat());
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.text(), ended.errors);
}

fn ends(task: &mut Task) {
    let siblings = task.siblings();
    match task.rank() {
        // It goes at once, and what it sent arrives.
        1 => task.send(siblings[0], 1, b"last words").expect("sent"),
        // It is killed in the middle.
        2 => {
            task.send(siblings[0], 2, b"alive").expect("sent");
            loop {
                std::thread::park();
            }
        }
        _ => {
            let start = Instant::now();
            while !task.has_ended(siblings[1]).expect("no error") {
                assert!(start.elapsed() < BOUND);
            }
            // Asked for only now.
            task.notify_end(siblings[1]).expect("asked");
            let ended = task.take_end(BOUND).expect("no error");
            assert_eq!(ended, Some(siblings[1]));
            let wanted = Wanted::any().from(siblings[1]);
            assert_eq!(receive(task, wanted).to_vec(), b"last words");
            let error = task.receive(wanted, BOUND).expect_err("it has ended");
            assert!(matches!(error, TaskError::Ended { task } if task == siblings[1]));
            let error = task.send(siblings[1], 0, b"").expect_err("it has ended");
            assert!(matches!(error, TaskError::Ended { .. }), "{error}");

            receive(task, Wanted::any().from(siblings[2]));
            hythe::tasks::kill(task.pool(), siblings[2], 9).expect("killed");
            let error = task.receive(Wanted::any().from(siblings[2]), BOUND);
            let error = error.expect_err("it was killed");
            assert!(
                error.to_string().contains(&siblings[2].to_string()),
                "{error}"
            );
        }
    }
}

#[test]
fn end_of_a_task_ends_waits_for_it() {
    let ended = run_with("ends", 3, &["--keep-going"]);
    // That of the one that was killed, and of nobody else.
    ended.failed_naming(137, &["rank 2", "SIGKILL"]);
}

fn groups(task: &mut Task) {
    let (group, rank) = (task.sibling_group(), u64::from(task.rank()));
    assert_eq!(group.size(), 4);
    for round in 0..20 {
        group.barrier(task, BOUND).expect("all come");
        let sum = group.reduce(task, 1, &[rank, round], |a, b| a + b, BOUND);
        let sum = sum.expect("reduced");
        assert_eq!(
            sum,
            if rank == 1 {
                vec![6, 4 * round]
            } else {
                vec![]
            }
        );
        let most = group
            .reduce(task, 0, &[rank as f64], f64::max, BOUND)
            .expect("reduced");
        assert_eq!(most, if rank == 0 { vec![3.0] } else { vec![] });
        let text = group
            .broadcast(task, 2, &[rank as u8; 3000], BOUND)
            .expect("given");
        assert_eq!(text, [2; 3000]);
        let parts: Vec<Vec<u8>> = (0..4).map(|part| vec![part; 5]).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let part = group.scatter(task, 3, &parts, BOUND).expect("given");
        assert_eq!(part, [rank as u8; 5]);
        let all = group
            .gather(task, 0, &[rank as u8], BOUND)
            .expect("gathered");
        assert_eq!(all.len(), if rank == 0 { 4 } else { 0 });
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, bytes)| *bytes == [at as u8])
        );
    }
}

#[test]
fn groups_compute_together() {
    run("groups", 4);
}

fn named_groups(task: &mut Task) {
    let siblings = task.sibling_group();
    task.join_group("workers").expect("joined");
    siblings.barrier(task, BOUND).expect("all come");
    let group = task.group("workers").expect("asked");
    assert_eq!(group.size(), 3);
    let own = group.instance(task.id()).expect("a member");
    assert_eq!(group.task(own), Some(task.id()));
    group.barrier(task, BOUND).expect("all come");
    if own == 0 {
        task.leave_group("workers").expect("left");
        assert!(task.leave_group("workers").is_err());
    }
    siblings.barrier(task, BOUND).expect("all come");
    let mut group = group;
    group.refresh(task).expect("asked");
    assert_eq!(group.size(), 2);
    // Before the one that left comes again.
    siblings.barrier(task, BOUND).expect("all come");
    if own == 0 {
        let error = group.barrier(task, BOUND).expect_err("it is no member");
        assert!(matches!(error, TaskError::NotInGroup { .. }));
        assert_eq!(
            task.join_group("workers")
                .expect("joined")
                .instance(task.id()),
            Some(0)
        );
    } else {
        group.barrier(task, BOUND).expect("both come");
    }
    siblings.barrier(task, BOUND).expect("all come");
}

#[test]
fn groups_have_members_that_come_and_go() {
    run("named", 3);
}

fn dead_member(task: &mut Task) {
    let (group, dead) = (task.sibling_group(), task.siblings()[2]);
    group.barrier(task, BOUND).expect("all come");
    if task.id() == dead {
        std::process::exit(5);
    }
    let error = group.barrier(task, BOUND).expect_err("one has ended");
    assert!(
        matches!(error, TaskError::Ended { task } if task == dead),
        "{error}"
    );
    assert!(error.to_string().contains(&dead.to_string()));
    let root = task.siblings()[0];
    if task.id() == root {
        let error = group.reduce(task, 0, &[1_u32], |a, b| a + b, BOUND);
        let error = error.expect_err("one has ended");
        assert!(
            matches!(error, TaskError::Ended { task } if task == dead),
            "{error}"
        );
    }
}

#[test]
fn barrier_with_a_dead_member_names_it() {
    let ended = run_with("dead", 4, &["--keep-going"]);
    ended.failed_naming(5, &["rank 2", "exited with 5"]);
}

fn barrier_by_count(task: &mut Task) {
    let siblings = task.sibling_group();
    let not_in_it = task.barrier("counted", 1, BOUND).expect_err("no member");
    assert!(
        matches!(not_in_it, TaskError::NotInGroup { .. }),
        "{not_in_it}"
    );
    task.join_group("counted").expect("joined");
    siblings.barrier(task, BOUND).expect("all come");
    for _ in 0..50 {
        task.barrier("counted", 4, BOUND).expect("all come");
    }
    // Two of four.
    if task.rank() < 2 {
        task.barrier("counted", 2, BOUND).expect("both come");
    }
    siblings.barrier(task, BOUND).expect("all come");
    if task.rank() == 0 {
        let late = task.barrier("counted", 2, Duration::from_millis(50));
        let late = late.expect_err("nobody else comes");
        assert!(matches!(late, TaskError::Late { task: None, .. }), "{late}");
    }
    siblings.barrier(task, BOUND).expect("all come");
    // Who gave up is not counted.
    if task.rank() == 1 {
        let late = task.barrier("counted", 2, Duration::from_millis(50));
        late.expect_err("nobody else comes");
    }
    siblings.barrier(task, BOUND).expect("all come");
    if task.rank() == 3 {
        std::process::exit(6);
    }
    let error = task
        .barrier("counted", 4, BOUND)
        .expect_err("one has ended");
    let dead = task.siblings()[3];
    assert!(
        matches!(error, TaskError::Ended { task } if task == dead),
        "{error}"
    );
}

#[test]
fn barrier_opens_for_as_many_members_as_are_asked_for() {
    let ended = run_with("count", 4, &["--keep-going"]);
    ended.failed_naming(6, &["rank 3", "exited with 6"]);
}

fn lease(task: &mut Task) {
    const LARGE: usize = 5_000_000;
    let siblings = task.siblings();
    if task.rank() == 1 {
        for count in [100_usize, LARGE, 0] {
            let message = receive(task, Wanted::any().tag(3));
            let expected: Vec<u8> = (0..count).map(|at| (at % 249) as u8).collect();
            assert_eq!(message.into_vec(), expected);
        }
        // More than the queue has place for, before any is received.
        receive(task, Wanted::any().tag(5));
        for number in 0..200_u32 {
            let message = receive(task, Wanted::any().tag(4));
            assert_eq!(message.to_vec(), number.to_le_bytes());
        }
        assert_eq!(task.violations(), 0);
        return;
    }
    // It has joined when it has subscribed: what is sent before is kept, wherever it was written.
    for count in [100_usize, LARGE, 0] {
        let mut lease = task.lease(siblings[1], count).expect("leased");
        assert_eq!((lease.len(), lease.receiver()), (count, siblings[1]));
        assert_eq!(lease.is_in_slot(), count != LARGE);
        let bytes: Vec<u8> = (0..count).map(|at| (at % 249) as u8).collect();
        let half = count / 2;
        lease.write(half, &bytes[half..]);
        let in_place = lease.as_mut_slice(hythe::TrustPeers::i_trust_every_writer_of_this_pool());
        in_place[..half].copy_from_slice(&bytes[..half]);
        task.send_leased(lease, 3).expect("sent or kept");
    }
    drop(task.lease(siblings[1], 64).expect("leased"));
    for number in 0..200_u32 {
        let mut lease = task.lease(siblings[1], 4).expect("leased");
        lease.write(0, &number.to_le_bytes());
        task.send_leased(lease, 4).expect("sent or kept");
    }
    task.send(siblings[1], 5, b"").expect("sent or kept");
    assert!(task.flush(BOUND), "it is received in the end");
    task.set_kept_bytes_max(0);
    let mut sends = (0..1000).map(|_| task.send(siblings[0], 0, &[0; 64]));
    let refused = sends.find_map(Result::err).expect("its queue is full soon");
    assert!(
        matches!(refused, TaskError::KeptTooMuch { most: 0, .. }),
        "{refused}"
    );
}

#[test]
fn messages_are_written_where_they_are_sent_from() {
    run("lease", 2);
}

fn leave(mut task: Task) {
    let siblings = task.siblings();
    let first = siblings[0];
    if task.rank() == 0 {
        let wanted = Wanted::any().from(siblings[1]);
        assert_eq!(receive(&mut task, wanted).to_vec(), b"going");
        let error = task.receive(wanted, BOUND).expect_err("it has left");
        assert!(matches!(error, TaskError::Ended { .. }), "{error}");
        let message = receive(&mut task, Wanted::any().tag(2));
        assert_eq!(message.to_vec(), b"back");
        assert!(!siblings.contains(&message.source()));
        assert!(!task.has_ended(message.source()).expect("no error"));
        task.send(message.source(), 3, b"").expect("sent");
        task.notify_end(message.source()).expect("asked");
        let ended = task.take_end(BOUND).expect("no error");
        assert_eq!(ended, Some(message.source()));
        return;
    }
    task.send(first, 1, b"going").expect("sent");
    task.leave().expect("left");
    let pool = std::env::var("HYTHE_POOL").expect("a task");
    let pool = hythe::PoolOptions::new(&pool);
    let mut task = Task::enrol(&pool, &TaskOptions::default()).expect("enrolled");
    assert_eq!((task.rank(), task.size(), task.parent()), (0, 1, None));
    task.send(first, 2, b"back").expect("sent");
    receive(&mut task, Wanted::any().from(first).tag(3));
}

#[test]
fn task_that_leaves_has_ended_and_may_enrol_again() {
    run("leave", 2);
}

/// Not a test by itself: a program that nobody starts as a task.
#[test]
fn guest() {
    if std::env::var(CASE).as_deref() != Ok("guest") {
        return;
    }
    let pool = hythe::PoolOptions::new("default");
    let mut enrolled = None;
    support::eventually("the job is there", || {
        match Task::enrol(&pool, &TaskOptions::default()) {
            Ok(task) => enrolled = Some(task),
            // Nor is the pool, at first.
            Err(TaskError::NoJob | TaskError::Node(_)) => {}
            Err(error) => panic!("{error}"),
        }
        enrolled.is_some()
    });
    let mut task = enrolled.expect("just enrolled");
    let own = std::env::current_exe().expect("this test");
    let own = own.to_str().expect("a plain path");
    let options = SpawnOptions::new(own).count(2).variable(CASE, "child");
    let options = ["--exact", &in_module("child"), "--nocapture"]
        .iter()
        .fold(options, |options, word| options.argument(word));
    spawn_and_see_end(&mut task, &options, true);
    // Together more than there are numbers; then some come for the second time.
    for _ in 0..5 {
        spawn_and_see_end(&mut task, &SpawnOptions::new("true").count(120), false);
    }
    spawn_and_see_end(&mut task, &options, true);
    println!("guest {}", task.id());
    loop {
        std::thread::park();
    }
}

fn spawn_and_see_end(task: &mut Task, options: &SpawnOptions, answers: bool) {
    let spawned = task.spawn(options).expect("spawned");
    for child in spawned.iter().filter(|_| answers) {
        let answer = receive(task, Wanted::any().from(*child));
        assert_eq!(answer.to_vec(), child.to_string().into_bytes());
        // It waits for it, so it lives.
        assert!(!task.has_ended(*child).expect("no error"), "{child}");
        task.send(*child, 2, b"go").expect("sent");
    }
    for child in &spawned {
        task.notify_end(*child).expect("asked");
    }
    for _ in &spawned {
        let ended = task.take_end(BOUND).expect("no error").expect("in time");
        assert!(spawned.contains(&ended));
    }
}

/// What a guest spawns.
#[test]
fn child() {
    if std::env::var(CASE).as_deref() != Ok("child") {
        return;
    }
    let mut task = Task::join().expect("a task");
    let parent = task.parent().expect("spawned");
    let own = task.id().to_string();
    task.send(parent, 1, own.as_bytes()).expect("sent");
    receive(&mut task, Wanted::any().from(parent).tag(2));
}

#[test]
fn program_that_nobody_started_enrols_in_a_job_that_stays() {
    let root = Root::new();
    // So many tasks may run at a time.
    root.ok(&["pool", "create", "default", "--limit", "participants=160"]);
    let own = std::env::current_exe().expect("this test");
    let job = root.start(&["run", "--stay"]);
    let guest = || {
        let mut command = root.command_by(
            std::process::Command::new(&own),
            &["--exact", &in_module("guest"), "--nocapture"],
        );
        command.env(CASE, "guest").env_remove("HYTHE_TASK");
        support::Running::new(command)
    };
    let one = guest();
    let tasks = || {
        let listed = root.json(&["tasks"]);
        let tasks = listed["tasks"].as_array().expect("a list").clone();
        let pids = tasks.iter().map(|task| task["pid"].clone());
        pids.collect::<Vec<_>>()
    };
    let all_done = |guest: &support::Running| {
        support::eventually("it has spawned", || guest.printed().contains("guest 1."));
    };
    all_done(&one);
    let other = guest();
    all_done(&other);
    assert_eq!(tasks(), [one.child.id(), other.child.id()]);
    // Killed, it is no task any more, and the kernel says so.
    one.signal(rustix::process::Signal::KILL);
    support::eventually("one is left", || tasks() == [other.child.id()]);
    // The job ends without it, and does not end it.
    job.signal(rustix::process::Signal::TERM);
    let ended = job.end();
    assert_eq!(ended.code, Some(0), "{}", ended.errors);
    assert!(tasks().is_empty());
    let mut other = other;
    assert!(other.child.try_wait().expect("own child").is_none());
}

#[test]
fn process_that_is_no_task_is_told_so() {
    let error = Task::join().map(drop);
    // Unless this test runs as a task itself.
    if std::env::var_os("HYTHE_TASK").is_none() {
        let error = error.expect_err("no task").to_string();
        assert!(
            error.contains("HYTHE_TASK") && error.contains("hythe run"),
            "{error}"
        );
    }
}
