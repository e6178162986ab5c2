//! Jobs whose tasks run on two hosts: `hythe run --hosts`, and what is left when something dies.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::network::agent::{
    Host, LEASE, are_connected, eventually, first, have_patience, programs, send, start_anew,
};
use crate::network::{Lan, is_skipped};
use hythe_cluster::command::{Reply, Request};
use rustix::process::Signal;
use serde_json::Value;

/// `hythe`, which the workspace builds: `make test-hosts` names it.
fn hythe() -> Option<PathBuf> {
    let program = std::env::var("HYTHE_COMMAND").ok();
    if program.is_none() {
        eprintln!("SKIPPED (no HYTHE_COMMAND; `make test-hosts` builds it): tasks on two hosts");
    }
    program.filter(|_| !is_skipped()).map(PathBuf::from)
}

/// Two connected hosts, whose agents find `hythe`.
struct Hosts {
    hythe: PathBuf,
    a: Host,
    b: Host,
    lan: Lan,
}

impl Hosts {
    fn new() -> Option<Self> {
        let hythe = hythe()?;
        let lan = Lan::new(1);
        let (a, mut b) = (first(&lan), Host::on(&lan, 2));
        let folder = hythe.parent().expect("a folder").to_owned();
        let folders = [folder, programs(), "/usr/bin".into(), "/bin".into()];
        let path = std::env::join_paths(folders).expect("no colon in it");
        b.environment = vec![("PATH", path.into())];
        a.take_in(&b, "b");
        have_patience(&[&a, &b]);
        eventually("a and b are connected", || are_connected(&a, &b));
        Some(Self { hythe, a, b, lan })
    }

    /// The same, and both users trust the link.
    fn trusting() -> Option<Self> {
        let hosts = Self::new()?;
        start_anew(&[&hosts.a, &hosts.b], |host| {
            vec!["--trusted".to_owned(), host.plug.interface()]
        });
        let connected = || are_connected(&hosts.a, &hosts.b);
        eventually("a and b are connected again", connected);
        Some(hosts)
    }

    /// What carries the messages of tasks between a host and another one, each way.
    fn carriers(host: &Host, other: &str) -> Vec<String> {
        let status = host.status_of(other).and_then(|status| status.session);
        let channels = status.map(|session| session.channels).unwrap_or_default();
        let of_tasks = channels.into_iter();
        let of_tasks = of_tasks.filter(|one| one.channel.starts_with("task/"));
        let said = of_tasks.map(|one| format!("{:?} {}", one.direction, one.carrier));
        let mut said: Vec<String> = said.collect();
        said.sort();
        said
    }

    /// Host b lets host a start programs.
    fn allow(&self, program: &str) {
        self.b.said(&["allow", "a", program, "spawn"]);
    }

    fn on(&self, host: &Host, words: &[&str]) -> Command {
        // A shell that runs the tests beside others has SIGINT ignored, which stays so.
        let mut command = host.space.command("env");
        command.arg("--default-signal").arg(&self.hythe);
        command.env("HYTHE_HOSTS_DIR", host.path("hosts"));
        command.env("HYTHE_ROOT", host.path("pools")).args(words);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, host: &Host, words: &[&str]) -> Output {
        self.on(host, words).output().expect("nsenter")
    }

    fn said(&self, host: &Host, words: &[&str]) -> String {
        let output = self.output(host, words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn refusal(&self, words: &[&str]) -> String {
        let output = self.output(&self.a, words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    fn tasks(&self, host: &Host) -> Vec<Value> {
        let said = self.said(host, &["tasks", "--json"]);
        let document: Value = serde_json::from_str(&said).expect("one document");
        document["tasks"].as_array().expect("a list").clone()
    }

    /// A job of three tasks, one on host a and two on host b, which all run by now, and the process
    /// ids of all that runs for it.
    fn holding(&self, more: &[&str]) -> (Child, Vec<u32>) {
        let place = self.a.folder.path().display().to_string();
        let script = format!(
            "setsid sh -c 'echo $$ > {place}/$HYTHE_RANK.away; exec sleep 600' & \
             echo $$ > {place}/$HYTHE_RANK.task; exec sleep 600"
        );
        for rank in 0..3 {
            for kind in ["away", "task"] {
                let _ = std::fs::remove_file(self.a.path(&format!("{rank}.{kind}")));
            }
        }
        let words = ["run", "--hosts", "a,b:2"];
        let program = ["--", "sh", "-c", &script];
        let mut job = self.on(&self.a, &[&words[..], more, &program[..]].concat());
        let job = job.spawn().expect("nsenter");
        let files = (0..3).flat_map(|rank| ["away", "task"].map(|kind| format!("{rank}.{kind}")));
        let files: Vec<PathBuf> = files.map(|name| self.a.path(&name)).collect();
        let read = |file: &PathBuf| std::fs::read_to_string(file).ok()?.trim().parse().ok();
        eventually("all processes run", || {
            files.iter().all(|file| read(file).is_some())
        });
        (job, files.iter().filter_map(read).collect())
    }

    fn agent(host: &Host) -> u32 {
        let Some(Reply::Status { status }) = host.ask(&Request::Status) else {
            panic!("the agent answers");
        };
        status.pid
    }
}

/// A zombie that nobody has waited for yet does not run.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn wait_until_gone(pids: &[u32]) {
    eventually("nothing is left running", || {
        !pids.iter().any(|pid| runs(*pid))
    });
}

fn parent(pid: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a row");
    rest.split(' ')
        .nth(1)
        .expect("a parent")
        .parse()
        .expect("a number")
}

fn example(name: &str) -> String {
    let path = programs().join("examples").join(name);
    assert!(Path::new(&path).is_file(), "{}", path.display());
    path.to_str().expect("text").to_owned()
}

#[test]
fn rule_permits_a_program_and_nothing_else_does() {
    let Some(hosts) = Hosts::new() else { return };
    let words = ["run", "--hosts", "b", "--", "echo", "hello"];
    let refused = hosts.refusal(&words);
    assert!(
        refused.contains("hythe host allow a 'echo' spawn") && refused.contains("on b"),
        "{refused}"
    );
    hosts.allow("echo");
    assert_eq!(hosts.said(&hosts.a, &words), "hello\n");
    // A part asks for each program: what comes behind the first is not permitted by it.
    let refused = hosts.refusal(&["run", "--hosts", "b", "--", "sh", "-c", "echo hello"]);
    assert!(refused.contains("allow a 'sh' spawn"), "{refused}");
    // A program that is missing there is named with its host.
    hosts.allow("*");
    let refused = hosts.refusal(&["run", "--hosts", "b", "--", "/no/such/program"]);
    assert!(
        refused.contains("host b") && refused.contains("/no/such/program"),
        "{refused}"
    );
    let refused = hosts.refusal(&["run", "--hosts", "b", "--", "no-such-program"]);
    assert!(
        refused.contains("host b") && refused.contains("`no-such-program`"),
        "{refused}"
    );
    let refused = hosts.refusal(&["run", "--hosts", "c", "--", "echo"]);
    assert!(refused.contains("there is no host c"), "{refused}");
}

#[test]
fn tasks_of_two_hosts_have_one_job() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    // Rank 0 is elsewhere: it gets the input.
    let script = "[ $HYTHE_RANK = 0 ] && cat; echo \"$HYTHE_TASK $HYTHE_RANK of $HYTHE_SIZE $GIVEN\"; \
                  echo aside >&2";
    let words = [
        "run",
        "--hosts",
        "b:2,a",
        "--label",
        "-x",
        "GIVEN=value",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut job = hosts.on(&hosts.a, &words);
    let mut job = job.stdin(Stdio::piped()).spawn().expect("nsenter");
    let mut input = job.stdin.take().expect("piped");
    let text: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    let written = text.clone();
    let writing = std::thread::spawn(move || {
        std::io::Write::write_all(&mut input, written.as_bytes()).expect("it reads");
    });
    let output = job.wait_with_output().expect("its end");
    writing.join().expect("no panic");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said.lines().collect();
    let of_input: String = lines
        .iter()
        .filter_map(|line| line.strip_prefix("[0] line "))
        .map(|line| format!("line {line}\n"))
        .collect();
    assert!(of_input == text, "all input comes back, in order");
    for rank in 0..3 {
        let expected = format!("[{rank}] 1.1.{rank} {rank} of 3 value");
        assert!(lines.contains(&expected.as_str()), "no `{expected}`");
    }
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(errors.matches("aside").count(), 3, "{errors}");
    // The first failure is the job's, wherever it was, and ends the others.
    let script = "[ $HYTHE_RANK = 1 ] && exit 7; exec sleep 600";
    let failed = hosts.output(
        &hosts.a,
        &["run", "--hosts", "a,b", "--", "sh", "-c", script],
    );
    assert_eq!(failed.status.code(), Some(7), "{failed:?}");
}

#[test]
fn tasks_of_two_hosts_compute_together() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    for order in ["a:2,b:2", "b,a"] {
        let said = hosts.said(
            &hosts.a,
            &["run", "--hosts", order, "--", &example("tasks")],
        );
        assert!(said.contains("the sum is 500000500000"), "{said}");
    }
}

#[test]
fn task_spawns_on_a_host_as_far_as_rules_permit_it() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let spawner = example("spawner");
    let spawn = |from: &str, on: &str| {
        let words = [
            "run", "-n", "1", "--hosts", from, "--", &spawner, on, "true",
        ];
        hosts.said(&hosts.a, &words)
    };
    let is_done = |said: &str| said.contains("spawned 1.") && said.contains("ended 1.");
    let said = spawn("a,b", "b");
    assert!(is_done(&said), "{said}");
    let said = spawn("b,a", "b");
    assert!(is_done(&said), "{said}");
    // With the rights of host a, which nobody gave to host b.
    let refused = spawn("b,a", "a");
    assert!(
        refused.contains("host allow b 'true' spawn") && refused.contains("on a"),
        "{refused}"
    );
    hosts.a.said(&["allow", "b", "true", "spawn"]);
    let said = spawn("b,a", "a");
    assert!(is_done(&said), "{said}");
    let refused = spawn("a", "b");
    assert!(refused.contains("no host `b` among the hosts"), "{refused}");
}

#[test]
fn all_that_a_spawned_task_prints_on_another_host_comes_out() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    // The last line has no end, and the pipe is full when the task ends.
    let script = "seq 20000; printf last; printf aside >&2";
    let spawner = example("spawner");
    let words = ["run", "-n", "1", "--hosts", "a,b", "--label"];
    let program = ["--", &spawner, "b", "sh", "-c", script];
    let words = [&words[..], &program].concat();
    let output = hosts.output(&hosts.a, &words);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("[0] "))
        .filter(|line| !line.starts_with("spawned ") && !line.starts_with("ended "))
        .collect();
    let expected = (1..=20_000).map(|line| line.to_string());
    let expected: Vec<String> = expected.chain(["last".to_owned()]).collect();
    assert!(lines == expected, "{} lines", lines.len());
    let errors = String::from_utf8(output.stderr).expect("text");
    assert!(errors.contains("aside"), "{errors}");
}

#[test]
fn output_of_remote_orphan_is_printed() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let [go, done] = ["go", "done"].map(|name| hosts.a.path(name).display().to_string());
    let left = format!("(while [ ! -e {go} ]; do sleep 0.05; done; echo late) & exit 0");
    // It ends by itself, so that this test does where nothing comes.
    let script = format!(
        "\"$0\" b sh -c \"$1\"; touch {go}; for i in $(seq 600); do \
         [ -e {done} ] && exit 0; sleep 0.05; done"
    );
    let spawner = example("spawner");
    let words = ["run", "-n", "1", "--hosts", "a,b", "--label"];
    let program = ["--", "sh", "-c", &script, &spawner, &left];
    let mut job = hosts.on(&hosts.a, &[&words[..], &program].concat());
    let mut job = job.stderr(Stdio::null()).spawn().expect("nsenter");
    let said = BufReader::new(job.stdout.take().expect("piped"));
    let mut lines = Vec::new();
    for line in said.lines() {
        let line = line.expect("text");
        let is_late = line == "[0] late";
        lines.push(line);
        if is_late {
            std::fs::write(&done, b"").expect("written");
        }
    }
    assert!(job.wait().expect("its end").success());
    assert!(lines.contains(&"[0] late".to_owned()), "{lines:?}");
    let ended = lines.iter().position(|line| line.contains("ended 1."));
    let late = lines.iter().position(|line| line == "[0] late");
    assert!(ended.is_some() && ended < late, "{lines:?}");
}

#[test]
fn member_that_has_ended_is_named_on_all_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let meeting = example("meeting");
    for (order, mode) in [
        ("a,b:2", "before"),
        ("a,b:2", "during"),
        ("b:2,a", "before"),
        ("b:2,a", "during"),
    ] {
        let words = ["run", "--hosts", order, "--", &meeting, mode];
        let said = hosts.said(&hosts.a, &words);
        let count = |what: &str| {
            let line = format!("{what}: task 1.");
            let named = said.lines().filter(|said| said.starts_with(&line));
            named.filter(|said| said.ends_with(".2 has ended")).count()
        };
        let counts = ["barrier", "reduction", "counted"].map(count);
        assert_eq!(counts, [2, 1, 2], "{order} {mode}: {said}");
    }
}

#[test]
fn signals_reach_tasks_of_all_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let place = hosts.a.folder.path().display().to_string();
    for signal in [Signal::USR1, Signal::INT, Signal::TERM] {
        let number = signal.as_raw();
        let name = |rank: u32, what: &str| hosts.a.path(&format!("{rank}.{number}.{what}"));
        let script = format!(
            "trap 'touch {place}/$HYTHE_RANK.{number}.got; exit 0' {number}; \
             touch {place}/$HYTHE_RANK.{number}.runs; while :; do sleep 0.05; done"
        );
        let words = ["run", "--hosts", "a,b:2", "--", "sh", "-c", &script];
        let job = hosts.on(&hosts.a, &words).spawn().expect("nsenter");
        eventually("all run", || (0..3).all(|rank| name(rank, "runs").exists()));
        send(job.id(), signal);
        let output = job.wait_with_output().expect("its end");
        assert!(output.status.success(), "{signal:?}: {output:?}");
        assert!((0..3).all(|rank| name(rank, "got").exists()), "{signal:?}");
    }
}

#[test]
fn task_messages_bypass_agents_on_trusted_link() {
    let Some(hosts) = Hosts::trusting() else {
        return;
    };
    hosts.allow("*");
    let (program, enough) = (example("exchange"), hosts.a.path("enough"));
    let file = enough.to_str().expect("text");
    let words = ["run", "--hosts", "a,b", "--", &program, file];
    let job = hosts.on(&hosts.a, &words).spawn().expect("nsenter");
    for (host, other) in [(&hosts.a, "b"), (&hosts.b, "a")] {
        eventually("messages go by flows, each way", || {
            Hosts::carriers(host, other) == ["Receiving tcp", "Sending tcp"]
        });
    }
    std::fs::write(&enough, "").expect("written");
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"exchanged all\n", "{output:?}");
    // What is sent before its end comes, too.
    assert_flooded(&hosts);
}

#[test]
fn messages_wait_for_a_receiver_on_another_host() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    assert_flooded(&hosts);
}

/// All messages come to one that does not receive for long, of tasks that have ended by then.
fn assert_flooded(hosts: &Hosts) {
    for order in ["a,b:2", "b,a:2"] {
        for (count, bytes) in [("300", "4"), ("60", "1000000")] {
            let program = example("flood");
            let words = ["run", "--hosts", order, "--", &program, count, bytes];
            let said = hosts.said(&hosts.a, &words);
            assert_eq!(
                said.matches(&format!("got {count} from")).count(),
                2,
                "{said}"
            );
        }
    }
}

#[test]
fn tasks_of_another_host_are_listed_and_killed() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let (mut job, pids) = hosts.holding(&["--keep-going"]);
    for host in [&hosts.a, &hosts.b] {
        let tasks = hosts.tasks(host);
        let of = tasks
            .iter()
            .map(|task| task["host"].as_str().expect("a host"));
        assert_eq!(of.collect::<Vec<_>>(), ["a", "b", "b"]);
        assert_eq!(tasks[2]["pid"], pids[5]);
    }
    // From either host.
    hosts.said(&hosts.a, &["kill", "1.1.1", "--signal", "KILL"]);
    wait_until_gone(&pids[3..4]);
    hosts.said(&hosts.b, &["kill", "1.1.0", "--signal", "KILL"]);
    wait_until_gone(&pids[1..2]);
    eventually("one is listed", || hosts.tasks(&hosts.a).len() == 1);
    // By the kernel: nobody asked for it.
    send(pids[5], Signal::KILL);
    let ended = job.wait().expect("its end");
    assert_eq!(ended.code(), Some(137));
    wait_until_gone(&pids);
}

#[test]
fn nothing_is_left_whatever_is_killed() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    for victim in [
        "runner",
        "part",
        "supervisor of the part",
        "agent a",
        "agent b",
    ] {
        let (mut job, pids) = hosts.holding(&[]);
        let part = parent(pids[5]);
        assert_eq!(part, parent(pids[3]), "one part has both");
        send(
            match victim {
                "runner" => parent(pids[1]),
                "part" => part,
                "supervisor of the part" => parent(part),
                "agent a" => Hosts::agent(&hosts.a),
                _ => Hosts::agent(&hosts.b),
            },
            Signal::KILL,
        );
        let ended = job.wait().expect("its end");
        assert_eq!(ended.code(), Some(1), "{victim}");
        wait_until_gone(&pids);
        for (host, name) in [(&hosts.a, "agent a"), (&hosts.b, "agent b")] {
            if victim == name {
                assert!(
                    host.said(&["start", "--lease", LEASE])
                        .starts_with("ready at ")
                );
            }
        }
        eventually("they are connected again", || {
            hosts.a.is_connected_with("b") && hosts.b.is_connected_with("a")
        });
    }
}

#[test]
fn link_that_is_cut_ends_the_tasks_behind_it() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.allow("*");
    let (job, pids) = hosts.holding(&[]);
    hosts.lan.set_passing(hosts.b.plug, false);
    let ended = job.wait_with_output().expect("its end");
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let errors = String::from_utf8(ended.stderr).expect("text");
    assert!(errors.contains("was lost with its host"), "{errors}");
    wait_until_gone(&pids);
    hosts.lan.set_passing(hosts.b.plug, true);
}
