//! The rows of the table, in the order of the paper's test scenario.

use serde_json::Value;

use crate::p1::table::Kind::{NotApplicable, Slow, Test};
use crate::p1::table::{Row, Stage};

const BOARD: &str = "mps2-an386";
/// The same with memory protection, and the name of its core: the other has the board's channels.
const PROTECTED_BOARD: &str = "mps2-an386-mpu";
const PROTECTED: &str = "protected";

pub(crate) const ROWS: [Row; 16] = [
    Row {
        name: "boot and console",
        kind: Test(boot),
    },
    Row {
        name: "a process of its own on each core",
        kind: Test(processes),
    },
    Row {
        name: "interrupts, both ways",
        kind: Test(interrupts),
    },
    Row {
        name: "shared memory, both ways",
        kind: Test(shared_memory),
    },
    Row {
        name: "address mapping",
        kind: Test(addresses),
    },
    Row {
        name: "zero copy",
        kind: Test(zero_copy),
    },
    Row {
        name: "a task asked for and confirmed",
        kind: Test(task_started),
    },
    Row {
        name: "a task stopped by force",
        kind: Test(task_killed),
    },
    Row {
        name: "access within what is permitted",
        kind: Test(access),
    },
    Row {
        name: "shell",
        kind: Test(shell),
    },
    Row {
        name: "player",
        kind: Test(player),
    },
    Row {
        name: "sizes",
        kind: Slow(sizes),
    },
    Row {
        name: "touch screen",
        kind: NotApplicable("hardware of the paper's board"),
    },
    Row {
        name: "USB",
        kind: NotApplicable("hardware of the paper's board"),
    },
    Row {
        name: "LAN",
        kind: NotApplicable("hardware of the paper's board"),
    },
    Row {
        name: "GUI",
        kind: NotApplicable("a program of the paper's board"),
    },
];

fn boot(stage: &mut Stage) -> Result<String, String> {
    stage.start(BOARD, BOARD)?;
    let line = stage.until("a line of the core", |stage| {
        let log = stage.hythe(&["core", "log", BOARD])?;
        let line = log.lines().find(|line| line.starts_with("p1: "));
        Ok(line.map(str::to_owned))
    })?;
    Ok(format!("the core says \"{line}\""))
}

fn processes(stage: &mut Stage) -> Result<String, String> {
    let listed = stage.document(&["core", "tasks", BOARD, "--all"])?;
    let count = |of: &str, is: &dyn Fn(&Value) -> bool| {
        let all = listed[of].as_array();
        all.map_or(0, |all| all.iter().filter(|one| is(one)).count())
    };
    let tasks = count("core_tasks", &|task| task["starts"] != 0);
    let processes = count("participants", &|one| one["state"] == "alive");
    if tasks == 0 || processes == 0 {
        return Err(listed.to_string());
    }
    Ok(format!("{tasks} tasks, {processes} processes"))
}

fn interrupts(stage: &mut Stage) -> Result<String, String> {
    let state = stage.shell(BOARD, "open; run; test 200 4096 bell; state")?;
    let rings = |side: &str| state["link"][side]["rings"].as_u64().unwrap_or(0);
    match (rings("linux_bell"), rings("core_bell")) {
        (0, _) | (_, 0) => Err(state["link"].to_string()),
        (to_core, to_linux) => Ok(format!("rung {to_core} times, and {to_linux} back")),
    }
}

fn shared_memory(stage: &mut Stage) -> Result<String, String> {
    let tested = stage.shell(BOARD, "open; run; test 1000 4096 poll")?;
    match tested["messages"] == 1000 {
        true => Ok("1000 messages came back unchanged".to_owned()),
        false => Err(tested.to_string()),
    }
}

fn addresses(stage: &mut Stage) -> Result<String, String> {
    let id = make_segment(stage, BOARD, 5000)?;
    let peek = format!("open; run; peek {id} 4999 165");
    let peeked = stage.shell(BOARD, &peek)?;
    let address = |of: &str| peeked[of].as_str().unwrap_or_default().to_owned();
    let (here, there) = (address("linux_address"), address("core_address"));
    if here == there || peeked["value"] != 165 {
        return Err(peeked.to_string());
    }
    Ok(format!(
        "one byte at {here} of Linux and {there} of the core"
    ))
}

/// Has the core make a segment: its id.
fn make_segment(stage: &mut Stage, board: &str, bytes: u32) -> Result<u32, String> {
    // Private; made if it is not there, for its owner.
    let made = rpc(stage, board, 20, &[0, bytes, 0o1600])?;
    made.first().copied().ok_or_else(|| "no id".to_owned())
}

/// Calls a method of `p1` with these words: the words that it returns.
fn rpc(stage: &mut Stage, board: &str, method: u32, words: &[u32]) -> Result<Vec<u32>, String> {
    let argument: String = words
        .iter()
        .map(|word| format!("{:08x}", word.swap_bytes()))
        .collect();
    let called = stage.shell(board, &format!("open; run; rpc {method} {argument}"))?;
    let result = called["result"].as_str().ok_or("no result")?;
    let word = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        let word = u32::from_str_radix(digits, 16);
        word.map(u32::swap_bytes).map_err(|error| error.to_string())
    };
    result.as_bytes().chunks(8).map(word).collect()
}

fn zero_copy(stage: &mut Stage) -> Result<String, String> {
    let tested = stage.shell(BOARD, "open; run; test 100 65536")?;
    match tested["in_place"] == 100 {
        true => Ok("100 of 100 messages came back in the slots that they were sent in".to_owned()),
        false => Err(tested.to_string()),
    }
}

fn task_started(stage: &mut Stage) -> Result<String, String> {
    let started = stage.document(&["core", "task", "start", BOARD, "counter"])?;
    stage.hythe(&["core", "task", "stop", BOARD, "counter"])?;
    match started["result"] == "running" {
        true => Ok("the core said that it runs".to_owned()),
        false => Err(started.to_string()),
    }
}

fn task_killed(stage: &mut Stage) -> Result<String, String> {
    stage.hythe(&["core", "task", "start", BOARD, "spinner"])?;
    stage.hythe(&["core", "task", "kill", BOARD, "spinner"])?;
    let listed = stage.document(&["core", "tasks", BOARD])?;
    let spinner = task(&listed, "spinner").ok_or("no spinner")?;
    if spinner["state"] != "killed" {
        return Err(spinner.to_string());
    }
    let tested = stage.shell(BOARD, "open; run; test 100 64")?;
    match tested["messages"] == 100 {
        true => Ok("the other tasks answer".to_owned()),
        false => Err(tested.to_string()),
    }
}

fn task<'a>(listed: &'a Value, name: &str) -> Option<&'a Value> {
    let tasks = listed["core_tasks"].as_array()?;
    tasks.iter().find(|task| task["name"] == name)
}

/// A restricted task writes to a variable of its program, which it was not granted.
fn access(stage: &mut Stage) -> Result<String, String> {
    stage.start(PROTECTED_BOARD, PROTECTED)?;
    let id = make_segment(stage, PROTECTED, 64 << 10)?;
    rpc(stage, PROTECTED, 21, &[id, 0])?;
    let variable = rpc(stage, PROTECTED, 30, &[2])?;
    let variable = variable.first().ok_or("no address")?;
    let write = format!("write {variable:x} 1");
    stage.hythe(&["core", "task", "start", PROTECTED, "guest", &write])?;
    let fault = stage.until("guest is stopped", |stage| {
        let listed = stage.document(&["core", "tasks", PROTECTED])?;
        let guest = task(&listed, "guest").filter(|guest| guest["state"] == "faulted");
        Ok(guest.map(|guest| guest["fault"].clone()))
    })?;
    if fault["address"] != format!("{variable:#x}") {
        return Err(format!("not at {variable:#x}: {fault}"));
    }
    let tested = stage.shell(PROTECTED, "open; run; test 100 64")?;
    match tested["messages"] == 100 {
        true => Ok(format!("stopped at {variable:#x}; the other tasks answer")),
        false => Err(tested.to_string()),
    }
}

fn shell(stage: &mut Stage) -> Result<String, String> {
    stage.hythe(&["core", "stop", BOARD])?;
    let session = "open; run; test 1000 4096; shutdown; stop; quit";
    stage.shell(BOARD, session)?;
    Ok("each step was done".to_owned())
}

/// Nothing is dropped, however loaded the machine is.
fn player(stage: &mut Stage) -> Result<String, String> {
    let film = stage.path("film.mp4");
    let shown = stage.path("film.y4m");
    stage.program("scripts/encode-movie.sh", &[&film, "2"])?;
    let options = ["--board", BOARD, "--stall", "250000", "--video-out", &shown];
    let played = stage.document(&[&["play"], &options[..], &[&film]].concat())?;
    let counts = ["frames_shown", "frames_dropped", "slots_leaked"].map(|count| &played[count]);
    if counts != [50, 0, 0] {
        return Err(played.to_string());
    }
    let pictures = pictures(stage, &film)?;
    match pictures == self::pictures(stage, &shown)? {
        true => Ok(format!("50 frames, as ffmpeg decodes them: {pictures}")),
        false => Err("other pictures than ffmpeg's".to_owned()),
    }
}

/// A sum of all pictures of a file, as ffmpeg decodes them.
fn pictures(stage: &mut Stage, file: &str) -> Result<String, String> {
    let input = ["-nostdin", "-loglevel", "error", "-i", file];
    let sum = ["-map", "0:v", "-fps_mode", "passthrough", "-f", "md5", "-"];
    let said = stage.program("ffmpeg", &[&input[..], &sum].concat())?;
    Ok(said.trim().to_owned())
}

fn sizes(stage: &mut Stage) -> Result<String, String> {
    stage.program("cargo", &["xtask", "sizes"])?;
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rtos/sizes.txt");
    let table = std::fs::read_to_string(table).map_err(|error| error.to_string())?;
    let all = table.lines().find(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next()) == (Some(BOARD), Some("all"))
    });
    let bytes = all.and_then(|line| line.split_whitespace().nth(2));
    let bytes = bytes.ok_or("no such row in rtos/sizes.txt")?;
    Ok(format!(
        "rtos/sizes.txt holds; the library has {bytes} bytes of code"
    ))
}
