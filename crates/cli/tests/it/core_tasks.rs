//! `hythe core tasks` and `hythe core task`, and the shell's commands of the same names: a core's
//! tasks listed, started, stopped and killed, as text and as documents, and each refusal.

use crate::support;

use crate::support::{Root, send};
use rustix::process::Signal;
use serde_json::Value;

const HOSTED: &str = "hosted";

/// A core that runs `p1` in the background, stopped with this value.
struct P1 {
    root: Root,
}

impl P1 {
    fn start() -> Self {
        let root = Root::new();
        root.ok(&["core", "run", HOSTED, "--app", "p1", "--detach"]);
        Self { root }
    }

    fn tasks(&self) -> Vec<Value> {
        let document = self.root.json(&["core", "tasks", HOSTED]);
        assert_eq!(document["board"], HOSTED);
        assert_eq!(document["participants"], Value::Null);
        document["core_tasks"].as_array().expect("a list").clone()
    }

    fn one(&self, name: &str) -> Value {
        let tasks = self.tasks();
        let found = tasks.iter().find(|task| task["name"] == name);
        found.expect("there").clone()
    }

    fn act(&self, arguments: &[&str]) -> Value {
        self.root.json(&[&["core", "task"], arguments].concat())
    }
}

impl Drop for P1 {
    fn drop(&mut self) {
        let _ = self.root.run(&["core", "stop", HOSTED]);
    }
}

/// A process that does nothing until this value goes.
struct Paused<'a>(&'a Value);

impl<'a> Paused<'a> {
    fn new(pid: &'a Value) -> Self {
        send(pid, Signal::STOP);
        Self(pid)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        send(self.0, Signal::CONT);
    }
}

#[test]
fn tasks_are_listed_for_people_and_for_machines() {
    let p1 = P1::start();
    let tasks = p1.tasks();
    let names: Vec<&str> = tasks
        .iter()
        .filter_map(|task| task["name"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "service", "methods", "echo", "echo", "echo", "counter", "spinner", "worker", "worker",
            "worker", "worker"
        ]
    );
    let service = &tasks[0];
    assert_eq!(
        (&service["number"], &service["state"]),
        (&1.into(), &"running".into())
    );
    assert_eq!(
        (&service["permanent"], &service["starts"]),
        (&true.into(), &1.into())
    );
    assert_eq!(
        service["stack_free_least_bytes"],
        Value::Null,
        "threads have the stacks"
    );
    for field in ["priority", "stack_bytes", "run_time_us"] {
        assert!(
            service[field].as_u64().is_some_and(|number| number > 0),
            "{field}"
        );
    }
    let text = p1.root.ok(&["core", "tasks", HOSTED]);
    for word in [
        "TASK", "PRIORITY", "RUN TIME", "service", "spinner", "stopped",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert!(!text.contains("PARTICIPANT"), "{text}");
    let all = p1.root.json(&["core", "tasks", HOSTED, "--all"]);
    let participants = all["participants"].as_array().expect("a list");
    let names: Vec<&str> = participants
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["agent-hosted", "services-hosted"],
        "not this command itself"
    );
    assert_eq!(participants[0]["state"], "alive");
    let text = p1.root.ok(&["core", "tasks", HOSTED, "--all"]);
    assert!(text.contains("agent-hosted"), "{text}");
}

#[test]
fn task_is_started_stopped_and_killed() {
    let p1 = P1::start();
    let started = p1.act(&["start", HOSTED, "counter", "from Linux"]);
    assert_eq!(
        started,
        serde_json::json!({"task": "counter", "number": 6, "action": "start", "result": "running"})
    );
    assert!(p1.one("counter")["starts"] == 1 && p1.one("counter")["state"] != "stopped");
    let stopped = p1.act(&["stop", HOSTED, "counter"]);
    assert_eq!(
        (&stopped["action"], &stopped["result"]),
        (&"stop".into(), &"stopped".into())
    );
    assert_eq!(p1.one("counter")["state"], "stopped");
    let text = p1.root.ok(&["core", "task", "start", HOSTED, "6"]);
    assert_eq!(text.trim_end(), "task 6 (6) is running");
    let killed = p1.act(&["kill", HOSTED, "counter"]);
    assert_eq!(
        (&killed["result"], &killed["requests_forgotten"]),
        (&"killed".into(), &0.into())
    );
    assert_eq!(
        (&p1.one("counter")["state"], &p1.one("counter")["kills"]),
        (&"killed".into(), &1.into())
    );
    p1.root.ok(&["core", "task", "start", HOSTED, "spinner"]);
    let text = p1.root.ok(&["core", "task", "kill", HOSTED, "spinner"]);
    assert_eq!(
        text.trim_end(),
        "task spinner (7) has been killed; it held 0 buffers, and had 0 requests open"
    );
}

#[test]
fn each_refusal_names_value_and_remedy() {
    let p1 = P1::start();
    let task = |arguments: &[&str]| p1.root.run(&[&["core", "task"], arguments].concat());
    let long = "x".repeat(64);
    p1.root.ok(&["core", "task", "start", HOSTED, "counter"]);
    let refused: &[(&[&str], i32, &[&str])] = &[
        (
            &["start", HOSTED, "nothing"],
            1,
            &[
                "no task `nothing`",
                "service, methods, echo, counter, spinner, worker",
            ],
        ),
        (
            &["start", HOSTED, "counter"],
            1,
            &["runs already", "hythe core task stop hosted counter"],
        ),
        (
            &["start", HOSTED, "echo"],
            1,
            &["all 3 tasks `echo`", "hythe core task stop hosted echo"],
        ),
        (
            &["stop", HOSTED, "spinner"],
            1,
            &["does not run", "hythe core task start hosted spinner"],
        ),
        (&["kill", HOSTED, "spinner"], 1, &["does not run"]),
        (
            &["kill", HOSTED, "service"],
            1,
            &["is permanent", "hythe core stop"],
        ),
        (&["start", HOSTED, "spinner", &long], 2, &["64 bytes", "63"]),
        (&["kill", HOSTED, &long], 2, &["no name of a task"]),
        (
            &["kill", "mps2-an386", "echo"],
            1,
            &["does not run in this pool", "hythe core run mps2-an386"],
        ),
    ];
    for (arguments, code, words) in refused {
        task(arguments).failed(*code, words);
    }
    p1.root.ok(&["core", "task", "start", HOSTED, "spinner"]);
    task(&["stop", HOSTED, "spinner"])
        .failed(1, &["still runs", "hythe core task kill hosted spinner"]);
    p1.root.ok(&["core", "task", "kill", HOSTED, "spinner"]);
    task(&["start", HOSTED]).failed(2, &["NAME"]);
    task(&["pause", HOSTED, "echo"]).failed(2, &["pause"]);
}

#[test]
fn core_without_tasks_says_so() {
    let root = Root::new();
    root.ok(&["core", "run", HOSTED, "--app", "bench", "--detach"]);
    for command in [
        &["core", "tasks", HOSTED][..],
        &["core", "task", "kill", HOSTED, "echo"],
    ] {
        root.run(command).failed(
            1,
            &[
                "program `bench` of core `hosted`",
                "core/control",
                "hythe core run --app",
            ],
        );
    }
    root.ok(&["core", "stop", HOSTED]);
}

#[test]
fn core_that_is_down_or_stopped_is_said_to_be() {
    let p1 = P1::start();
    let status = p1.root.json(&["core", "status"]);
    let (core, agent) = (
        &status["cores"][0]["core_pid"],
        &status["cores"][0]["agent_pid"],
    );
    let tasks = || p1.root.run(&["core", "tasks", HOSTED]);
    let paused = Paused::new(core);
    let stopped = format!("its process {core} is stopped; SIGCONT lets it go on");
    tasks().failed(
        1,
        &[
            "core `hosted` has not answered for",
            &stopped,
            "`hythe core log hosted`",
        ],
    );
    drop(paused);
    tasks().succeeded();
    // Its agent can neither see that nor leave.
    let paused = Paused::new(agent);
    send(core, Signal::KILL);
    support::eventually("it is seen to be dead", || {
        p1.root.json(&["core", "status"])["cores"][0]["up"] == false
    });
    let down = [
        "core `hosted` is down: its process has ended",
        "hythe core run hosted",
    ];
    tasks().failed(1, &down);
    p1.root
        .run(&["core", "task", "start", HOSTED, "counter"])
        .failed(1, &down);
    drop(paused);
}

#[test]
fn core_with_a_name_of_its_own_has_tasks() {
    let root = Root::new();
    root.ok(&[
        "core", "run", HOSTED, "--app", "p1", "--as", "left", "--detach",
    ]);
    let started = root.json(&["core", "task", "start", "left", "counter"]);
    assert_eq!(started["result"], "running");
    let listed = root.json(&["core", "tasks", "left"]);
    assert_eq!(listed["board"], "left");
    root.ok(&["core", "stop", "left"]);
}

#[test]
fn shell_looks_after_tasks_and_shows_both_sides() {
    let root = Root::new();
    let commands = "open; run p1; tasks; task start counter one two; test 10 64; state; \
                    task stop counter; task start counter; task start spinner; \
                    task kill spinner; shutdown; tasks; stop; quit";
    let document = root.json(&["core", "shell", HOSTED, "-c", commands]);
    let steps = document["steps"].as_array().expect("a list");
    let result = |step: usize| &steps[step]["result"];
    assert!(steps.iter().all(|step| step["ok"] == true), "{document}");
    assert_eq!(result(2)["core_tasks"][0]["name"], "service");
    assert_eq!(result(3)["result"], "running");
    let state = result(5);
    assert!(state["link"]["core_session"].is_u64());
    let core = &state["core_view"];
    assert_eq!(core["session"], state["link"]["core_session"]);
    assert_eq!(core["linux_session"], state["link"]["linux_session"]);
    let ports = core["ports"].as_array().expect("a list");
    let ping = ports
        .iter()
        .find(|port| port["channel"] == "ping")
        .expect("attached");
    assert_eq!(
        (&ping["inbox_head"], &ping["held"]),
        (&10.into(), &0.into())
    );
    assert_eq!(result(9)["result"], "killed");
    assert_eq!(
        (&result(10)["held_by_core"], &result(10)["tasks_stopped"]),
        (&0.into(), &1.into())
    );
    let counter = &result(11)["core_tasks"][5];
    assert_eq!(
        (&counter["name"], &counter["state"]),
        (&"counter".into(), &"stopped".into())
    );
    let text = root.ok(&[
        "core",
        "shell",
        HOSTED,
        "-c",
        "open; run p1; state; shutdown; stop",
    ]);
    for word in ["AS THE CORE SEES IT", "core/control", "has stopped no task"] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    root.run(&[
        "core",
        "shell",
        HOSTED,
        "-c",
        "open; run p1; task kill nothing; stop",
    ])
    .failed_naming(1, &["no task `nothing`"]);
    root.run(&["core", "shell", HOSTED, "-c", "open; tasks"])
        .failed_naming(2, &["while opened"]);
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}
